"""Speaks to probe.c: the library under test, over pipes, a batch at a time."""
import array
import pathlib
import struct
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import golang  # noqa: E402


class ProbeError(Exception):
    pass


class Probe:
    def __init__(self, path, scratch_bytes=4 << 20):
        program = golang.helper("token", "probe")
        self.p = subprocess.Popen([program, path, str(scratch_bytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)

    def close(self):
        try:
            self.p.stdin.close()
        except BrokenPipeError:
            pass
        status = self.p.wait(timeout=30)
        message = self.p.stderr.read().decode()
        self.p.stdout.close()
        self.p.stderr.close()
        return status, message

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _exchange(self, requests, read):
        """Writes all requests from a thread while the answers are read."""
        def write():
            try:
                for r in requests:
                    self.p.stdin.write(r)
                self.p.stdin.flush()
            except BrokenPipeError:
                pass
        writer = threading.Thread(target=write)
        writer.start()
        try:
            return [read() for _ in requests]
        finally:
            writer.join()

    def _bytes(self, n):
        b = self.p.stdout.read(n)
        if len(b) != n:
            self.p.wait(timeout=30)
            raise ProbeError("the probe died: status %d, %s" % (self.p.returncode, self.p.stderr.read().decode()))
        return b

    def _array(self):
        n, = struct.unpack("=I", self._bytes(4))
        if n == 0xFFFFFFFF:
            return self._error()
        a = array.array("I")
        a.frombytes(self._bytes(4 * n))
        return a.tolist()

    def _text(self):
        n, = struct.unpack("=I", self._bytes(4))
        if n == 0xFFFFFFFF:
            return self._error()
        return self._bytes(n)

    def _error(self):
        n, = struct.unpack("=I", self._bytes(4))
        return ProbeError(self._bytes(n).decode())

    def encode(self, texts, add_special=False, file_limits=False):
        """Ids of each text, or a ProbeError in its place."""
        raw = [t if isinstance(t, bytes) else t.encode() for t in texts]
        flags = bytes([add_special | file_limits << 1])
        return self._exchange([struct.pack("=ccI", b"e", flags, len(t)) + t for t in raw], self._array)

    def encode_runs(self, parts, policy=0, control=(), markers=(), add_special=False):
        """parts: (text, origin) in order; origins 0 trusted, 1 client, 2 assistant."""
        def ids(x):
            return struct.pack("=I%dI" % len(x), len(x), *x)
        text, runs = b"", []
        for t, origin in parts:
            text += t.encode()
            runs += [len(text), origin]
        request = struct.pack("=cc", b"r", bytes([policy << 1 | add_special])) + ids(control) + ids(markers)
        request += struct.pack("=I%dI" % len(runs), len(runs) // 2, *runs) + struct.pack("=I", len(text)) + text
        return self._exchange([request], self._array)[0]

    def decode(self, lists, skip_special=True, incremental=False):
        flags = bytes([skip_special | incremental << 1])
        return self._exchange([struct.pack("=cc%dI" % (len(x) + 1), b"d", flags, len(x), *x) for x in lists], self._text)

    def facts(self):
        head, _, template = self._exchange([b"i\0"], self._text)[0].decode().partition("\ntemplate\n")
        out = {line.split(" ", 1)[0]: line.split(" ", 1)[1] if " " in line else "" for line in head.split("\n")}
        out["template"] = template
        return out
