"""A client on grpcio for test_server.py: commands and answers are those of tests/tools/grpc_probe.c, as far as they are about calls.

Usage: ADDRESS [ca=FILE] [cert=FILE key=FILE] [name=NAME].
"""

import json
import pathlib
import sys
import threading
import zlib

import grpc

lock = threading.Lock()
calls = {}


def report(**fields):
    with lock:
        print(json.dumps(fields), flush=True)


class Call:
    def __init__(self, channel, words, text):
        self.id, method, *options = words
        self.options = {}
        metadata = []
        for word in options:
            name, _, value = word.partition("=")
            if name == "md":
                key, _, v = value.partition(":")
                metadata.append((key, bytes.fromhex(v) if key.endswith("-bin") else v))
            else:
                self.options[name] = int(value)
        self.resumed = threading.Event()
        request = text.encode() + b"x" * self.options.get("pad", 0)
        timeout = self.options["timeout_ms"] / 1000 if "timeout_ms" in self.options else None
        self.stream = channel.unary_stream(method)(request, timeout=timeout, metadata=metadata)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        messages, size, crc, due = 0, 0, 0, 1
        try:
            for reply in self.stream:
                crc = zlib.crc32(reply, zlib.crc32(len(reply).to_bytes(4, "big"), crc))
                messages, size = messages + 1, size + len(reply)
                if messages == due:
                    due *= 10
                    report(event="progress", id=self.id, messages=messages)
                if messages == self.options.get("cancel_after"):
                    self.stream.cancel()
                if messages == self.options.get("pause_after"):
                    report(event="progress", id=self.id, messages=messages)
                    self.resumed.wait()
        except grpc.RpcError:
            pass
        trailers = [(name, value.hex() if isinstance(value, bytes) else value) for name, value in self.stream.trailing_metadata() or ()]
        report(
            event="end", id=self.id, code=self.stream.code().name, message=self.stream.details() or "", messages=messages, bytes=size, crc=crc,
            trailers=trailers,
        )


def connect(address, files):
    options = [("grpc.max_receive_message_length", 64 << 20)]
    if "ca" not in files:
        return grpc.insecure_channel(address, options)
    read = {name: pathlib.Path(files[name]).read_bytes() for name in ("ca", "key", "cert") if name in files}
    if "name" in files:
        options.append(("grpc.ssl_target_name_override", files["name"]))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(read["ca"], read.get("key"), read.get("cert")), options)


def main():
    with connect(sys.argv[1], dict(arg.split("=", 1) for arg in sys.argv[2:])) as channel:
        for line in sys.stdin:
            verb, _, rest = line.rstrip("\n").partition(" ")
            if verb == "start":
                head, _, text = rest.partition(" -- ")
                call = Call(channel, head.split(), text)
                calls[call.id] = call
            elif verb == "cancel":
                calls[rest].stream.cancel()
            elif verb == "resume":
                calls[rest].resumed.set()
            else:
                sys.exit(f"bad command {line!r}")
        for call in calls.values():
            call.stream.cancel()
            call.resumed.set()
            call.thread.join()


if __name__ == "__main__":
    main()
