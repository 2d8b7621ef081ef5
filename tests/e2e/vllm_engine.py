"""vLLM on the CPU behind its own gRPC servicer, from the environment that `make check-vllm` makes ($KP_VLLM_VENV)."""

import os
import pathlib
import socket

from programs import Program, wait_until

CONTEXT = 2048
ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def venv():
    return pathlib.Path(os.environ["KP_VLLM_VENV"])


class Vllm(Program):
    def __init__(self, model, *options, context=CONTEXT):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        super().__init__(
            "vllm",
            [
                *(venv() / "bin/vllm", "serve", model, "--grpc", "--host", "127.0.0.1", "--port", self.port),
                *("--max-model-len", context, "--enforce-eager", "--served-model-name", "tiny", *options),
            ],
            env=ENV,
        )

    def wait_routable(self, gateway):
        def ready():
            assert self.process.poll() is None, f"vLLM ended: {self.text()[-3000:]}"
            return gateway.ask("/readyz")[0] == 200

        wait_until(ready, "vLLM", timeout=600)

    def family(self):
        """Its process and those below it."""
        found = [self.pid]
        for pid in found:
            for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in tasks.read_text().split()]
        return found
