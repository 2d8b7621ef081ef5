"""One thread that owns the model: continuous batching over a fixed number of slots.

A Job is one request, a Choice one of its n outputs. Choices wait in order of arrival for a Slot, a
sequence of llama.cpp's KV cache; a slot remembers what its cache holds, and a choice gets the free
slot that shares the longest beginning with its prompt. Each step puts one token of every writing
choice and as much of the prompts as fits into one batch, runs it, and picks the next tokens.

`submit`, `cancel` and `load` may be called from any thread; the rest is the engine thread's.
Results go out through `deliver`, a function that takes [(job, event)] and is called once per step,
from the engine thread. A cancelled job is gone at the next step, after a fraction of a second.
"""

import collections
import dataclasses
import threading
import time
import traceback

from .llama import Batch
from .sampling import log_probabilities, top

BATCH = 64  # tokens per step, so how long a cancelled job can go on: 0.3 s on one core
MAX_WAITING = 1024  # choices
THROUGHPUT_WINDOW = 2.0  # seconds
HIT_RATE_SAMPLES = 64  # choices


class Full(Exception):
    pass


@dataclasses.dataclass
class Event:
    """What happened to one choice. `error` ends the whole job, `finish` the choice."""

    index: int
    ids: list = dataclasses.field(default_factory=list)
    logprobs: list = dataclasses.field(
        default_factory=list
    )  # per id: (its own, [(id, value), ...])
    finish: str | None = None  # "stop", "length", "abort", "error"
    matched: int | bytes | None = None
    cached: int = 0
    prompt_logprobs: list | None = None  # first event only; per token: (id, its own or None, [...])
    error: str | None = None


class Job:
    """One request. Made by the caller, who also makes the samplers, one per choice."""

    def __init__(self, prompt, params, samplers):
        self.prompt, self.params, self.samplers = prompt, params, samplers
        self.cancelled = None  # "abort": with a last event; "gone": nobody listens any more


class Choice:
    def __init__(self, job, index):
        self.job, self.index, self.sampler = job, index, job.samplers[index]
        self.tokens = list(job.prompt)  # prompt and output
        self.slot = None
        self.cached = 0
        self.text = b""  # only for stop strings
        self.first = True  # no event yet
        self.prompt_logprobs = None
        if job.params.prompt_logprobs is not None:
            self.prompt_logprobs = [(job.prompt[0], None, [])]

    @property
    def written(self):
        return len(self.tokens) - len(self.job.prompt)

    @property
    def pending(self):
        return len(self.tokens) - len(self.slot.tokens)


class Slot:
    def __init__(self, number):
        self.number = number
        self.tokens = []  # what the KV cache holds
        self.choice = None
        self.used = 0.0  # when a choice left it


class Engine:
    def __init__(self, llama, n_seq, deliver):
        self.llama, self.deliver = llama, deliver
        self.end_tokens = llama.end_tokens()
        self.slots = [Slot(i) for i in range(n_seq)]
        self.batch = Batch(BATCH)
        self.lock = threading.Condition()
        self.waiting = collections.deque()
        self.running = []
        self.events = []
        self.closing = False
        self.broken = None
        self.generated = collections.deque()  # (time, tokens)
        self.hits = collections.deque(maxlen=HIT_RATE_SAMPLES)  # (prompt tokens, cached)
        self.thread = threading.Thread(target=self._run, name="engine")
        self.thread.start()

    def submit(self, job):
        with self.lock:
            if self.broken:
                raise RuntimeError(self.broken)
            if len(self.waiting) + len(job.samplers) > MAX_WAITING:
                raise Full(f"{len(self.waiting)} sequences are waiting")
            self.waiting.extend(Choice(job, i) for i in range(len(job.samplers)))
            self.lock.notify()

    def cancel(self, job, how):
        with self.lock:
            job.cancelled = job.cancelled or how
            self.lock.notify()

    def close(self):
        with self.lock:
            self.closing = True
            self.lock.notify()
        self.thread.join()

    def load(self):
        with self.lock:
            now = time.monotonic()
            recent = [n for at, n in self.generated if now - at <= THROUGHPUT_WINDOW]
            prompt, cached = sum(p for p, _ in self.hits), sum(c for _, c in self.hits)
            return {
                "running": len(self.running),
                "waiting": len(self.waiting),
                "used_tokens": sum(len(s.tokens) for s in self.slots if s.choice),
                "max_tokens": len(self.slots) * self.llama.n_ctx,
                "throughput": sum(recent) / THROUGHPUT_WINDOW,
                "hit_rate": cached / prompt if prompt else 0.0,
                "waiting_tokens": sum(len(c.job.prompt) for c in self.waiting),
            }

    def _run(self):
        try:
            while self._wait_for_work():
                with self.lock:
                    self._drop_cancelled()
                    self._admit()
                if self.running:
                    self._step()
                self._flush()
        except Exception:
            traceback.print_exc()
            with self.lock:
                self.broken = "the engine thread died (see its log)"
                for choice in [*self.running, *self.waiting]:
                    self._emit(choice, error=self.broken)
            self._flush()

    def _wait_for_work(self):
        with self.lock:
            while not (self.closing or self.waiting or self.running):
                self.lock.wait()
            return not self.closing

    def _flush(self):
        events, self.events = self.events, []
        if events:
            self.deliver(events)

    def _emit(self, choice, **what):
        event = Event(choice.index, cached=choice.cached, **what)
        if choice.first:
            event.prompt_logprobs, choice.first = choice.prompt_logprobs, False
        self.events.append((choice.job, event))

    def _release(self, choice):
        choice.slot.choice, choice.slot.used = None, time.monotonic()
        self.running.remove(choice)

    def _drop_cancelled(self):
        for choice in [c for c in self.running if c.job.cancelled]:
            self._release(choice)
            if choice.job.cancelled == "abort":
                self._emit(choice, finish="abort")
        for choice in [c for c in self.waiting if c.job.cancelled]:
            self.waiting.remove(choice)
            if choice.job.cancelled == "abort":
                self._emit(choice, finish="abort")

    def _admit(self):
        free = [s for s in self.slots if not s.choice]
        while free and self.waiting:
            choice = self.waiting.popleft()
            prompt = choice.job.prompt
            # At least one token has to run, for its logits.
            shared = {s: common(s.tokens, prompt[:-1]) for s in free}
            slot = max(free, key=lambda s: (shared[s], -s.used))
            choice.cached = 0 if choice.prompt_logprobs else shared[slot]
            if not self.llama.truncate(slot.number, choice.cached):
                choice.cached = 0
                self.llama.truncate(slot.number, 0)
            del slot.tokens[choice.cached :]
            slot.choice, choice.slot = choice, slot
            free.remove(slot)
            self.running.append(choice)
            self.hits.append((len(prompt), choice.cached))

    def _step(self):
        self.batch.n = 0
        work = []
        # Writers first: each needs one token, and a long prompt must not keep them waiting.
        for choice in sorted(self.running, key=lambda c: c.written == 0):
            count = min(choice.pending, self.batch.size - self.batch.n)
            if count:
                have = len(choice.slot.tokens)
                tokens = choice.tokens[have : have + count]
                wants = [choice.prompt_logprobs is not None] * count
                wants[-1] |= count == choice.pending
                first = self.batch.add(choice.slot.number, have, tokens, wants)
                work.append((choice, first, tokens))
        try:
            self.llama.decode(self.batch)
        except RuntimeError as e:
            self._fail([c for c, _, _ in work], str(e))
            return
        for choice, first, tokens in work:
            try:
                self._after_decode(choice, first, tokens)
            except RuntimeError as e:
                self._fail([choice], str(e))

    def _fail(self, choices, text):
        for choice in choices:
            self.llama.truncate(choice.slot.number, 0)
            choice.slot.tokens.clear()
            self._release(choice)
            self._emit(choice, error=text)

    def _after_decode(self, choice, first, tokens):
        have = len(choice.slot.tokens)
        choice.slot.tokens.extend(tokens)
        if choice.prompt_logprobs is not None and choice.first:
            for i in range(len(tokens)):
                if have + i + 1 < len(choice.job.prompt):
                    self._prompt_logprob(choice, have + i + 1, self.llama.logits(first + i))
        if choice.pending == 0:
            self._write(choice, self.llama.logits(first + len(tokens) - 1))

    def _prompt_logprob(self, choice, position, logits):
        token, values = choice.job.prompt[position], log_probabilities(logits)
        best = top(values, token, choice.job.params.prompt_logprobs)
        choice.prompt_logprobs.append((token, float(values[token]), best))

    def _write(self, choice, logits):
        """Picks the next token of a choice and tells."""
        params = choice.job.params
        token = choice.sampler.pick(logits)
        if token is None:  # a constraint and min_tokens or a bias left nothing
            self._release(choice)
            self._emit(choice, finish="error")
            return
        logprobs = []
        if params.logprobs is not None:
            values = log_probabilities(logits)
            logprobs.append((float(values[token]), top(values, token, params.logprobs)))
        choice.tokens.append(token)
        finish, matched = self._finish(choice, token)
        if finish:
            self._release(choice)
        else:
            choice.sampler.accept(token)
        with self.lock:
            now = time.monotonic()
            self.generated.append((now, 1))
            while now - self.generated[0][0] > THROUGHPUT_WINDOW:
                self.generated.popleft()
        self._emit(choice, ids=[token], logprobs=logprobs, finish=finish, matched=matched)

    def _finish(self, choice, token):
        """(finish reason or None, what matched) after `token` was written."""
        params = choice.job.params
        if token == params.silent_stop:
            return "stop", None
        if token in params.stop_ids:
            return "stop", token
        # The end of a constrained text is the end, even with ignore_eos: nothing may follow it.
        if choice.sampler.constraint and token in self.end_tokens:
            return "stop", None
        if params.stop:
            new = self.llama.piece(token, params.special)
            before, choice.text = len(choice.text), choice.text + new
            for stop in params.stop:
                at = choice.text.find(stop, max(0, before - len(stop) + 1))
                if at >= 0 and choice.written > params.min_tokens:
                    return "stop", stop
        if choice.written >= params.max_tokens:
            return "length", None
        return None, None


def common(a, b):
    """How many tokens two lists share from the beginning."""
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)
