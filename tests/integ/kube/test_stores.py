"""Stores of lib/kube against a real API server that is killed, stopped, compacted, forbidden and slow."""

import signal
import time

import pytest
import rig
from rig import MAPS

pytestmark = pytest.mark.kube

READ_MAPS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
QUICK = ("1000", "1000", "2000")  # probe after, probe timeout, connect timeout, in milliseconds


def until(p, id, names, seconds=rig.PATIENCE):
    """The store has these in the end."""
    deadline = time.monotonic() + seconds
    while sorted((now := p.keys(id))["keys"]) != sorted(names):
        assert time.monotonic() < deadline, now
        time.sleep(0.05)
    return now


def raw(ns, name):
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": ns.name, "uid": f"uid-{name}", "labels": {"k": "v"}},
    }


@pytest.mark.parametrize("paged", [False, True])
def test_lists_and_follows(probe, ns, paged):
    for i in range(7):
        ns.make(f"m{i}")
    p = probe()
    p.store("s", ns, paged=paged, page=3)
    assert p.expect(event="synced", id="s")["count"] == 7
    assert [line["what"] for line in p.seen if line.get("event") == "changed"] == ["added"] * 7
    ns.make("new")
    assert p.expect(event="changed", name="new")["what"] == "added"
    ns.change("new", x="1")
    assert p.expect(event="changed", name="new")["what"] == "updated"
    ns.delete("new")
    assert p.expect(event="changed", name="new")["what"] == "deleted"
    state = until(p, "s", [f"m{i}" for i in range(7)])
    assert (state["lists"], state["watches"]) == (1, 1)


def test_selectors(probe, ns):
    p = probe()
    p.store("labels", ns, labels="k in (v, w),!other")
    p.store("fields", ns, labels="", fields="metadata.name=b")
    for id in ("labels", "fields"):
        p.expect(event="synced", id=id)
    ns.make("a")
    ns.make("b")
    until(p, "labels", ["a", "b"])
    until(p, "fields", ["b"])
    # Out of the selector is out of the store.
    ns.cluster.ask("PATCH", f"{ns.maps}/a", {"metadata": {"labels": {"k": "no"}}}, "application/merge-patch+json")
    until(p, "labels", ["b"])


@pytest.mark.parametrize("paged", [False, True])
def test_destroyed_in_its_callback(probe, ns, paged):
    for i in range(5):
        ns.make(f"m{i}")
    p = probe()
    p.store("s", ns, paged=paged, drop_at_change=True)
    p.expect(event="changed")
    assert [line for line in p.drain(0.3) if line["event"] != "state"] == []


def test_too_many_objects(probe, ns):
    for i in range(5):
        ns.make(f"m{i}")
    p = probe()
    p.store("s", ns, max_objects=3)
    state = p.expect(event="state", id="s", connected=False)
    assert (state["code"], state["message"]) == ("RESOURCE_EXHAUSTED", "watch `configmaps`: more than 3 objects")
    time.sleep(2)
    assert p.keys("s")["lists"] <= 4  # with pauses


def test_the_server_ends_watches(probe, ns):
    p = probe()
    p.store("s", ns, watch_s=1)
    p.expect(event="synced")
    ns.make("a")
    p.expect(event="changed", name="a")
    time.sleep(3.2)
    ns.make("b")
    p.expect(event="changed", name="b")
    state = p.keys("s")
    assert state["lists"] == 1 and 3 <= state["watches"] <= 6
    assert [line for line in p.seen if line["event"] == "state" and not line["connected"]] == []


def test_paging_across_410(probe, ns):
    """The version that pages are read at is compacted away between two of them: it lists anew, and has everything."""
    p = probe()
    names = [f"m{i:03}" for i in range(300)]
    ns.cluster.put_raw({f"configmaps/{ns.name}/{name}": raw(ns, name) for name in names})
    p.store("s", ns, paged=True, page=1)
    p.expect(event="changed", name="m010")
    p.signal(signal.SIGSTOP)
    ns.delete("m005")
    ns.make("z")
    ns.cluster.compact()
    p.signal(signal.SIGCONT)
    p.expect(event="synced")
    state = until(p, "s", [n for n in names if n != "m005"] + ["z"])
    assert state["lists"] == 2
    assert [line["name"] for line in p.seen if line.get("what") == "deleted"] == ["m005"]
    assert [line for line in p.seen if line["event"] == "state" and not line["connected"]] == []


def test_api_server_restarts_and_events_are_missed(cluster, probe, ns):
    """The watch is cut and what happens meanwhile is forgotten: 410, a list, and what vanished is told. The server that
    comes back is also one without WatchList: it says so, and pages are asked for."""
    p = probe(cluster.admin, *QUICK)
    for name in ("stays", "goes", "again"):
        ns.make(name)
    p.store("s", ns)
    p.expect(event="synced")
    uid = next(line["uid"] for line in p.seen if line.get("name") == "again")
    p.signal(signal.SIGSTOP)
    cluster.kill_api_server()
    cluster.delete_raw(f"configmaps/{ns.name}/goes")
    cluster.put_raw({f"configmaps/{ns.name}/{name}": raw(ns, name) for name in ("again", "new")})
    cluster.compact()
    cluster.up("--feature-gates=WatchList=false")
    p.signal(signal.SIGCONT)
    assert p.expect(event="changed", what="deleted", name="goes")
    until(p, "s", ["stays", "again", "new"])
    changes = [(line["what"], line["uid"] == uid) for line in p.seen if line.get("name") == "again"]
    assert changes == [("added", True), ("deleted", True), ("added", False)]
    ns.make("later")
    p.expect(event="changed", name="later")
    assert p.keys("s")["lists"] == 3  # the first, the question for a WatchList, the pages
    cluster.kill_api_server()
    cluster.up()
    ns.make("after")
    p.expect(event="changed", name="after")


def test_silent_stall(cluster, probe, ns):
    """The server is stopped: nothing comes, nothing ends. Noticed by a probe, and over when it goes on."""
    p = probe(cluster.admin, *QUICK)
    p.store("s", ns)
    p.store("other", ns)
    p.expect(event="synced", id="s")
    p.expect(event="state", id="other", connected=True)
    ns.make("before")
    p.expect(event="changed", id="s", name="before")
    cluster.signal("kube-apiserver", signal.SIGSTOP)
    began = time.monotonic()
    try:
        for id in ("s", "other"):
            lost = p.expect(event="state", id=id, connected=False)
            assert lost["code"] == "UNAVAILABLE" and "silent" in lost["message"]
        assert time.monotonic() - began < 6
        assert p.keys("s")["keys"] == ["before"]  # the last that was known stays
    finally:
        cluster.signal("kube-apiserver", signal.SIGCONT)
    ns.make("after")
    p.expect(event="changed", id="s", name="after")
    assert p.keys("s")["lists"] == 1
    assert p.metric("kelpie_kube_silent_connections_total") >= 1


def test_idle_watch(probe, ns):
    """Not even a bookmark for so long: the watch is begun anew, from where it was."""
    p = probe()
    p.store("s", ns, idle_ms=500)
    p.expect(event="synced")
    lost = p.expect(event="state", id="s", connected=False)
    assert (lost["code"], lost["message"].endswith("nothing came for 500 ms")) == ("DEADLINE_EXCEEDED", True)
    ns.make("a")
    p.expect(event="changed", name="a")


def test_rights_are_taken_away(cluster, probe, ns, tmp_path):
    ns.account("one", READ_MAPS)
    ns.make("a")
    p = probe(cluster.kubeconfig(tmp_path / "config", {"token": cluster.token(ns.name, "one")}))
    p.store("s", ns, watch_s=1)
    deadline = time.monotonic() + rig.PATIENCE
    p.expect(event="synced")
    ns.unbind("one")
    lost = p.expect(event="state", id="s", connected=False)
    assert lost["code"] == "PERMISSION_DENIED" and 'cannot watch resource "configmaps"' in lost["message"]
    ns.make("b")
    assert p.keys("s")["keys"] == ["a"]
    ns.bind("one")
    p.expect(event="state", id="s", connected=True)
    until(p, "s", ["a", "b"])
    assert p.keys("s")["lists"] == 1
    assert time.monotonic() < deadline + rig.PATIENCE


def test_a_kind_that_comes_later(cluster, probe, ns):
    p = probe()
    widgets = {"group": "t.example", "version": "v1", "plural": "widgets", "kind": "Widget"}
    p.store("s", ns, labels="", **widgets)
    assert p.expect(event="state", id="s")["code"] == "NOT_FOUND"
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    spec = {"group": "t.example", "scope": "Namespaced", "names": names, "versions": [version]}
    cluster.ask("POST", crds, {"metadata": {"name": "widgets.t.example"}, "spec": spec})
    p.expect(event="state", id="s", connected=True)
    assert p.ask("apply", ns=ns.name, name="w", body={"apiVersion": "t.example/v1", "kind": "Widget", "metadata": {"name": "w"}}, **widgets)[
        "http"
    ] == 201
    p.expect(event="changed", name="w", what="added")
    cluster.ask("DELETE", f"{crds}/widgets.t.example")
    p.expect(event="changed", name="w", what="deleted")


@pytest.mark.parametrize("paged", [False, True])
def test_ten_thousand_objects(probe, ns, paged):
    """1.3 KiB each. Their text is 13 MiB; what is kept are values, which are larger."""
    n = 10_000
    field = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    objects = {f"configmaps/{ns.name}/m{i:05}": raw(ns, f"m{i:05}") for i in range(n)}
    for one in objects.values():
        one["metadata"]["labels"] |= {f"label-{k}": "x" * 20 for k in range(5)}
        one["metadata"]["managedFields"] = [{**field, "fieldsV1": {"f:data": {}}}]
        one["data"] = {f"key-{k}": "v" * 60 for k in range(10)}
    ns.cluster.put_raw(objects)
    p = probe()
    p.do("metrics", "before")
    before = p.expect(event="metrics")
    began = time.monotonic()
    p.store("s", ns, paged=paged, quiet=True)
    assert p.expect(event="synced", timeout=60)["count"] == n
    took = time.monotonic() - began
    p.do("metrics", "after")
    after = p.expect(event="metrics")
    mib = (after["max_rss_kib"] - before["max_rss_kib"]) / 1024
    cpu = after["user_ms"] - before["user_ms"]
    print(f"paged={paged}: {took:.2f} s, {cpu} ms of user time, {mib:.0f} MiB more at most")
    ns.cluster.ask("DELETE", f"/api/v1/namespaces/{ns.name}")
    assert "asan" in rig.peers.BUILD.name or mib < 120
