"""The other side of a test whose program is run apart: questions on stdin, a line of JSON each, are answered by a line each."""

import json
import sys


def answer_all(answer):
    """answer(**question) gives the answer; ["error", why] where it raises."""
    for line in sys.stdin:
        try:
            out = answer(**json.loads(line))
        except Exception as e:
            out = ["error", repr(e)]
        print(json.dumps(out), flush=True)
