"""ToolServer objects as gateways see them: from manifests, from an operator; Secrets as files."""

import socket

from programs import QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until

TOOL = """---
apiVersion: kelpie.dev/v1alpha1
kind: ToolServer
metadata: {name: weather}
spec:
  label: weather
  url: http://127.0.0.1:1/mcp
  network: Private
  headers: [{name: Authorization, secretKeyRef: {name: weather, key: token}}]
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def lines(gateway):
    return [line for line in gateway.ask("/readyz?verbose")[1].splitlines() if "tool server" in line]


def test_a_secret_that_comes_later(start, tmp_path, qwen3_path):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    text = manifest(engine("a", sim.port, path=qwen3_path)) + TOOL
    gateway = start(Gateway, text, "--tool-secrets", tmp_path)
    assert lines(gateway)[0].startswith("[-]tool server default/weather (weather): open `")
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather/token").write_text("Bearer very-secret\n")
    wait_until(lambda: lines(gateway) == ["[+]tool server default/weather (weather): known"], "the Secret's file")
    (tmp_path / "weather/token").unlink()
    wait_until(lambda: lines(gateway)[0].startswith("[-]"), "that it is gone")
    wait_until(lambda: gateway.text().count("tool server cannot be used") == 2, "both in the log")
    assert "very-secret" not in gateway.text()
    gateway.write(manifest(engine("a", sim.port, path=qwen3_path)))
    wait_until(lambda: lines(gateway) == [], "the program without it")


def test_without_a_folder_of_secrets(start, qwen3_path):
    gateway = start(Gateway, manifest(engine("a", start(Sim, "--vocab", QWEN3_TOKENS).port, path=qwen3_path)) + TOOL)
    assert lines(gateway) == ["[-]tool server default/weather (weather): the gateway has no --tool-secrets, and Secret `weather` is needed"]
    assert gateway.ask("/readyz")[0] == 200  # engines serve all the same


def test_from_an_operator(start, tmp_path, qwen3_path):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather/token").write_text("x")
    operator = start(Operator, manifest(engine("a", sim.port, path=qwen3_path)) + TOOL)
    gateway = start(Gateway, None, "--control", f"127.0.0.1:{operator.port}", "--id", "g", "--own", "default/a", "--peer-listen", f"127.0.0.1:{free_port()}", "--tool-secrets", tmp_path)
    wait_until(lambda: lines(gateway) == ["[+]tool server default/weather (weather): known"], "the operator's program")
