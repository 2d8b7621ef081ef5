"""mcp_probe, servers made with the SDK, and a server that is told what to say."""

import http.server
import json
import os
import pathlib
import queue
import socketserver
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/integ/grpc"))
import peers  # noqa: E402


class Probe(peers.Child):
    """Its end with status 0 and nothing on standard error is part of every test."""

    def __init__(self, *argv):
        super().__init__([peers.tool("mcp_probe"), *argv], stderr=subprocess.PIPE)
        self.n = 0

    def send(self, op, url="", **members):
        self.n += 1
        id = members.pop("id", f"q{self.n}")
        self.process.stdin.write(json.dumps({"op": op, "id": id, "url": url, **members}) + "\n")
        self.process.stdin.flush()
        return id

    def tools(self, url, **members):
        return self.expect(id=self.send("list", url, **members))

    def call(self, url, tool, _arguments=None, **members):
        arguments = members.pop("text", None) or json.dumps(_arguments or {})
        id = self.send("call", url, tool=tool, arguments=arguments, **members)
        while "progress" in (answer := self.expect(id=id)):
            pass
        return answer

    def metrics(self):
        return self.expect(id=self.send("metrics"))["text"]

    def end(self):
        self.process.stdin.close()
        text = self.process.stderr.read()
        assert self.process.wait(peers.PATIENCE) == 0, text
        assert not text, text


class SdkServer(peers.Child):
    def __init__(self, *flags, port=0):
        venv = subprocess.run([ROOT / "hack/venv", "mcp"], check=True, capture_output=True, text=True).stdout.strip()
        self.flags = flags
        super().__init__([f"{venv}/bin/python", HERE / "server.py", str(port), *flags], stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"})
        self.port = next(line["ready"] for line in iter(self.next, None) if "ready" in line)
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def stop(self):
        self.process.kill()
        self.process.wait()


class Asked:
    def __init__(self, handler):
        self.method, self.path, self.headers = handler.command, handler.path, dict(handler.headers.items())
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.message = json.loads(body) if body else {}
        self.rpc = self.message.get("method")
        self.id = self.message.get("id")


class Scripted:
    """script(asked, handler) answers each POST that is not initialize or a notification; None: as one without tools would."""

    def __init__(self, script=None, session="s1", capabilities=None, version="2025-06-18", initialize=None):
        self.script, self.session, self.version, self.initialize = script, session, version, initialize
        self.capabilities = {"tools": {}} if capabilities is None else capabilities
        self.asked = queue.Queue()
        self.all = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked = Asked(self)
                outer.all.append(asked)
                outer.asked.put(asked)
                if asked.rpc == "initialize":
                    (outer.initialize or Scripted.start)(outer, asked, self)
                elif asked.id is None:
                    self.answer(202)
                else:
                    outer.script(asked, self)

            do_DELETE = do_GET = lambda self: (outer.all.append(Asked(self)), outer.asked.put(outer.all[-1]), self.answer(200))

            def answer(self, status, body=b"", type="application/json", **headers):
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if body:
                    self.send_header("Content-Type", type)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body)

            def result(self, asked, result, **headers):
                self.answer(200, {"jsonrpc": "2.0", "id": asked.id, "result": result}, **headers)

            def text(self, asked, text):
                self.result(asked, {"content": [{"type": "text", "text": text}]})

            def events(self):
                """A stream until the connection's end."""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True

            def event(self, message):
                self.wfile.write(b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n")
                self.wfile.flush()

            def log_message(self, *a):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def start(self, asked, handler):
        headers = {"Mcp_Session_Id": self.session} if self.session else {}
        result = {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": {"name": "s", "version": "1"}}
        handler.result(asked, result, **headers)

    def rpcs(self):
        return [a.rpc or a.method for a in self.all]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
