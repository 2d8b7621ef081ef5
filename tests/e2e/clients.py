"""Clients that run beside a test: those that want their answers whatever others do, and those that send next to nothing."""

import threading
import time

from wire import COMPLETIONS, Connection, Stream

HEAD_TIMEOUT, BODY_TIMEOUT = 10, 30  # seconds the gateway gives them


class Bystander(threading.Thread):
    """A client that streams answer after answer, and knows what each must be."""

    def __init__(self, gateway, expected, prompt):
        super().__init__(daemon=True)
        self.gateway, self.expected, self.prompt = gateway, expected, prompt
        self.done, self.failures, self.over = 0, [], threading.Event()
        self.start()

    def run(self):
        body = {"model": "m", "prompt": self.prompt, "max_tokens": 30, "stream": True}
        while not self.over.is_set():
            try:
                with Connection(self.gateway.port) as c:
                    c.request(COMPLETIONS, body)
                    stream = Stream(c)
                    text = "".join(chunk["choices"][0]["text"] for chunk in stream)
                    assert stream.done and text == self.expected, (stream.error, text)
                self.done += 1
            except Exception as e:  # whatever it is, the test must hear of it
                self.failures.append(repr(e))
                time.sleep(0.1)


class Slow(threading.Thread):
    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.port, self.error, self.seconds, self.answer = gateway.port, None, None, None
        self.start()

    def run(self):
        try:
            with Connection(self.port, timeout=90) as c:
                started = time.monotonic()
                self.trickle(c)
                self.answer = c.answer()
                self.seconds = time.monotonic() - started
                assert c.ended()
        except Exception as e:
            self.error = repr(e)


class SlowHead(Slow):
    limit = HEAD_TIMEOUT

    def trickle(self, c):
        """A byte every half second, until there is an answer."""
        c.socket.settimeout(0.5)
        for byte in b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 50:
            c.send(bytes([byte]))
            try:
                c.buffer += c.socket.recv(65536)
                break
            except TimeoutError:
                pass
        c.socket.settimeout(60)


class SilentHead(Slow):
    limit = HEAD_TIMEOUT

    def trickle(self, c):
        c.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")


class SilentBody(Slow):
    limit = BODY_TIMEOUT

    def __init__(self, gateway, chunked=False, path=COMPLETIONS):
        self.path = path
        self.framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 100"
        self.begin = b"5\r\n{" if chunked else b"{"
        super().__init__(gateway)

    def trickle(self, c):
        c.send(
            f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
            + self.framing
            + b"\r\n\r\n"
            + self.begin
        )


class Patient(Slow):
    """Its engine thinks longer than a connection may be quiet."""

    def run(self):
        try:
            with Connection(self.port, timeout=90) as c:
                c.request(COMPLETIONS, {"model": "thinking", "prompt": "x", "max_tokens": 4, "stream": True})
                _, headers = c.head()
                self.answer = b"".join(c.pieces(headers))
        except Exception as e:
            self.error = repr(e)
