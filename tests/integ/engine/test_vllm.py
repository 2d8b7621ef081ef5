"""What only vLLM's protocol says: requests, field by field, as grpcio reads them."""

import pytest
from engines import Vllm


@pytest.fixture
def protocol():
    return Vllm


def test_a_request_says_what_was_asked(scripted, make_probe):
    scripted.responses = [Vllm.complete([7])]
    probe = make_probe(scripted.address)
    probe.generate("a", "ids=3,200,70000 request_id=req-1 text=hello max_tokens=5 min_tokens=2 temperature=0 top_k=-1 seed=-1 "
                        "stop_ids=9,10 logprobs=0 prompt_logprobs=1 ignore_eos=1 bias=5:-1.5 bias=6:2 n=1")
    r = scripted.requests.get(timeout=5)
    assert (r.request_id, r.stream, r.WhichOneof("input")) == ("req-1", True, "tokenized")
    assert list(r.tokenized.input_ids) == [3, 200, 70000] and r.tokenized.original_text == "hello"
    p = r.sampling_params
    assert (p.max_tokens, p.min_tokens, p.seed, p.logprobs, p.prompt_logprobs, p.n) == (5, 2, -1, 0, 1, 1)
    assert p.HasField("temperature") and p.temperature == 0 and p.top_k == 0 and p.ignore_eos
    assert p.HasField("logprobs") and list(p.stop_token_ids) == [9, 10] and dict(p.logit_bias) == {5: -1.5, 6: 2}
    assert list(p.stop) == [] and p.WhichOneof("constraint") is None
    probe.generate("b", "ids=1 stream=0")
    r = scripted.requests.get(timeout=5)
    assert (r.request_id, r.stream) == ("b", False)
    for field in ("temperature", "max_tokens", "seed", "logprobs", "prompt_logprobs", "truncate_prompt_tokens"):
        assert not r.sampling_params.HasField(field)
