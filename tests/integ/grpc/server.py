"""The test service of tests/integ/grpc on grpcio; see service.txt."""

import json
import signal
import sys
import threading
import time
from concurrent import futures

import grpc

lock = threading.Lock()
active = 0
max_active = 0


def report(event, **fields):
    with lock:
        print(json.dumps({"event": event, **fields}), flush=True)


def parse(request):
    words = request[:4096].decode("utf-8", "surrogateescape").split(" ")
    return dict(word.split("=", 1) for word in words if "=" in word)


def reply(k, size):
    one = bytes((k + i) % 256 for i in range(256))
    return (one * (size // 256 + 1))[:size]


class Probe(grpc.GenericRpcHandler):
    """Bytes in, bytes out: no serializers are given."""

    def service(self, details):
        if details.method == "/kelpie.test.Probe/Unary":
            return grpc.unary_stream_rpc_method_handler(lambda request, context: self.serve(True, request, context))
        if details.method == "/kelpie.test.Probe/Stream":
            return grpc.unary_stream_rpc_method_handler(lambda request, context: self.serve(False, request, context))
        return None

    def serve(self, unary, request, context):
        global active, max_active
        with lock:
            active += 1
            max_active = max(max_active, active)
        try:
            yield from self.replies(unary, request, context)
        finally:
            with lock:
                active -= 1

    def replies(self, unary, request, context):
        ask = parse(request)

        def number(name):
            return int(ask.get(name, 0))

        sent = 0
        over = threading.Event()
        state = {"returned": False}

        def ended():
            if not state["returned"]:
                report("cancelled", id=ask.get("id", ""), sent=sent)
            over.set()

        context.add_callback(ended)
        report("begun", id=ask.get("id", ""), sent=0)
        count = (0 if number("status") else 1) if unary else number("count")
        if number("wait_ms"):
            over.wait(number("wait_ms") / 1000)
        while sent < count and context.is_active():
            yield request if ask.get("echo") == "1" else reply(sent, number("size"))
            sent += 1
            if sent % 1000 == 0:
                report("sent", id=ask.get("id", ""), sent=sent)
            if number("delay_ms"):
                over.wait(number("delay_ms") / 1000)
        state["returned"] = context.is_active()
        trailers = [(name, value) for name, value in context.invocation_metadata() if name.startswith("x-")]
        trailers += [("sent", str(sent)), ("max-active", str(max_active))]
        left = context.time_remaining()
        if left is not None and left < 1e9:  # without a deadline: centuries
            trailers.append(("left-ms", str(int(left * 1000))))
        context.set_trailing_metadata(trailers)
        if number("status"):
            code = next(c for c in grpc.StatusCode if c.value[0] == number("status"))
            context.set_code(code)
            context.set_details(ask.get("message", "").replace("_", " "))


def main():
    options = dict(arg.split("=", 1) for arg in sys.argv[1:])
    args = [("grpc.max_receive_message_length", 64 << 20), ("grpc.so_reuseport", 0)]
    if "max_streams" in options:
        args.append(("grpc.max_concurrent_streams", int(options["max_streams"])))
    server = grpc.server(
        futures.ThreadPoolExecutor(16),
        handlers=[Probe()],
        options=args,
        compression=grpc.Compression.Gzip if options.get("gzip") else None,
    )
    port = server.add_insecure_port(options.get("listen", "127.0.0.1:0"))
    server.start()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    report("listening", port=port)
    while not stop.wait(0.05):
        pass
    server.stop(60).wait()


if __name__ == "__main__":
    main()
