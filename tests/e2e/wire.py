"""HTTP as the tests need it: whole answers, and streams event by event with sockets that can be dropped at any moment."""

import contextlib
import json
import socket

PATIENCE = 60.0


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error of an OpenAI-shaped answer; its shape is checked."""
        return check_error(self.json())


def check_error(value):
    assert list(value) == ["error"], value
    error = value["error"]
    assert list(error) == ["message", "type", "param", "code"], error
    assert isinstance(error["message"], str) and error["message"], error
    assert isinstance(error["type"], str) and error["type"], error
    for name in ("param", "code"):
        assert error[name] is None or isinstance(error[name], str) and error[name], error
    return error


class Broken(Exception):
    """The connection ended where it must not."""


class Connection:
    """One HTTP/1.1 connection."""

    def __init__(self, port, timeout=PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.received = 0

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def request(self, path, body=None, method=None, headers=()):
        self.send(encode(path, body, method, headers))

    def _fill(self):
        piece = self.socket.recv(65536)
        self.received += len(piece)
        if not piece:
            raise Broken(f"the connection ended; unread: {self.buffer[-200:]!r}")
        self.buffer += piece

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _take(self, n):
        while len(self.buffer) < n:
            self._fill()
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def head(self):
        """(status, headers); headers' names in lower case."""
        version, status, _ = (self._line() + b" ").split(b" ", 2)
        assert version == b"HTTP/1.1", version
        headers = {}
        while line := self._line():
            name, value = line.split(b":", 1)
            headers[name.decode().lower()] = value.strip().decode()
        return int(status), headers

    def pieces(self, headers):
        """The body as it comes."""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(self._line(), 16):
                yield self._take(size)
                assert self._take(2) == b"\r\n"
            assert self._line() == b""
        elif "content-length" in headers:
            left = int(headers["content-length"])
            while left:
                if not self.buffer:
                    self._fill()
                piece = self._take(min(left, len(self.buffer)))
                left -= len(piece)
                yield piece
        else:
            raise AssertionError(f"no framing: {headers}")

    def answer(self):
        status, headers = self.head()
        while status == 100:
            status, headers = self.head()
        return Answer(status, headers, b"".join(self.pieces(headers)))

    def ended(self):
        """The other side has closed, and sent nothing more."""
        try:
            piece = self.socket.recv(1)
        except ConnectionResetError:
            return True
        assert not piece and not self.buffer, (piece, self.buffer)
        return True


def encode(path, body=None, method=None, headers=()):
    """A request's bytes. `body`: bytes, or a value that becomes JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1", "Host: kelpie.test"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def call(port, path, body=None, method=None, headers=()):
    """One request on a connection of its own."""
    with Connection(port) as c:
        c.request(path, body, method, headers)
        return c.answer()


def split_events(pieces):
    """The data of each server-sent event, comments left out, as each becomes complete."""
    text = b""
    for piece in pieces:
        text += piece
        while b"\n\n" in text:
            event, text = text.split(b"\n\n", 1)
            if event.startswith(b":"):
                continue
            assert event.startswith(b"data: ") and b"\n" not in event, event
            yield event[6:].decode()
    assert not text, text


def named_events(text):
    """The data of each event of a stream whose events have names: their `type`."""
    found = []
    assert text.endswith("\n\n")
    for block in text.removesuffix("\n\n").split("\n\n"):
        event, data = block.split("\n")
        assert event.startswith("event: ") and data.startswith("data: ")
        value = json.loads(data[6:])
        assert value["type"] == event[7:]
        found.append(value)
    return found


class Stream:
    """A streamed answer. Iterating gives its chunks; `error` is what it ended with in place of [DONE]."""

    def __init__(self, connection):
        self.connection = connection
        self.status, self.headers = connection.head()
        self.error, self.done = None, False
        if self.status != 200:
            body = b"".join(connection.pieces(self.headers))
            raise AssertionError(f"{self.status}: {body.decode()}")
        assert self.headers["content-type"] == "text/event-stream", self.headers

    def __iter__(self):
        for data in split_events(self.connection.pieces(self.headers)):
            assert not self.done and not self.error, f"after the end: {data}"
            if data == "[DONE]":
                self.done = True
                continue
            value = json.loads(data)
            if "error" in value:
                self.error = check_error(value)
            else:
                yield value
        assert self.done or self.error, "neither [DONE] nor an error"


def stream_named(port, path, body, headers=()):
    """The text of such a stream."""
    with Connection(port) as c:
        c.request(path, {**body, "stream": True}, headers=headers)
        status, answered = c.head()
        text = b"".join(c.pieces(answered)).decode()
    assert status == 200 and answered["content-type"] == "text/event-stream", text
    return text


@contextlib.contextmanager
def stream(port, path, body):
    with Connection(port) as c:
        c.request(path, {**body, "stream": True})
        yield Stream(c)


class Joined:
    """What the choices of a streamed answer add up to: text, logprobs, finish_reason, stop_reason per index."""

    def __init__(self, chunks, chat):
        self.text, self.logprobs, self.finish, self.stop_reason = {}, {}, {}, {}
        self.usage, self.ids, self.models, self.roles = None, set(), set(), {}
        self.n_chunks = 0
        for chunk in chunks:
            self.n_chunks += 1
            self.ids.add(chunk["id"])
            self.models.add(chunk["model"])
            assert chunk["object"] == ("chat.completion.chunk" if chat else "text_completion"), chunk
            if not chunk["choices"]:
                assert self.usage is None, "two usages"
                self.usage = chunk["usage"]
                continue
            assert self.usage is None, f"after the usage: {chunk}"
            assert chunk.get("usage") is None, chunk
            for choice in chunk["choices"]:
                self._add(choice, chat)

    def _add(self, choice, chat):
        i = choice["index"]
        assert i not in self.finish, f"after the end: {choice}"
        if chat:
            delta = choice["delta"]
            if "role" in delta:
                assert i not in self.roles and i not in self.text, choice
                self.roles[i] = delta["role"]
            else:
                assert i in self.roles, f"before the role: {choice}"
            piece = delta.get("content", "")
        else:
            piece = choice["text"]
        self.text[i] = self.text.get(i, "") + piece
        if choice["logprobs"] is not None:
            kept = self.logprobs.setdefault(i, {})
            for name, value in choice["logprobs"].items():
                kept[name] = kept.get(name, []) + value if isinstance(value, list) else value
        if choice["finish_reason"] is not None:
            self.finish[i] = choice["finish_reason"]
            self.stop_reason[i] = choice.get("stop_reason")


CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def both(port, path, body):
    """The answer as it comes whole, after checking that the streamed one adds up to the same."""
    answer = call(port, path, body)
    assert answer.status == 200, answer.body
    whole = answer.json()
    chat = path == CHAT
    with stream(port, path, {**body, "stream_options": {"include_usage": True}}) as s:
        joined = Joined(s, chat)
        assert s.done and s.error is None, s.error
    assert len(joined.ids) == 1 and joined.models == {whole["model"]}
    assert sorted(joined.text) == [c["index"] for c in whole["choices"]] == list(range(len(whole["choices"])))
    for c in whole["choices"]:
        i = c["index"]
        assert joined.text[i] == (c["message"]["content"] if chat else c["text"])
        assert joined.finish[i] == c["finish_reason"]
        assert joined.stop_reason[i] == c.get("stop_reason")
        assert joined.logprobs.get(i) == c["logprobs"]
        if chat:
            assert joined.roles[i] == c["message"]["role"] == "assistant"
    assert joined.usage == whole["usage"]
    return whole


class Http2:
    """One cleartext HTTP/2 connection with prior knowledge (PyPI h2). `streams`: id -> status, headers, body, ended, reset."""

    def __init__(self, port, timeout=PATIENCE):
        import h2.config
        import h2.connection

        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        )
        self.h2.initiate_connection()
        self.streams, self.received, self.goaway = {}, b"", None
        self.flush()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def request(self, path, body=None):
        """Starts a request; its stream's id. The body must fit into the first window."""
        number = self.h2.get_next_available_stream_id()
        head = {
            ":method": "GET" if body is None else "POST",
            ":scheme": "http",
            ":authority": "kelpie.test",
            ":path": path,
        }
        if body is not None:
            head["content-type"] = "application/json"
        self.streams[number] = {"status": None, "headers": {}, "body": b"", "ended": False, "reset": None}
        self.h2.send_headers(number, list(head.items()), end_stream=body is None)
        if body is not None:
            self.h2.send_data(number, json.dumps(body).encode(), end_stream=True)
        self.flush()
        return number

    def reset(self, number):
        self.h2.reset_stream(number, 8)
        self.flush()

    def wait_window(self, n):
        """Until the other side takes n bytes more on the connection."""
        while self.h2.outbound_flow_control_window < n:
            self.pump()

    def pump(self):
        """Takes what has arrived, waiting for it."""
        piece = self.socket.recv(65536)
        if not piece:
            raise Broken("the connection ended")
        self.received += piece
        while len(self.received) >= 9 and len(self.received) >= 9 + (
            size := int.from_bytes(self.received[:3], "big")
        ):
            frame, self.received = self.received[: 9 + size], self.received[9 + size :]
            self._take(frame)
        self.flush()

    def _take(self, frame):
        import h2.connection
        import h2.events as ev

        for event in self.h2.receive_data(frame):
            if isinstance(event, ev.ConnectionTerminated):
                # The library wants nothing more, but streams below the last one go on.
                self.goaway = event
                self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
            stream = self.streams.get(getattr(event, "stream_id", None))
            if isinstance(event, ev.ResponseReceived):
                stream["headers"] = dict(event.headers)
                stream["status"] = int(stream["headers"][":status"])
            elif isinstance(event, ev.DataReceived):
                stream["body"] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, ev.StreamEnded):
                stream["ended"] = True
            elif isinstance(event, ev.StreamReset):
                stream["reset"] = event.error_code

    def answer(self, number):
        stream = self.streams[number]
        while not stream["ended"] and stream["reset"] is None:
            self.pump()
        assert stream["reset"] is None, stream
        return Answer(stream["status"], stream["headers"], stream["body"])

    def wait_body(self, number, n):
        """Until n bytes of the body have arrived."""
        stream = self.streams[number]
        while len(stream["body"]) < n:
            assert not stream["ended"] and stream["reset"] is None, stream
            self.pump()
