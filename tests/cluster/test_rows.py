"""What only kubelets can show: that an engine which never starts costs its gateway nothing, that an update cuts nobody, and what a grace period that is
too short costs."""

import json
import time

from nodes import MODE, ask, containers, is_ready, kubectl, pods, settle, wait_until


def change(**spec):
    kubectl("patch", "ie/demo", "--type=merge", "-p", json.dumps({"spec": spec}))


def conditions(pod):
    return {c["type"]: c["status"] for c in ask("get", "pod", pod)["status"]["conditions"]}


def with_argument(*words):
    engine = ask("get", "ie", "demo")["spec"]["template"]
    engine["spec"]["containers"][0]["args"] = ["--itl-ms", "100", *words]
    return engine


def budget(seconds, grace):
    """Hooks and grace periods are those that a pod was made with."""
    change(drain={"budgetSeconds": seconds})
    wait_until(lambda: all(p["spec"]["terminationGracePeriodSeconds"] == grace for p in pods()), "pods with that budget")
    settle()


def revisions():
    status = ask("get", "ie", "demo")["status"]
    return status["currentRevision"], status["updateRevision"]


def restarts_of_gateways():
    """Of the pods that serve, or of nodes: {pod: how often its gateway began anew}."""
    found = pods("kelpie.dev/node-gateway", "default") if MODE == "node" else pods()
    return {p["metadata"]["name"]: containers(p["metadata"]["name"])["kelpie-gateway"]["restartCount"] for p in found}


def test_row_8_an_engine_that_never_starts_restarts_no_gateway(address):
    """Its process ends again and again; its gateway goes on, and no pod that serves ends for it."""
    before, gateways = {p["metadata"]["name"] for p in pods()}, restarts_of_gateways()
    change(template=with_argument("--no-such-option"))
    broken = wait_until(lambda: [p for p in pods() if p["metadata"]["name"] not in before], "a pod of the new template")[0]["metadata"]["name"]
    try:
        wait_until(lambda: containers(broken)["engine"]["restartCount"] >= 3, "three restarts of the engine")
        if MODE != "node":
            gateway = containers(broken)["kelpie-gateway"]
            assert (gateway["restartCount"], gateway["started"]) == (0, True)
        assert "kelpie.dev/routable" not in conditions(broken)
        assert before <= {p["metadata"]["name"] for p in pods()}
        assert gateways.items() <= restarts_of_gateways().items()
    finally:
        change(template=with_argument())
        settle()


def test_row_9_an_update_waits_until_models_are_loaded(during):
    """An engine that does not answer yet is not routable: its pod is not ready, and none that serves ends for it."""

    def update():
        first = revisions()[0]
        template = with_argument("--max-context", "90000")
        engine = template["spec"]["containers"][0]
        engine["args"] = ["--listen", "0.0.0.0:50052", *engine["args"]]  # nobody finds it there
        change(template=template)
        wait_until(lambda: revisions()[1] != first, "the new revision")
        time.sleep(20)
        old = [p for p in pods() if "deletionTimestamp" not in p["metadata"] and is_ready(p)]
        assert len(old) == 3, "pods that serve have ended for one that does not"
        change(template=with_argument())
        wait_until(lambda: revisions() == (first, first), "the first revision again")

    ended = during("an update to engines that never answer, reverted", update)
    assert [outcome for outcome, found in ended.items() if found] == ["whole"], {k: v[:3] for k, v in ended.items() if k != "whole"}


def test_row_9_an_update_and_its_revert_cut_nobody(during):
    """A -> B -> A, the second change before the first is through."""

    def update():
        first = revisions()[0]
        change(template=with_argument("--max-context", "100000"))
        wait_until(lambda: revisions()[1] != first, "the new revision")
        wait_until(lambda: any("deletionTimestamp" in p["metadata"] for p in pods()), "the first old pod to end")
        change(template=with_argument())
        wait_until(lambda: revisions() == (first, first), "the first revision again")

    ended = during("an update, reverted while it goes on", update)
    assert [outcome for outcome, found in ended.items() if found] == ["whole"], {k: v[:3] for k, v in ended.items() if k != "whole"}


def test_row_9_a_budget_that_is_too_short_costs_only_what_is_longer(during):
    """Streams of five seconds and a budget of one: those that had begun may end early, with a reason; nothing new fails."""
    try:
        budget(1, grace=20)
        at = []

        def delete():
            at.append(time.time())
            kubectl("delete", "pod", pods()[0]["metadata"]["name"])

        ended = during("a pod is deleted, with a budget of 1 s", delete)
        begun = ended.pop("error") + ended.pop("cut")
        assert all(e["began"] < at[0] + 8 for e in begun), begun[:3]
        assert [outcome for outcome, found in ended.items() if found] == ["whole"], {k: v[:3] for k, v in ended.items() if k != "whole"}
    finally:
        budget(30, grace=45)
