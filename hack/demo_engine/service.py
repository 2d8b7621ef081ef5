"""vllm.grpc.engine.VllmEngine on the engine, answering the way vLLM's servicer does.

What that means on the wire is in proto/vllm/vllm_engine.proto: a chunk per token with counts of its
own, and a `complete` that, when streamed, repeats the last chunk's ids. Runs on one asyncio loop.
"""

import asyncio
import datetime
import hashlib
import importlib.metadata
import io
import time
import zipfile

import grpc
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2_grpc
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from . import sampling
from .engine import Full, Job
from .gguf import metadata_only

CHUNK = 64 * 1024
UNSUPPORTED = {
    "extra_mm_inputs",
    "kv_transfer_params",
    "kv_transfer_params_json",
    "media_refs",
    "mm_inputs",
}
# What a model's config.json would say, for GGUF architectures that name themselves otherwise.
ARCHITECTURES = {
    "gemma3": "Gemma3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def top_logprobs(candidates):
    return pb.TopLogProbs(
        values=[value for _, value in candidates], token_ids=[token for token, _ in candidates]
    )


def output_logprobs(events, count):
    if count is None:
        return None
    entries = [
        (token, value, best)
        for event in events
        for token, (value, best) in zip(event.ids, event.logprobs, strict=False)
    ]
    if not entries:
        return None
    return pb.OutputLogProbs(
        token_logprobs=[value for _, value, _ in entries],
        token_ids=[token for token, _, _ in entries],
        top_logprobs=[top_logprobs(best) for _, _, best in entries] if count else [],
    )


def input_logprobs(entries, count):
    if entries is None:
        return None
    return pb.InputLogProbs(
        token_logprobs=[pb.InputTokenLogProb(value=value) for _, value, _ in entries],
        token_ids=[token for token, _, _ in entries],
        top_logprobs=[top_logprobs(best) for _, _, best in entries] if count else [],
    )


def chunk(job, event):
    return pb.GenerateResponse(
        chunk=pb.GenerateStreamChunk(
            token_ids=event.ids,
            prompt_tokens=len(job.prompt),
            completion_tokens=len(event.ids),
            cached_tokens=event.cached,
            output_logprobs=output_logprobs([event], job.params.logprobs),
            input_logprobs=input_logprobs(event.prompt_logprobs, job.params.prompt_logprobs),
            index=event.index,
        )
    )


def complete(job, events):
    """The end of a choice, from all its events or, when streamed, from the last one."""
    last, ids = events[-1], [token for event in events for token in event.ids]
    matched = {}
    if isinstance(last.matched, int):
        matched["matched_token_id"] = last.matched
    elif last.matched is not None:
        matched["matched_stop_str"] = last.matched.decode()
    return pb.GenerateResponse(
        complete=pb.GenerateComplete(
            output_ids=ids,
            finish_reason=last.finish,
            prompt_tokens=len(job.prompt),
            completion_tokens=len(ids),
            cached_tokens=last.cached,
            output_logprobs=output_logprobs(events, job.params.logprobs),
            input_logprobs=input_logprobs(
                job.prompt_logprobs.get(last.index), job.params.prompt_logprobs
            ),
            index=last.index,
            **matched,
        )
    )


class Servicer(vllm_engine_pb2_grpc.VllmEngineServicer):
    def __init__(self, engine, llama, path, name):
        self.engine, self.llama, self.path, self.name = engine, llama, path, name
        self.jobs = {}  # request id: the jobs under it
        self.started, self.received = time.time(), 0.0
        self.bundle = None

    def job(self, request):
        """Checks a request and makes its job; ValueError says what is wrong."""
        present = {field.name for field, _ in request.ListFields()}
        for field in sorted(present & UNSUPPORTED):
            raise ValueError(f"{field}: not supported by the demo engine")
        sampling.check(
            request.data_parallel_rank == 0,
            f"data_parallel_rank {request.data_parallel_rank}: there is only rank 0",
        )
        sampling.check(
            request.WhichOneof("input") == "tokenized",
            "input: the demo engine takes token ids (`tokenized`), not text",
        )
        prompt = list(request.tokenized.input_ids)
        n_ctx, n_vocab = self.llama.n_ctx, self.llama.n_vocab
        keep = sampling.optional(request.sampling_params, "truncate_prompt_tokens")
        if keep is not None:
            sampling.check(
                keep == -1 or 1 <= keep <= n_ctx,
                f"truncate_prompt_tokens must be -1 or in [1, {n_ctx}], got {keep}",
            )
            prompt = prompt[-(n_ctx - 1 if keep == -1 else keep) :]
        sampling.check(prompt, "the prompt is empty")
        bad = next((i for i in prompt if i >= n_vocab), None)
        sampling.check(bad is None, f"token id {bad} is outside the vocabulary of {n_vocab}")
        sampling.check(
            len(prompt) < n_ctx,
            f"the prompt has {len(prompt)} tokens, which leaves no "
            f"room for output in the context of {n_ctx} tokens",
        )
        params = sampling.read(
            request.sampling_params, len(prompt), n_ctx, n_vocab, self.engine.end_tokens
        )
        samplers = [sampling.Sampler(params, self.llama, prompt, i) for i in range(params.n)]
        job = Job(prompt, params, samplers)
        job.prompt_logprobs = {}
        return job

    async def Generate(self, request, context):
        self.received = time.time()
        job = None
        try:
            # In a thread: a large JSON schema takes a while to compile.
            job = await asyncio.to_thread(self.job, request)
            job.queue = asyncio.Queue()
            self.engine.submit(job)
            self.jobs.setdefault(request.request_id, set()).add(job)
            async for message in self.answers(request, job):
                yield message
        except ValueError as e:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
        except Full as e:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(e))
        except RuntimeError as e:
            await context.abort(grpc.StatusCode.INTERNAL, str(e))
        finally:
            # Also when the client has gone: grpc cancels this coroutine then.
            if job:
                self.engine.cancel(job, "gone")
                self.jobs.get(request.request_id, set()).discard(job)
                if not self.jobs.get(request.request_id):
                    self.jobs.pop(request.request_id, None)

    async def answers(self, request, job):
        unfinished, events = set(range(job.params.n)), {i: [] for i in range(job.params.n)}
        while unfinished:
            event = await job.queue.get()
            if event.error:
                raise RuntimeError(event.error)
            if event.prompt_logprobs is not None:
                job.prompt_logprobs[event.index] = event.prompt_logprobs
            if request.stream:
                yield chunk(job, event)
                events[event.index].clear()
            events[event.index].append(event)
            if event.finish:
                unfinished.discard(event.index)
                if request.stream:
                    yield complete(job, events[event.index])
        if not request.stream:
            for choice in events.values():
                yield complete(job, choice)

    async def Abort(self, request, context):
        for request_id in request.request_ids:
            for job in self.jobs.get(request_id, ()):
                self.engine.cancel(job, "abort")
        return pb.AbortResponse()

    async def HealthCheck(self, request, context):
        broken = self.engine.broken
        return pb.HealthCheckResponse(healthy=not broken, message=broken or "Health")

    async def GetModelInfo(self, request, context):
        llama = self.llama
        architecture = llama.metadata("general.architecture")
        return pb.GetModelInfoResponse(
            model_path=str(self.path),
            is_generation=True,
            max_context_length=llama.n_ctx,
            vocab_size=llama.n_vocab,
            served_model_name=self.name,
            tokenizer_path=str(self.path),
            model_type=architecture,
            architectures=[ARCHITECTURES.get(architecture, architecture)],
            eos_token_ids=self.engine.end_tokens,
            pad_token_id=max(llama.lib.llama_vocab_pad(llama.vocab), 0),
            bos_token_id=max(llama.lib.llama_vocab_bos(llama.vocab), 0),
            max_req_input_len=llama.n_ctx,
        )

    async def GetServerInfo(self, request, context):
        return pb.GetServerInfoResponse(
            active_requests=sum(len(jobs) for jobs in self.jobs.values()),
            last_receive_timestamp=self.received,
            uptime_seconds=time.time() - self.started,
            server_type="kelpie-demo-engine",
            data_parallel_size=1,
            kv_cache_dtype="f16",
            model_dtype=self.llama.description(),
            max_num_seqs=len(self.engine.slots),
        )

    async def GetLoads(self, request, context):
        load = self.engine.load()
        usage = load["used_tokens"] / load["max_tokens"]
        return pb.GetLoadsResponse(
            timestamp=datetime.datetime.now(datetime.UTC).isoformat(),
            version="xllamacpp " + importlib.metadata.version("xllamacpp"),
            dp_rank_count=1,
            loads=[
                pb.SchedulerLoad(
                    num_running_reqs=load["running"],
                    num_waiting_reqs=load["waiting"],
                    num_total_reqs=load["running"] + load["waiting"],
                    num_used_tokens=load["used_tokens"],
                    max_total_num_tokens=load["max_tokens"],
                    token_usage=usage,
                    gen_throughput=load["throughput"],
                    cache_hit_rate=load["hit_rate"],
                    utilization=usage,
                    max_running_requests=len(self.engine.slots),
                    num_waiting_uncached_tokens=load["waiting_tokens"],
                )
            ],
        )

    async def GetTokenizer(self, request, context):
        if not self.bundle:
            self.bundle = await asyncio.to_thread(tokenizer_bundle, self.path)
        data, digest = self.bundle
        for at in range(0, len(data), CHUNK):
            last = at + CHUNK >= len(data)
            yield common_pb2.GetTokenizerChunk(
                data=data[at : at + CHUNK], sha256=digest if last else ""
            )


def tokenizer_bundle(path):
    """A zip with tokenizer.gguf, the same bytes for the same model, and its SHA-256."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("tokenizer.gguf"), metadata_only(path), zipfile.ZIP_DEFLATED)
    data = archive.getvalue()
    return data, hashlib.sha256(data).hexdigest()
