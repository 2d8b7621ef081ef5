"""kubectl-kelpie against a real operator, two gateways and two engines: what a person sees is what is."""

import json
import os
import re
import subprocess

import pytest
from programs import BUILD, QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until
from wire import COMPLETIONS, call

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}


def kelpie(*words, expect=0, env=None):
    """(what it prints, what it complains)"""
    done = subprocess.run(
        [BUILD / "bin/kubectl-kelpie", *(str(w) for w in words)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "http_proxy": "http://127.0.0.1:1", **(env or {})},
    )
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    assert bool(done.stderr) == bool(expect), done.stderr
    return done.stdout, done.stderr


def tables(text):
    """{first column's name: [{column: cell}]} of the tables in a text."""
    found = {}
    for block in re.split(r"\n\n", text):
        lines = [line.strip() for line in block.splitlines()]
        columns = re.split(r" {2,}", lines[0])
        found[columns[0]] = [dict(zip(columns, re.split(r" {2,}", line), strict=True)) for line in lines[1:]]
    return found


class World:
    def __init__(self, start, qwen3_path):
        self.sims = [start(Sim, "--vocab", QWEN3_TOKENS) for _ in range(2)]
        ports = [s.port for s in self.sims]
        self.operator = start(Operator, manifest(engine("e", *ports, path=qwen3_path, aliases=("m-alias",))))
        self.gateways = [
            start(Gateway, None, "--control", f"127.0.0.1:{self.operator.port}", "--id", f"gw-{x}",
                  "--own", f"default/e/{i}", "--peer-listen", "127.0.0.1:0")
            for i, x in enumerate("ab")
        ]  # fmt: skip
        for g in self.gateways:
            wait_until(lambda g=g: g.ask("/readyz?verbose")[1].count(": routable") == 2, "two engines")
        wait_until(self.is_settled, "the operator knows it")

    @property
    def server(self):
        return f"http://127.0.0.1:{self.operator.admin}"

    def ask(self, *words, **options):
        return kelpie(*words, env={"KELPIE_SERVER": self.server}, **options)

    def is_settled(self):
        told = self.operator.told()
        return [g["current"] for g in told["gateways"]] == [True, True] and [
            e["state"] for e in told["engines"][0]["endpoints"]
        ] == ["routable", "routable"]


@pytest.fixture
def world(start, qwen3_path):
    return World(start, qwen3_path)


def test_status(world):
    found = tables(world.ask("status")[0])
    assert found["POOL"] == [{"POOL": "default/pool", "PORTS": "8080", "ENGINES": "1"}]
    (model,) = found["MODEL"]
    assert (model["MODEL"], model["ENGINE"], model["ROUTABLE"], model["READY"]) == ("m", "default/e", "2/2", "True")
    assert [(e["ENDPOINT"], e["ADDRESS"], e["STATE"], e["OWNER"]) for e in found["ENDPOINT"]] == [
        ("default/e/0", world.sims[0].address, "routable", "gw-a"),
        ("default/e/1", world.sims[1].address, "routable", "gw-b"),
    ]
    assert [(g["GATEWAY"], g["STATE"]) for g in found["GATEWAY"]] == [("gw-a", "Current"), ("gw-b", "Current")]
    assert len({g["PROGRAM"] for g in found["GATEWAY"]}) == 1
    (operator,) = found["OPERATOR"]
    assert operator["READY"] == "True"
    wide = tables(world.ask("status", "-o", "wide")[0])
    assert [g["ADMIN"] for g in wide["GATEWAY"]] == [f"127.0.0.1:{g.admin}" for g in world.gateways]
    assert wide["MODEL"][0]["ALIASES"] == "m-alias"
    assert json.loads(world.ask("status", "-ojson")[0])["engines"] == world.operator.told()["engines"]


def test_status_shows_claims_that_do_not_hold(world, start):
    assert "WARNING" not in world.ask("status")[0]
    start(Gateway, None, "--control", f"127.0.0.1:{world.operator.port}", "--id", "gw-c", "--own", "default/e/0",
          "--own", "default/x", "--peer-listen", "127.0.0.1:0")
    wait_until(lambda: [len(g.get("problems", ())) for g in world.operator.told()["gateways"]] == [0, 0, 2], "the operator knows it")
    out = world.ask("status")[0]
    assert "\nWARNING: 2 problems of gateways\n" in out
    assert f"default/gw-c   gateway `gw-c` claims `default/e/0`: gateway `gw-a` has `default/e/{world.sims[0].address}` by an equal claim" in out
    assert "default/gw-c   gateway `gw-c` claims `default/x`: there is no such endpoint" in out


def test_status_names_what_is_wrong(world):
    world.sims[0].kill()
    wait_until(lambda: world.operator.told()["engines"][0]["endpoints"][0]["state"] == "down", "the operator hears of it")
    world.gateways[1].kill()
    wait_until(lambda: not world.operator.told()["gateways"][1]["connected"], "the operator notices")
    world.operator.write_and_wait("kind: nonsense\n", "manifests refused, the last good program stays")
    wait_until(lambda: world.operator.told()["manifests"].get("errors"), "it is told")
    out = world.ask("status", "-o", "wide")[0]
    assert "MANIFESTS REFUSED: " in out and f"{world.operator.manifest}:1:" in out
    found = tables(out)
    assert found["ENDPOINT"][0]["STATE"] == "down" and found["ENDPOINT"][0]["REASON"] != "<none>"
    assert [g["STATE"] for g in found["GATEWAY"]] == ["Current", "Lost"]


def test_explain_a_model(world):
    for name in ("m", "m-alias"):
        out = world.ask("explain", name)[0]
        assert out.startswith("Model:           m\n" if name == "m" else "Model:           m-alias, an alias of m\n")
        for line in ("Engine:          default/e", "  Pool:          pool", "  Protocol:      vllm", "  Routable:      2/2",
                     "  Chat template: the model's own", "  Text policy:   Markers", "  Parsers:       tool calls hermes (the template writes `<tool_call>`), thoughts qwen3",
                     "  Context:       ",
                     "  Its messages:  system text, user text, assistant text, tool text, arguments object, tools wrapped, beside calls empty",
                     "  It shows:      parallel calls, reasoning beside calls\n"):  # fmt: skip
            assert line in out, out
        assert re.search(r"  Program:       \d+ [0-9a-f]{8}, acknowledged by 2 of 2 gateways\n", out)
        assert re.search(r"  Tokenizer:     .*, 151\d\d\d tokens\n", out)
        assert re.search(rf"\n  default/e/{world.sims[0].address} +gw-a +own +routable ", out)
        assert re.search(rf"\n  default/e/{world.sims[1].address} +gw-b +(node|pool) +routable ", out)
    both = json.loads(world.ask("explain", "m", "--output=json")[0])
    assert both["engines"][0]["name"] == "e" and both["served"][0]["revisions"][0]["engine"] == "default/e"
    # The gateway's half alone, without operator.
    alone = kelpie("explain", "m", "--gateway", f"127.0.0.1:{world.gateways[0].admin}", "-s", "127.0.0.1:1")[0]
    assert "Served by:       gw-a" in alone and "Engine:" not in alone


def test_explain_says_why_an_endpoint_is_not_routable(world):
    world.sims[1].kill()
    wait_until(lambda: world.operator.told()["engines"][0]["endpoints"][1]["state"] == "down", "the operator hears of it")
    out = world.ask("explain", "m")[0]
    row = re.search(rf"\n  {world.sims[1].address} +down +gw-b +0 +\S+ +(.*)\n", out)
    assert row and row[1] not in ("-", "<none>"), out
    assert "  Routable:      1/2" in out


def test_explain_a_request(world):
    gateway = world.gateways[1]
    id = call(gateway.port, COMPLETIONS, BODY, headers=(("x-request-id", "mine-1"),)).json()["id"]
    first = world.ask("explain", id)[0]
    assert f"Request:   {id}\n" in first and "Client's:  mine-1\n" in first
    for line in ("Model:     m", "Pool:      default/pool", "Revision:  default/e", "Gateway:   gw-b", "Outcome:   ok (200), "):
        assert line in first, first
    assert re.search(r"Choice 0:\n  Attempt 1: default/e/127\.0\.0\.1:\d+ \(own, of gw-b\), because: .+\n  Outcome: ok, begun after", first)
    assert re.search(r"\n    default/e/127\.0\.0\.1:\d+ +gw-b +own +routable +\d+ +\d+ +\d+ +picked\n", first)
    # The client's own id works too, though it might have been a model's name; so does the gateway alone.
    assert world.ask("explain", "mine-1")[0] == first
    assert kelpie("explain", id, f"--gateway=http://127.0.0.1:{gateway.admin}/", "--server=127.0.0.1:1")[0] == first
    assert json.loads(world.ask("explain", id, "-ojson")[0])["request"] == id


def test_explain_a_request_that_another_gateway_ran(world):
    world.sims[1].kill()
    wait_until(lambda: world.gateways[1].ask("/readyz?verbose")[1].count(": routable") == 1, "one engine is left")
    id = call(world.gateways[1].port, COMPLETIONS, BODY).json()["id"]
    out = world.ask("explain", id)[0]
    assert "Gateway:   gw-b\n" in out
    assert re.search(rf"\n  Attempt 1: default/e/{world.sims[0].address} \((node|pool), of gw-a\), because: ", out)
    assert re.search(rf"\n    default/e/{world.sims[1].address} +gw-b +own +down +\d+ +\d+ +\d+ +down\n", out)


def test_what_is_not_known(world):
    assert world.ask("explain", "chatcmpl-none", expect=3)[1] == (
        "kubectl-kelpie: explain `chatcmpl-none`: 2 gateways asked: none knows a request of that id\n"
    )
    assert world.ask("explain", "nope", expect=3)[1] == (
        "kubectl-kelpie: explain `nope`: there is no such model, and of 2 gateways asked: none knows a request of that id\n"
    )
    # A gateway that does not answer may be the one that knows.
    world.gateways[0].kill()
    said = world.ask("explain", "chatcmpl-none", expect=4)[1]
    assert f"127.0.0.1:{world.gateways[0].admin}" in said and "is not known to 1 of 2 gateways" in said
    world.operator.kill()
    said = world.ask("status", expect=4)[1]
    assert f"{world.server}/status" in said and "--server, KELPIE_SERVER" in said
