"""SGLang's own gRPC servicer (PyPI smg-grpc-servicer) without SGLang: a program for test_sglang_servicer.py, run by an environment that has the package.

The servicer and its request manager are theirs, as installed. What they import of SGLang is put in its place here, as little as they need: a few classes
that are only carried, sockets, and a scheduler, which makes two tokens a step for each request, of prompt and position. Prints "ready on ADDRESS", and a JSON
line whenever the requests that the scheduler still works on change.

Usage: sglang_servicer.py TOKENIZER_FOLDER STEP_MS"""

import asyncio
import enum
import json
import os
import sys
import tempfile
import threading
import time
import types

import grpc
import msgspec
import zmq

FOLDER, STEP = sys.argv[1], float(sys.argv[2]) / 1000
VOCAB = 151936


# --- what the servicer imports of SGLang -----------------------------------------------------------------------------


def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    made.__dict__.update(members)
    sys.modules[name] = made
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, made)
    return made


def carried(name, where, **defaults):
    """A class of keyword arguments, which travels between threads pickled."""
    def init(self, **members):
        self.__dict__.update(defaults)
        self.__dict__.update(members)

    return type(name, (), {"__init__": init, "__module__": where})


class DisaggregationMode(enum.Enum):
    NULL = "null"


class ServerArgs(msgspec.Struct):
    model_path: str = "/models/q"
    tokenizer_path: str = FOLDER
    served_model_name: str = "q"
    weight_version: str = "1"
    preferred_sampling_params: str | None = None
    kv_events_config: str | None = None
    max_running_requests: int | None = None
    reasoning_parser: str | None = None
    grammar_backend: str | None = None
    disaggregation_mode: str = "null"
    encoder_transfer_backend: str = ""
    skip_tokenizer_init: bool = True
    language_only: bool = False
    is_embedding: bool = False
    enable_dp_attention: bool = False
    dp_size: int = 1


class Ports:
    def __init__(self):
        folder = tempfile.mkdtemp()
        self.tokenizer_ipc_name = self.detokenizer_ipc_name = f"ipc://{folder}/out"
        self.scheduler_input_ipc_name = f"ipc://{folder}/in"


class LoadSnapshot:
    VALID_SECTIONS = {"core", "memory", "spec", "lora", "disagg", "queues", "all"}
    dp_rank, num_running_reqs, num_waiting_reqs, num_used_tokens, max_total_num_tokens = 0, 2, 1, 50, 70000
    token_usage, gen_throughput, cache_hit_rate, utilization, max_running_requests, num_waiting_uncached_tokens = 0.25, 1.0, 0.5, 0.25, 48, 3
    memory = speculative = lora = disaggregation = queues = None


class Times:
    """Statistics: taken, not kept."""

    def __init__(self, **_):
        self.first_token_time, self.finished_time = 0.0, 0

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **more: None

    def __reduce__(self):
        return Times, ()


def socket_of(context, kind, name, bind):
    made = context.socket(kind)
    (made.bind if bind else made.connect)(name)
    return made


def put_in_place():
    for name in ("sglang", "sglang.srt", "sglang.srt.configs", "sglang.srt.disaggregation", "sglang.srt.managers", "sglang.srt.sampling",
                 "sglang.srt.observability"):
        module(name)
    sys.modules["sglang"].__version__ = "0.5.20"
    module("sglang.utils", get_exception_traceback=lambda: "")
    module("sglang.srt.configs.model_config", ModelConfig=object)
    module("sglang.srt.disaggregation.kv_events", KVEventsConfig=object)
    module("sglang.srt.disaggregation.utils", FAKE_BOOTSTRAP_HOST="", DisaggregationMode=DisaggregationMode)
    names = ("FlushCacheReqInput ProfileReq ProfileReqType TokenizedEmbeddingReqInput TokenizedGenerateReqInput AbortReq BatchEmbeddingOutput "
             "BatchTokenIDOutput FlushCacheReqOutput GetInternalStateReqOutput HealthCheckOutput ProfileReqOutput").split()
    structs = "sglang.srt.managers.io_struct"
    module(structs, **{n: carried(n, structs) for n in names})
    module("sglang.srt.managers.schedule_batch", Modality=object, MultimodalDataItem=object, MultimodalProcessorOutput=object)
    params = "sglang.srt.sampling.sampling_params"
    sampling = carried("SamplingParams", params, n=1, stop_token_ids=None, max_new_tokens=None)
    sampling.normalize = lambda self, tokenizer: None
    module(params, SamplingParams=sampling)
    module("sglang.srt.server_args", ServerArgs=ServerArgs, PortArgs=Ports)
    module("sglang.srt.utils", get_bool_env_var=lambda *a: True, get_or_create_event_loop=asyncio.get_event_loop, kill_process_tree=lambda *a, **k: os._exit(3))
    module("sglang.srt.utils.hf_transformers_utils", get_tokenizer=lambda *a, **k: None)
    module("sglang.srt.utils.network", get_zmq_socket=socket_of)
    reader = types.SimpleNamespace(read_all=lambda: [LoadSnapshot()], close=lambda: None)
    module("sglang.srt.managers.load_snapshot", LoadSnapshot=LoadSnapshot, create_load_snapshot_reader=lambda *a, **k: reader)
    module("sglang.srt.observability.req_time_stats", APIServerReqTimeStats=Times, calibrate_time_diff=lambda: None, real_time=time.time)


# --- the scheduler ---------------------------------------------------------------------------------------------------


class Scheduler(threading.Thread):
    def __init__(self, ports):
        super().__init__(daemon=True)
        self.structs = sys.modules["sglang.srt.managers.io_struct"]
        context = zmq.Context()
        self.pull = socket_of(context, zmq.PULL, ports.scheduler_input_ipc_name, False)
        self.push = socket_of(context, zmq.PUSH, ports.tokenizer_ipc_name, False)
        self.working = {}  # rid: (request, ids so far, ids not sent yet)

    def run(self):
        told = None
        while True:
            time.sleep(STEP)
            while self.pull.poll(0 if self.working else 100):
                self.take(self.pull.recv_pyobj())
            for rid in list(self.working):
                self.step(rid)
            if sorted(self.working) != told:
                told = sorted(self.working)
                print(json.dumps({"event": "working", "rids": told}), flush=True)

    def take(self, request):
        if isinstance(request, self.structs.AbortReq):
            for rid in [r for r in self.working if r.startswith(request.rid)]:
                del self.working[rid]
        elif "full" in (request.input_text or ""):
            reason = {"type": "abort", "message": "The request queue is full.", "status_code": 503}
            self.push.send_pyobj(self.structs.AbortReq(rid=request.rid, finished_reason=reason))
        else:
            self.working[request.rid] = (request, [], [])

    def step(self, rid):
        request, ids, unsent = self.working[rid]
        params, reason = request.sampling_params, None
        most = 20 if params.max_new_tokens is None else params.max_new_tokens
        for _ in range(2):
            if reason is None and len(ids) < most:
                ids.append((sum(request.input_ids) * 31 + len(ids) * 7) % VOCAB)
                unsent.append(ids[-1])
                if ids[-1] in (params.stop_token_ids or ()):
                    reason = {"type": "stop", "matched": ids[-1]}
        if reason is None and len(ids) >= most:
            reason = {"type": "length", "length": most}
        if request.stream or reason:
            self.push.send_pyobj(self.output(request, ids, unsent, reason))
            unsent.clear()
        if reason:
            del self.working[rid]

    def output(self, request, ids, new, reason):
        columns = {"rids": [request.rid], "finished_reasons": [reason], "output_ids": [list(new)], "prompt_tokens": [len(request.input_ids)],
                   "completion_tokens": [len(ids)], "cached_tokens": [1], "output_token_logprobs_val": None, "output_token_logprobs_idx": None}
        if request.return_logprob:
            columns |= self.logprobs("output", list(new), request)
            if len(ids) == len(new):  # the first
                start = request.logprob_start_len if request.logprob_start_len >= 0 else len(request.input_ids) - 1
                columns |= self.logprobs("input", list(request.input_ids)[start:], request, is_first_absent=True)
        return self.structs.BatchTokenIDOutput(**columns)

    @staticmethod
    def logprobs(which, ids, request, is_first_absent=False):
        k = request.top_logprobs_num
        values = [-(i % 97) / 8 for i in ids]
        tops = [[-0.125 * (j + 1) for j in range(k)] for _ in ids]
        top_ids = [[(i + 1 + j) % VOCAB for j in range(k)] for i in ids]
        if is_first_absent:
            values[0] = tops[0] = top_ids[0] = None
        return {f"{which}_token_logprobs_val": [values], f"{which}_token_logprobs_idx": [ids],
                f"{which}_top_logprobs_val": [tops if k else []], f"{which}_top_logprobs_idx": [top_ids if k else []]}


# --- the server ------------------------------------------------------------------------------------------------------


async def main():
    put_in_place()
    from smg_grpc_proto import sglang_scheduler_pb2_grpc
    from smg_grpc_servicer.sglang.request_manager import GrpcRequestManager
    from smg_grpc_servicer.sglang.servicer import SGLangSchedulerServicer

    args, ports = ServerArgs(), Ports()
    manager = GrpcRequestManager(args, ports)
    Scheduler(ports).start()
    config = types.SimpleNamespace(get_default_sampling_params=lambda: {"temperature": 0.5, "top_p": 0.9, "odd": 1})
    # As the servicer's own server.py makes it of what a scheduler says.
    info = {"max_context_length": 70000, "vocab_size": 128256, "supports_vision": False, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
            "max_req_input_len": 4090, "eos_token_ids": [], "pad_token_id": 0, "bos_token_id": 1}
    scheduler_info = {"status": "ready", "max_total_num_tokens": 70000, "max_req_input_len": 4090}
    server = grpc.aio.server()
    servicer = SGLangSchedulerServicer(manager, args, config, info, scheduler_info)
    sglang_scheduler_pb2_grpc.add_SglangSchedulerServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"ready on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


asyncio.run(main())
