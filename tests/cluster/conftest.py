"""Kelpie on two real nodes, brought up by hack/check-cluster, which runs these tests; by themselves they are skipped. Each test puts a steady
load on the Service and does one thing to the cluster; at the end a table says what became of the streams."""

import pathlib
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from nodes import MODE, OUTCOMES, RATE, ROOT, Streams, ask, is_ready, kubectl, settle, wait_until  # noqa: E402

table = []


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE and not MODE:
            item.add_marker(pytest.mark.skip(reason="needs two nodes: make check-cluster"))


def pytest_terminal_summary(terminalreporter):
    if table:
        write = terminalreporter.write_line
        write(f"\nStreams of 5 s, {RATE} a second, in mode {MODE}; half of the clients in a pod, half outside; half keep their connections.")
        write(f"{'what happened':44}{'streams':>8}" + "".join(f"{o:>9}" for o in OUTCOMES) + f"{'resent':>9}{'first p50':>11}{'p99, ms':>9}")
        for what, ended in table:
            first = sorted(1000 * (e["first"] - e["began"]) for e in ended if e.get("first"))
            counts = "".join(f"{sum(e['outcome'] == o for e in ended):>9}" for o in OUTCOMES)
            at = [first[min(int(len(first) * p), len(first) - 1)] for p in (0.5, 0.99)] if first else [0, 0]
            write(f"{what:44}{len(ended):>8}{counts}{sum(e['resent'] for e in ended):>9}{at[0]:>11.0f}{at[1]:>9.0f}")


@pytest.fixture(scope="session")
def address():
    import yaml

    objects = list(yaml.safe_load_all((HERE / "engine.yaml").read_text()))
    pool, engine = objects[0]["spec"], objects[1]["spec"]
    engine["template"]["spec"]["containers"][0]["image"] = "kelpie.dev/sim-engine:" + (ROOT / "VERSION").read_text().strip()
    if MODE == "node":
        engine["gateway"]["mode"] = "Node"
        pool["selector"]["matchLabels"] = {"app": "demo-gateway"}
    kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))
    settle()
    wait_until(lambda: is_ready(ask("get", "pod", "client")), "the client's pod")
    spec = ask("get", "service", "demo")["spec"]
    return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"


@pytest.fixture
def during(address):
    """during(what, do): the load, and do() in the middle of it; all streams that ended, by outcome."""
    running = []

    def observe(what, do):
        settle()
        streams = Streams(address)
        running.append(streams)
        time.sleep(8)
        do()
        settle()
        time.sleep(3)
        ended = streams.end()
        table.append((what, ended))
        for e in ended:
            if e["outcome"] != "whole" or e["resent"]:
                print({k: v for k, v in e.items() if k != "n"})
        return {outcome: [e for e in ended if e["outcome"] == outcome] for outcome in OUTCOMES}

    yield observe
    for streams in running:
        streams.stop()
