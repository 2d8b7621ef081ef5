"""The programs of tests/integ/engine: the sim engine, our client (the probe), and an engine of grpcio's that says what a test tells it, each in any of
the engines' protocols."""

import concurrent.futures
import contextlib
import json
import pathlib
import queue
import subprocess
import sys
import threading
import time

import grpc
from smg_grpc_proto.generated import common_pb2, sglang_scheduler_pb2, sglang_scheduler_pb2_grpc, vllm_engine_pb2, vllm_engine_pb2_grpc

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "integ" / "grpc"))
import peers  # noqa: E402

PATIENCE = peers.PATIENCE


class Vllm:
    """vLLM's protocol: requests and messages from the same words as the other's."""

    name = "vllm"
    pb = vllm_engine_pb2
    service = "vllm.grpc.engine.VllmEngine"
    stub = vllm_engine_pb2_grpc.VllmEngineStub
    not_healthy = "Engine is not alive"

    @classmethod
    def request(cls, prompt, stream=True, request_id="r", text="", **params):
        return cls.pb.GenerateRequest(
            request_id=request_id, stream=stream, tokenized=cls.pb.TokenizedInput(input_ids=prompt, original_text=text),
            sampling_params=cls.pb.SamplingParams(**params),
        )

    @classmethod
    def abort(cls, request_id):
        return cls.pb.AbortRequest(request_ids=["nobody", request_id])

    @classmethod
    def chunk(cls, ids, choice=0, prompt=3, **more):
        return cls.pb.GenerateResponse(chunk=cls.pb.GenerateStreamChunk(
            token_ids=ids, index=choice, prompt_tokens=prompt, completion_tokens=len(ids), **more
        ))

    @classmethod
    def complete(cls, ids, choice=0, reason="stop", prompt=3, **more):
        return cls.pb.GenerateResponse(complete=cls.pb.GenerateComplete(
            output_ids=ids, index=choice, finish_reason=reason, prompt_tokens=prompt, completion_tokens=len(ids), **more
        ))


class Sglang(Vllm):
    """SGLang's. Its completion_tokens count up; a test that cares gives them."""

    name = "sglang"
    pb = sglang_scheduler_pb2
    service = "sglang.grpc.scheduler.SglangScheduler"
    stub = sglang_scheduler_pb2_grpc.SglangSchedulerStub
    not_healthy = "Health check timeout after 20s"

    @classmethod
    def request(cls, prompt, stream=True, request_id="r", text="", logprobs=None, prompt_logprobs=None, max_tokens=None, min_tokens=None, **params):
        wanted = [k for k in (logprobs, prompt_logprobs) if k is not None]
        return cls.pb.GenerateRequest(
            request_id=request_id, stream=stream, tokenized=cls.pb.TokenizedInput(input_ids=prompt, original_text=text),
            sampling_params=cls.pb.SamplingParams(max_new_tokens=max_tokens, min_new_tokens=min_tokens, **params),
            return_logprob=bool(wanted), logprob_start_len=-1 if prompt_logprobs is None else 0, top_logprobs_num=max(wanted, default=0),
        )

    @classmethod
    def abort(cls, request_id):
        return cls.pb.AbortRequest(request_id=request_id, reason="test")


PROTOCOLS = {"vllm": Vllm, "sglang": Sglang}


def program(name):
    return str(peers.golang.make(f"bin/{name}", peers.BUILD.relative_to(peers.ROOT)))


class Sim:
    """bench/sim-engine on a free port, with a log and a control file in `folder`."""

    def __init__(self, folder, *args, listen="127.0.0.1:0"):
        self.control = folder / "control"
        self.log_path = folder / "log"
        self.control.touch()
        self.process = subprocess.Popen(
            [program("sim-engine"), "--listen", listen, "--log", str(self.log_path), "--control", str(self.control), *map(str, args)],
            stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        )
        line = self.process.stdout.readline()
        assert line.startswith("ready on "), f"the sim engine says {line!r}, status {self.process.poll()}"
        self.address = line.split()[2]
        self.channel = grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.stubs = {name: protocol.stub(self.channel) for name, protocol in PROTOCOLS.items()}

    def log(self, **fields):
        """The log's lines that have these fields, now."""
        lines = [json.loads(line) for line in self.log_path.read_text().splitlines()] if self.log_path.exists() else []
        return [line for line in lines if all(line.get(k) == v for k, v in fields.items())]

    def logged(self, timeout=PATIENCE, **fields):
        """The first such line, now or within the time."""
        end = time.monotonic() + timeout
        while not (found := self.log(**fields)):
            assert time.monotonic() < end, f"no line with {fields} in the engine's log: {self.log()[-10:]}"
            time.sleep(0.01)
        return found[0]

    def stop(self):
        """Asks it to end; it must, with status 0 (a sanitizer's complaint is another)."""
        self.channel.close()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE)


class Probe(peers.Child):
    """tests/tools/engine_probe.c, connected to an address."""

    def __init__(self, address, *args, protocol="vllm"):
        super().__init__([peers.tool("engine_probe"), address, f"protocol={protocol}", *args])

    def do(self, command):
        self.process.stdin.write(command + "\n")

    def end(self, ident):
        """The end of a generation, whether it has been seen or not."""
        for line in self.seen:
            if line["event"] == "end" and line["id"] == ident:
                return line
        return self.expect(event="end", id=ident)

    def generate(self, ident, options):
        """One generation to its end: (deltas, end)."""
        self.do(f"start {ident} {options}")
        end = self.end(ident)
        return [line for line in self.seen if line["event"] == "delta" and line["id"] == ident], end

    def ask(self, question):
        self.do(question)
        return self.expect(event=question.split()[0])

    def finish(self):
        """It must end by itself and clean: under a sanitizer a leak is another status."""
        if self.process.poll() is None:
            self.do("quit")
            self.process.stdin.close()
        assert self.wait() == 0


@contextlib.contextmanager
def probes():
    """A function that makes probes; at the end each has to end clean."""
    made = []

    def make(*args, **more):
        made.append(Probe(*args, **more))
        return made[-1]

    yield make
    for probe in made:
        try:
            probe.finish()
        finally:
            probe.close()


class Scripted:
    """An engine of grpcio's. Requests are kept in `requests`; what is answered is set by the test: `responses`, a list of messages (or bytes), or a
    grpc.StatusCode to end with, or (code, details)."""

    def __init__(self, protocol):
        pb = self.pb = protocol.pb
        self.requests = queue.Queue()
        self.responses = []
        self.model_info = pb.GetModelInfoResponse(model_path="scripted", vocab_size=1000, max_context_length=500, eos_token_ids=[2])
        self.server_info = grpc.StatusCode.UNIMPLEMENTED
        self.loads = pb.GetLoadsResponse(version="1.2.3")
        self.chunks = []
        self.cancelled = threading.Event()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        # Bytes out as they are, so that a test may send what is no message.
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler

        def raw(message):
            return message if isinstance(message, bytes) else message.SerializeToString()

        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(protocol.service, {
            "Generate": stream(self.generate, pb.GenerateRequest.FromString, raw),
            "GetModelInfo": unary(lambda r, c: self.one(self.model_info, c), None, raw),
            "GetServerInfo": unary(lambda r, c: self.one(self.server_info, c), None, raw),
            "GetLoads": unary(lambda r, c: self.one(self.loads, c), None, raw),
            "HealthCheck": unary(lambda r, c: self.one(pb.HealthCheckResponse(healthy=True), c), None, raw),
            "GetTokenizer": stream(lambda r, c: iter(self.chunks), common_pb2.GetTokenizerRequest.FromString, raw),
        }),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    @staticmethod
    def one(answer, context):
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "as the test says")
        return answer

    def generate(self, request, context):
        self.requests.put(request)
        context.add_callback(lambda: self.cancelled.set() if not context.is_active() else None)
        for message in self.responses:
            if isinstance(message, grpc.StatusCode):
                message = message, "as the test says"
            if isinstance(message, tuple):
                context.abort(*message)
            yield message

    def stop(self):
        self.server.stop(None).wait()
