"""Our parsers over pipes: tests/oracle/prompt/parse.c."""

import json
import pathlib
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import golang  # noqa: E402


class Ours:
    def __init__(self):
        self.process = subprocess.Popen([golang.helper("prompt", "parse")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        return self.process.wait()
