"""Stands in for SGLang's gRPC server: grpcio and the messages of PyPI smg-grpc-proto, the ways of its Python servicer (smg-grpc-servicer 0.14.1), and a
scheduler that is told what to make.

Strict: every field of every request is looked at. What SGLang would take without a word but a gateway has no reason to send (fields it should leave alone,
zeros that stand for nothing, ids in use) ends the call INVALID_ARGUMENT with "standin: ..." and is kept in `complaints`."""

import concurrent.futures
import dataclasses
import re
import threading
import time

import grpc
from google.protobuf import unknown_fields
from smg_grpc_proto.generated import common_pb2
from smg_grpc_proto.generated import sglang_scheduler_pb2 as pb
from smg_grpc_proto.generated import sglang_scheduler_pb2_grpc

# The statuses that SGLang's scheduler gives (HTTP) as its servicer passes them on.
CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT, 404: grpc.StatusCode.NOT_FOUND, 408: grpc.StatusCode.DEADLINE_EXCEEDED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED, 503: grpc.StatusCode.UNAVAILABLE, 504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


@dataclasses.dataclass
class Finish:
    """Why the scheduler ends a request: its finished_reason."""

    type: str = "length"
    matched: object = None  # an id or a string
    status: int | None = None  # of an abort: HTTP's
    message: str = ""


@dataclasses.dataclass
class Plan:
    """What the scheduler makes of a request: the ids of each step, and the end. `None` as finish: nothing more, ever."""

    steps: list
    finish: Finish | None


class Complaint(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Complaint(what)


def every_message(message):
    yield message
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for child in value if field.is_repeated else [value]:
                yield from every_message(child)


def names(message):
    return {field.name for field, _ in message.ListFields()}


def check_sampling(p, vocab):
    may = {"temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "max_new_tokens",
           "stop_token_ids", "n", "min_new_tokens", "ignore_eos", "logit_bias", "regex", "json_schema", "ebnf_grammar", "structural_tag"}
    need(names(p) <= may, f"sampling_params has {sorted(names(p) - may)}")
    # What is not sent is zero here, and zero is none of these fields' meaning.
    need(0 < p.top_p <= 1, f"top_p {p.top_p}")
    need(p.top_k == -1 or p.top_k >= 1, f"top_k {p.top_k}")
    need(0 < p.repetition_penalty <= 2, f"repetition_penalty {p.repetition_penalty}")
    need(p.n >= 1, f"n {p.n}")
    need(p.temperature >= 0, f"temperature {p.temperature}")
    need(0 <= p.min_p <= 1, f"min_p {p.min_p}")
    for penalty in (p.frequency_penalty, p.presence_penalty):
        need(-2 <= penalty <= 2, f"penalty {penalty}")
    if p.HasField("max_new_tokens"):
        need(p.max_new_tokens >= max(p.min_new_tokens, 1), f"max_new_tokens {p.max_new_tokens}, min_new_tokens {p.min_new_tokens}")
    for key, bias in p.logit_bias.items():
        need(re.fullmatch("0|[1-9][0-9]*", key) and int(key) < vocab and -100 <= bias <= 100, f"logit_bias {key}: {bias}")
    need(all(i < vocab for i in p.stop_token_ids), f"stop_token_ids {list(p.stop_token_ids)}")


def check_request(r, vocab, running):
    for message in every_message(r):
        need(not list(unknown_fields.UnknownFieldSet(message)), f"{message.DESCRIPTOR.name} has a field that is not in the protocol")
    may = {"request_id", "tokenized", "sampling_params", "return_logprob", "logprob_start_len", "top_logprobs_num", "stream"}
    need(names(r) <= may, f"request has {sorted(names(r) - may)}")
    need(r.request_id and not r.request_id.startswith("HEALTH_CHECK"), f"request_id {r.request_id!r}")
    need(r.request_id not in running, f"request_id {r.request_id!r} is in use")
    need(r.HasField("tokenized") and r.HasField("sampling_params"), "no input or no sampling_params")
    need(r.tokenized.input_ids and all(i < vocab for i in r.tokenized.input_ids), "input_ids are empty or beyond the vocabulary")
    check_sampling(r.sampling_params, vocab)
    if r.return_logprob:
        need(r.logprob_start_len in (-1, 0) and r.top_logprobs_num >= 0, f"logprob_start_len {r.logprob_start_len}, top {r.top_logprobs_num}")
    else:
        need((r.logprob_start_len, r.top_logprobs_num) == (-1, 0), "log-probabilities are not asked for, but described")
    need(r.stream or r.sampling_params.n == 1, "several choices that are not streamed cannot be told apart")


class Standin(sglang_scheduler_pb2_grpc.SglangSchedulerServicer):
    """`plan(request, choice)` gives a Plan. `facts`: what GetModelInfo says, as the Python servicer does by default."""

    def __init__(self, vocab=151936, context=4096, kv_tokens=70000):
        self.vocab, self.context = vocab, context
        self.facts = {
            "model_path": "/models/q", "tokenizer_path": "/models/q", "is_generation": True, "served_model_name": "q", "model_type": "qwen3",
            "architectures": ["Qwen3ForCausalLM"],
            "max_context_length": kv_tokens, "max_req_input_len": min(context, kv_tokens) - 6, "vocab_size": 128256, "bos_token_id": 1,
        }
        self.loads = [pb.SchedulerLoad(max_running_requests=48, memory=pb.MemoryMetrics(weight_gb=1.5))]
        self.healthy, self.archive, self.digest = True, b"", ""
        self.plan = lambda request, choice: Plan([[5], [6], [7]], Finish("length"))
        self.requests, self.running, self.aborts, self.complaints = [], {}, [], []
        self.cancelled = threading.Event()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        sglang_scheduler_pb2_grpc.add_SglangSchedulerServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()

    # --- Generate ---

    def Generate(self, request, context):
        self.requests.append(request)
        try:
            check_request(request, self.vocab, self.running)
        except Complaint as e:
            self.complaints.append(str(e))
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"standin: {e}")
        longest = self.facts["max_req_input_len"]
        if len(request.tokenized.input_ids) >= longest:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT,
                          f"Input length ({len(request.tokenized.input_ids)} tokens) exceeds the maximum allowed length ({longest} tokens).")
        self.running[request.request_id] = request
        # The servicer may be busy sending when the call is cancelled, and then does not tell the scheduler: here it never does.
        context.add_callback(lambda: self.cancelled.set() if request.request_id in self.running else None)
        choices = [self.choice(request, context, k) for k in range(request.sampling_params.n)]
        while choices:  # one step of each in turn
            for choice in list(choices):
                step = next(choice, None)
                if step is None:
                    choices.remove(choice)
                else:
                    yield from step
        if context.is_active():
            self.running.pop(request.request_id, None)

    def choice(self, request, context, index):
        """The messages of one choice, a list for each step."""
        plan, made = self.plan(request, index), []
        for k, ids in enumerate(plan.steps):
            is_last, finish, step = k == len(plan.steps) - 1, plan.finish, []
            if is_last and finish and finish.status:
                self.running.pop(request.request_id, None)
                context.abort(CODES.get(finish.status, grpc.StatusCode.INTERNAL), finish.message)
            made += ids
            if request.stream:
                step.append(self.chunk(request, index, made, ids, is_first=k == 0))
            if is_last and finish:
                step.append(self.complete(request, index, made, ids if request.stream else made, finish, bool(k) and request.stream))
            yield step
        while plan.finish is None and context.is_active():
            time.sleep(0.01)

    def counts(self, request, made):
        return {"prompt_tokens": len(request.tokenized.input_ids), "completion_tokens": len(made), "cached_tokens": 1}

    @staticmethod
    def logprob(i):
        return -(i % 97) / 8

    def tops(self, request, i):
        """The likeliest; the token itself is not among them."""
        k = request.top_logprobs_num
        return pb.TopLogProbs(values=[-0.125 * (j + 1) for j in range(k)], token_ids=[(i + 1 + j) % self.vocab for j in range(k)])

    def output_logprobs(self, request, ids):
        if not request.return_logprob:
            return None
        return pb.OutputLogProbs(token_logprobs=map(self.logprob, ids), token_ids=ids,
                                 top_logprobs=[self.tops(request, i) for i in ids] if request.top_logprobs_num else [])

    def input_logprobs(self, request):
        if not request.return_logprob or request.logprob_start_len < 0:
            return None
        ids = request.tokenized.input_ids
        return pb.InputLogProbs(
            token_logprobs=[pb.InputTokenLogProb()] + [pb.InputTokenLogProb(value=self.logprob(i)) for i in ids[1:]], token_ids=ids,
            top_logprobs=[pb.TopLogProbs()] + [self.tops(request, i) for i in ids[1:]] if request.top_logprobs_num else [],
        )

    def chunk(self, request, index, made, ids, is_first):
        return pb.GenerateResponse(request_id=request.request_id, chunk=pb.GenerateStreamChunk(
            token_ids=ids, index=index, output_logprobs=self.output_logprobs(request, ids),
            input_logprobs=self.input_logprobs(request) if is_first else None, **self.counts(request, made),
        ))

    def complete(self, request, index, made, ids, finish, prompt_was_sent):
        matched = {}
        if finish.matched is not None:
            matched = {"matched_token_id" if isinstance(finish.matched, int) else "matched_stop_str": finish.matched}
        return pb.GenerateResponse(request_id=request.request_id, complete=pb.GenerateComplete(
            output_ids=ids, index=index, finish_reason=finish.type, output_logprobs=self.output_logprobs(request, ids),
            input_logprobs=None if prompt_was_sent else self.input_logprobs(request), spec_draft_tokens=3, **self.counts(request, made), **matched,
        ))

    # --- the other methods ---

    def Abort(self, request, context):
        try:
            for message in every_message(request):
                need(not list(unknown_fields.UnknownFieldSet(message)), "AbortRequest has a field that is not in the protocol")
            need(request.request_id, "an abort of all requests")
        except Complaint as e:
            self.complaints.append(str(e))
        self.aborts.append(request.request_id)
        for ident in [i for i in self.running if i.startswith(request.request_id)]:
            del self.running[ident]
        return pb.AbortResponse(success=True, message=f"Request {request.request_id} aborted")

    def HealthCheck(self, request, context):
        message = "Health check passed" if self.healthy else "Health check timeout after 20s"
        return pb.HealthCheckResponse(healthy=self.healthy, message=message)

    def GetModelInfo(self, request, context):
        return pb.GetModelInfoResponse(**self.facts)

    def GetServerInfo(self, request, context):
        answer = pb.GetServerInfoResponse(sglang_version="0.5.20", server_type="grpc", active_requests=len(self.running), max_total_num_tokens=70000)
        answer.server_args.update({"tp_size": 1, "max_running_requests": None, "nested": {"deep": [1, {"deeper": "é"}]}})
        answer.scheduler_info.update({"status": "ready"})
        answer.start_time.GetCurrentTime()
        return answer

    def GetLoads(self, request, context):
        return pb.GetLoadsResponse(timestamp="2026-01-01T00:00:00+00:00", version="0.5.20", dp_rank_count=len(self.loads), loads=self.loads,
                                   aggregate=pb.AggregateMetrics(total_reqs=1))

    def GetTokenizer(self, request, context):
        size = 64 << 10
        for at in range(0, len(self.archive), size):
            yield common_pb2.GetTokenizerChunk(data=self.archive[at:at + size], sha256=self.digest if at + size >= len(self.archive) else "")
