"""From logits to a token, in vLLM's order and with its meaning of each parameter.

`read` checks a SamplingParams message and fills in what absent fields mean; `Sampler` holds the
state of one choice (what it has written, its random numbers, its constraint) and picks the next
token.
"""

import dataclasses
import math

import numpy as np

from . import constraint

MAX_LOGPROBS = 20
MAX_CHOICES = 128
GREEDY_BELOW = 1e-5  # a temperature under this is zero


@dataclasses.dataclass
class Params:
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    max_tokens: int
    min_tokens: int
    stop: list[bytes]
    stop_ids: frozenset[int]  # the caller's, and the model's unless ignore_eos
    silent_stop: int  # the end-of-sequence token, which is not reported as matched (-1: none)
    n: int
    seed: int | None
    logprobs: int | None
    prompt_logprobs: int | None
    logit_bias: dict[int, float]
    special: bool  # control tokens count as text for stop strings
    constraint: tuple | None  # the arguments of constraint.make


def check(ok, text):
    if not ok:
        raise ValueError(text)


def optional(message, field, default=None):
    return getattr(message, field) if message.HasField(field) else default


def read(p, prompt_length, n_ctx, n_vocab, end_tokens):
    """Params of a SamplingParams message; ValueError says what is wrong with it."""
    room = n_ctx - prompt_length
    params = Params(
        temperature=optional(p, "temperature", 1.0),
        top_p=p.top_p or 1.0,
        top_k=p.top_k,
        min_p=p.min_p,
        frequency_penalty=p.frequency_penalty,
        presence_penalty=p.presence_penalty,
        repetition_penalty=p.repetition_penalty or 1.0,
        max_tokens=min(optional(p, "max_tokens", room), room),
        min_tokens=p.min_tokens,
        stop=[s.encode() for s in p.stop],
        stop_ids=frozenset(p.stop_token_ids) | frozenset([] if p.ignore_eos else end_tokens),
        silent_stop=-1 if p.ignore_eos or not end_tokens else end_tokens[0],
        n=p.n or 1,
        seed=None if optional(p, "seed", -1) == -1 else p.seed,
        logprobs=optional(p, "logprobs"),
        prompt_logprobs=optional(p, "prompt_logprobs"),
        logit_bias=dict(p.logit_bias),
        special=not p.skip_special_tokens,
        constraint=None,
    )
    field = p.WhichOneof("constraint")
    if field:
        params.constraint = (field, getattr(p, field))
    verify(params, p, n_vocab)
    return params


def verify(params, message, n_vocab):
    t = params.temperature
    check(math.isfinite(t) and 0 <= t <= 2, f"temperature must be in [0, 2], got {t}")
    check(0 < params.top_p <= 1, f"top_p must be in (0, 1], got {params.top_p}")
    check(0 <= params.min_p <= 1, f"min_p must be in [0, 1], got {params.min_p}")
    for name in ("frequency_penalty", "presence_penalty"):
        value = getattr(params, name)
        check(-2 <= value <= 2, f"{name} must be in [-2, 2], got {value}")
    r = params.repetition_penalty
    check(math.isfinite(r) and r > 0, f"repetition_penalty must be greater than zero, got {r}")
    check(
        not message.HasField("max_tokens") or message.max_tokens >= 1,
        f"max_tokens must be at least 1, got {message.max_tokens}",
    )
    check(
        not message.HasField("max_tokens") or params.min_tokens <= message.max_tokens,
        f"min_tokens must be at most max_tokens={message.max_tokens}, got {params.min_tokens}",
    )
    check(all(params.stop), "stop cannot contain an empty string")
    check(1 <= params.n <= MAX_CHOICES, f"n must be in [1, {MAX_CHOICES}], got {params.n}")
    check(
        params.n == 1 or t >= GREEDY_BELOW,
        f"n must be 1 when using greedy sampling, got {params.n}",
    )
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(params, name)
        check(
            value is None or 0 <= value <= MAX_LOGPROBS,
            f"{name} must be in [0, {MAX_LOGPROBS}], got {value}",
        )
    for name, ids in (("stop_token_ids", params.stop_ids), ("logit_bias", params.logit_bias)):
        for i in ids:
            check(0 <= i < n_vocab, f"{name}: token id {i} is outside the vocabulary of {n_vocab}")
    for i, value in params.logit_bias.items():
        check(math.isfinite(value), f"logit_bias: {value} for token id {i}")


def log_probabilities(logits):
    """Natural logarithms of the softmax, over the whole vocabulary."""
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted, dtype=np.float64).sum())


def top(logprobs, chosen, count):
    """The `count` candidates to report, as (id, logprob): the chosen token first, then the
    likeliest ones, without repeating it."""
    if count == 0:
        return []
    best = np.argpartition(-logprobs, count)[:count]
    best = best[np.argsort(-logprobs[best], kind="stable")]
    ids = [chosen] + [int(i) for i in best if i != chosen]
    return [(i, float(logprobs[i])) for i in ids[:count]]


class Sampler:
    def __init__(self, params, llama, prompt, index):
        self.p = params
        self.written = 0
        self.constraint = params.constraint and constraint.make(llama, *params.constraint)
        # vLLM: each choice of a seeded request has a seed of its own.
        seed = None if params.seed is None else (params.seed + index) % 2**64
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.counts = None
        if params.frequency_penalty or params.presence_penalty or params.repetition_penalty != 1:
            self.counts = np.zeros(llama.n_vocab, np.int32)
            self.in_prompt = np.zeros(llama.n_vocab, bool)
            self.in_prompt[prompt] = True
        self.bias_ids = np.array(list(params.logit_bias), np.int64)
        self.bias = np.array(list(params.logit_bias.values()), np.float32)
        self.plain = not (
            self.constraint or self.counts is not None or params.logit_bias or params.min_tokens
        )

    def pick(self, logits):
        """The next token, or None when nothing is allowed. Does not change `logits`."""
        if not self.plain:
            logits = self._shaped(logits.copy())
        if self.p.temperature < GREEDY_BELOW:
            token = int(logits.argmax())
        else:
            token = self._draw(logits)
        return None if token is None or np.isneginf(logits[token]) else token

    def accept(self, token):
        self.written += 1
        if self.counts is not None:
            self.counts[token] += 1
        if self.constraint:
            self.constraint.accept(token)

    def _shaped(self, x):
        p = self.p
        if self.constraint:
            self.constraint.forbid(x)
        if self.written < p.min_tokens:
            x[list(p.stop_ids)] = -np.inf
        if len(self.bias_ids):
            x[self.bias_ids] += self.bias
        if self.counts is not None:
            seen = np.flatnonzero(self.in_prompt | (self.counts > 0))
            x[seen] = np.where(
                x[seen] > 0, x[seen] / p.repetition_penalty, x[seen] * p.repetition_penalty
            )
            x -= p.frequency_penalty * self.counts
            x -= p.presence_penalty * (self.counts > 0)
        return x

    def _draw(self, logits):
        """A random token: temperature, then min_p, top_k and top_p in this order."""
        highest = logits.max()
        if np.isneginf(highest):
            return None
        weights = np.exp((logits - highest).astype(np.float64) / self.p.temperature)
        ids = None  # all
        if self.p.min_p:
            ids = np.flatnonzero(weights >= self.p.min_p)
        if self.p.top_k:
            ids = narrowed(weights, ids, self.p.top_k)
        if self.p.top_p < 1:
            enough = self.p.top_p * (weights if ids is None else weights[ids]).sum()
            # Mostly a few tokens are enough, and sorting the whole vocabulary takes milliseconds.
            few = narrowed(weights, ids, 256)
            if weights[few].sum() < enough:
                few = narrowed(weights, ids, len(weights))
            few = few[np.argsort(-weights[few], kind="stable")]
            ids = few[np.cumsum(weights[few]) - weights[few] < enough]
        cumulated = np.cumsum(weights if ids is None else weights[ids])
        at = int(np.searchsorted(cumulated, self.random.random() * cumulated[-1], side="right"))
        at = min(at, len(cumulated) - 1)
        return at if ids is None else int(ids[at])


def narrowed(weights, ids, k):
    """The k heaviest of `ids` (None: of all)."""
    ids = np.arange(len(weights)) if ids is None else ids
    if k >= len(ids):
        return ids
    return ids[np.argpartition(-weights[ids], k - 1)[:k]]
