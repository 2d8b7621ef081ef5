"""A gateway that comes to a standby through a Service goes on to the leader that it names, and comes back to the Service when that one is not there."""

import subprocess
import threading
import time
from concurrent import futures

import fakes
import grpc
import pytest
from fakes import programs, wait_until


class Fake:
    """An operator of grpcio's: it ends each stream with this message, or holds it (None) until it ends. `at`: when streams came."""

    def __init__(self, says):
        self.says, self.at, self.ended = says, [], threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("kelpie.control.v1.Control", {"Connect": self._handler()})])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _handler(self):
        def connect(messages, context):
            self.at.append(time.monotonic())
            if self.says:
                context.abort(grpc.StatusCode.UNAVAILABLE, self.says)
            next(messages)
            yield fakes.message("OperatorMessage")(welcome={"protocol": 1, "id": "leader", "epoch": 1})
            self.ended.wait()

        return grpc.stream_stream_rpc_method_handler(connect, response_serializer=lambda m: m.SerializeToString())

    def stop(self):
        self.ended.set()
        self.server.stop(0).wait()


@pytest.fixture
def fake():
    made = []

    def make(says=None):
        made.append(Fake(says))
        return made[-1]

    yield make
    for f in made:
        f.stop()


@pytest.fixture
def gateway():
    running = []

    def make(operator):
        program = programs.BUILD / "bin/kelpie-sidecar"
        options = ["--id", "gw", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"]
        running.append(subprocess.Popen([program, "--control", f"127.0.0.1:{operator.port}", *options], stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield make
    for p in running:
        p.kill()
        p.communicate()


def standby(address):
    return f"operator `b` is a standby; the leader is `{address}`"


def test_the_leader_that_a_standby_names_is_asked_next(fake, gateway):
    leader = fake()
    at_service = fake(standby(f"127.0.0.1:{leader.port}"))
    gateway(at_service)
    wait_until(lambda: leader.at, "it asks the leader")
    assert len(at_service.at) == 1
    assert leader.at[0] - at_service.at[0] < 2
    time.sleep(1)
    assert (len(at_service.at), len(leader.at)) == (1, 1)  # and stays there
    leader.stop()
    wait_until(lambda: len(at_service.at) > 1, "the leader is gone, so it comes back")


@pytest.mark.parametrize("named", ["127.0.0.1:1", "", "nonsense", "10.0.0.1:9090", "x" * 400, "127.0.0.1:1` and `127.0.0.1:2"])
def test_a_leader_that_is_not_there_leads_back_to_the_service(fake, gateway, named):
    at_service = fake(standby(named))
    program = gateway(at_service)
    wait_until(lambda: len(at_service.at) >= 4, "it tries again")
    assert program.poll() is None
    time.sleep(2)
    assert len(at_service.at) < 14  # with growing pauses
