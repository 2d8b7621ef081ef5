"""Images before a real engine: vLLM on the CPU with tiny Qwen2.5-VL, Qwen3-VL and LLaVA of random weights, given our ids and tensors through shared memory
and inline. The truth is vLLM by itself, with its own processing of the same conversations and the same weights. Run by `make check-vllm` only."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
import vision
import wire
from oracles import engine_load
from PIL import Image
from programs import LOGS, Gateway, engine, manifest, wait_until
from vision import data_url, file_of, part, picture, text
from vllm_engine import ENV, Vllm, venv
from wire import CHAT

pytestmark = pytest.mark.heavy
CONTEXT = 4096
SCRIPT = pathlib.Path(__file__).with_name("vllm_models.py")
# name: options of the vLLM behind the gateways, and whether its own processor leaves a picture of that size as it is. By default Qwen's are sent as bytes.
KINDS = {
    "qwen25": ((), lambda w, h: w % 28 == h % 28 == 0 and 3136 <= w * h <= 401408),
    "qwen3": (("--no-mm-device-do-normalize",), lambda w, h: w % 32 == h % 32 == 0 and 65536 <= w * h <= 1048576),
    "llava": ((), lambda w, h: w == h == 336),
}
EXACT = 1e-4
RESIZED = 0.03  # torchvision, which vLLM resizes with, rounds otherwise than Pillow: 0.01 was seen
SHOWS = 0.05  # what another picture makes at least


def modes():
    """One picture as files of many kinds."""
    p = picture(21, 448, 224)
    alpha = p.convert("RGBA")
    alpha.putalpha(picture(22, 448, 224).convert("L"))
    exif = Image.Exif()
    exif[0x112] = 6
    return {
        "jpeg": data_url(file_of(p, "JPEG", quality=90), "image/jpeg"),
        "progressive": data_url(file_of(p, "JPEG", progressive=True), "image/jpeg"),
        "grey jpeg": data_url(file_of(p.convert("L"), "JPEG"), "image/jpeg"),
        "cmyk jpeg": data_url(file_of(p.convert("CMYK"), "JPEG"), "image/jpeg"),
        "turned jpeg": data_url(file_of(p, "JPEG", exif=exif), "image/jpeg"),
        "alpha": data_url(file_of(alpha)),
        "grey and alpha": data_url(file_of(alpha.convert("LA"))),
        "palette": data_url(file_of(p.quantize(32))),
        "palette with transparency": data_url(file_of(p.quantize(32), transparency=3)),
        "one bit": data_url(file_of(p.convert("1"))),
        "webp": data_url(file_of(p, "WEBP", lossless=True), "image/webp"),
        "no media type": data_url(file_of(p), ""),
    }


def conversations():
    """name: (messages, sizes of their images)"""
    rng = vision.rng(5)
    sizes = {
        "28s": [(56, 56)], "two of 28s": [(84, 112), (112, 84)], "32s": [(256, 256), (320, 256)], "336": [(336, 336), (336, 336)], "any": [(300, 200)],
        "two": [(57, 400), (333, 120)], "tiny": [(1, 1)], "thin": [(1000, 20)], "large": [(1600, 1200)], "four": [(64, 64), (100, 50), (30, 90), (200, 200)],
    }  # fmt: skip
    found = {"none": ([{"role": "user", "content": [text("Hello")]}], [])}
    found |= {name: (vision.conversation(rng, s)[0], s) for name, s in sizes.items()}
    first, second = (part(file_of(picture(n, 448, 224))) for n in (1, 2))
    for name, both in (("first, second", [first, second]), ("second, first", [second, first]), ("first, first", [first, first])):
        found[name] = ([{"role": "user", "content": [*both, text("Which?")]}], [(448, 224)] * 2)
    for name, url in modes().items():
        found[name] = ([{"role": "user", "content": [text("What?"), part(url)]}], [(224, 448) if "turned" in name else (448, 224)])
    return found


class Rig:
    """One model: vLLM behind gateways that may and may not use shared memory, and what vLLM by itself answers."""

    def __init__(self, kind, tokenizer):
        folder = LOGS / "models"
        folder.mkdir(parents=True, exist_ok=True)
        self.kind, self.model, self.programs = kind, vision.Model(kind, tokenizer, folder), []
        self.conversations = conversations()
        options, self.is_exact = KINDS[kind]
        run = [venv() / "bin/python", SCRIPT]
        asked, answered, log = (LOGS / f"{kind}.{name}" for name in ("conversations.json", "own.json", "own.log"))
        asked.write_text(json.dumps([messages for messages, _ in self.conversations.values()]))
        how = {"stdout": log.open("wb"), "stderr": subprocess.STDOUT, "env": {**os.environ, **ENV}}
        subprocess.run([*run, "make", kind, self.model.folder], check=True, **how)
        own = subprocess.Popen([*run, "ask", self.model.folder, asked, answered, str(CONTEXT)], **how)
        try:
            self.vllm = self.start(Vllm, self.model.folder, "--dtype", "float32", *options, "--limit-mm-per-prompt", '{"image": 4}', context=CONTEXT)
            self.manifest = manifest(engine("vllm", self.vllm.port))
            self.shm = self.start(Gateway, self.manifest, ready=False)
            self.inline = self.start(Gateway, self.manifest, "--media-shm", "off", ready=False)
            for g in (self.shm, self.inline):
                self.vllm.wait_routable(g)
            assert own.wait(900) == 0, log.read_text()[-3000:]
        except BaseException:
            own.kill()
            raise
        self.own = dict(zip(self.conversations, json.loads(answered.read_text()), strict=True))

    def start(self, kind, *args, **kw):
        self.programs.append(kind(*args, **kw))
        return self.programs[-1]

    def stop(self):
        for p in reversed(self.programs):
            p.stop()


@pytest.fixture(scope="module", params=KINDS)
def rig(request, qwen3_path):
    rig = Rig(request.param, qwen3_path)
    yield rig
    rig.stop()


def body_of(messages, **more):
    return {"model": "m", "messages": messages, "max_tokens": 6, "temperature": 0, "ignore_eos": True, **more}


def ask(gateway, messages, **more):
    body = body_of(messages, logprobs=True, top_logprobs=5, return_token_ids=True, **more)
    answer = wire.call(gateway.port, CHAT, body)
    assert answer.status == 200, answer.body
    return answer.json()


def logprobs(answer):
    return [[(bytes(t["bytes"]), t["logprob"]) for t in at["top_logprobs"]] for at in answer["choices"][0]["logprobs"]["content"]]


def farthest(mine, theirs):
    """The largest difference of two positions' log-probabilities."""
    return max(abs(a - b) for (_, a), (_, b) in zip(mine, theirs))


def compare(name, answer, own, exact, qwen3):
    """Ids, tokens and the likeliest of each; with pictures that were resized as long as rounding decides nothing. The largest difference."""
    assert answer["prompt_token_ids"] == own["prompt"], name
    ids, worst = answer["choices"][0]["token_ids"], 0
    assert len(ids) == len(own["ids"]) == 6
    for i, (mine, theirs) in enumerate(zip(logprobs(answer), own["top"], strict=True)):
        worst = max(worst, farthest(mine, theirs))
        if exact:
            assert [t for t, _ in mine] == [qwen3.token_bytes(t) for t, _ in theirs[:5]], name
        elif theirs[0][1] - theirs[1][1] < 2 * RESIZED:
            break
        assert ids[i] == own["ids"][i], name
    assert worst < (EXACT if exact else RESIZED), name
    return worst


def test_answers_are_those_of_vllms_own_processing(rig, qwen3):
    """Asked by way of shared memory and inline. Each gateway has a salt, so that neither is answered out of vLLM's caches for the other."""
    worst = {True: 0, False: 0}
    for name, (messages, sizes) in rig.conversations.items():
        exact = all(rig.is_exact(*s) for s in sizes)
        for gateway in (rig.shm, rig.inline):
            answer = ask(gateway, messages, cache_salt=gateway.stem)
            worst[exact] = max(worst[exact], compare(name, answer, rig.own[name], exact, qwen3))
    print(f"{rig.kind}: log-probabilities differ by {worst[True]:.1e} at most, {worst[False]:.1e} where pictures are resized")
    assert not rig.shm.lines("an engine cannot read what is left for it in /dev/shm: images are sent")


def test_a_picture_shows(rig):
    """What is compared here depends on the picture, and on which of two comes first."""
    tops = [rig.own[name]["top"][0] for name in ("first, second", "second, first", "first, first")]
    assert min(farthest(tops[0], tops[1]), farthest(tops[0], tops[2]), farthest(tops[1], tops[2])) > SHOWS


def test_vllms_caches_know_a_picture(rig, qwen3):
    """The same again comes out of them, another picture at its place does not."""
    for name in ("first, second", "first, first", "first, second", "second, first"):
        messages, sizes = rig.conversations[name]
        answer = ask(rig.shm, messages)
        compare(name, answer, rig.own[name], all(rig.is_exact(*s) for s in sizes), qwen3)
    assert ask(rig.shm, messages)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def ours():
    return [n for n in os.listdir("/dev/shm") if n.startswith("kelpie-") and not n.endswith(".lock")]


def test_vllm_takes_the_pixels_from_shared_memory(rig):
    """A name is there while vLLM does not run, and gone once it has begun to answer; none where shared memory is off."""
    messages = rig.conversations["first, second"][0]
    for gateway, names in ((rig.shm, 1), (rig.inline, 0)):
        with wire.Connection(gateway.port) as c:
            os.kill(rig.vllm.pid, signal.SIGSTOP)
            c.request(CHAT, body_of(messages, stream=True, cache_salt="x") | {"max_tokens": 1500})
            if names:
                wait_until(ours, "a name")
            else:
                time.sleep(0.5)
            assert len(ours()) == names
            os.kill(rig.vllm.pid, signal.SIGCONT)
            next(iter(wire.Stream(c)))
            assert not ours() and engine_load(rig.vllm.address) == (1, 0)
        wait_until(lambda: engine_load(rig.vllm.address) == (0, 0), "an engine without work")


def test_nothing_stays_in_shared_memory_when_a_side_is_killed(rig):
    """kill -9 of the gateway, then of vLLM, between a name and its reader. The last test of a model: both are gone."""

    def four(gateway):
        os.kill(rig.vllm.pid, signal.SIGSTOP)
        connections = [wire.Connection(gateway.port) for _ in range(4)]
        for c in connections:
            c.request(CHAT, body_of(rig.conversations["first, second"][0]))
        wait_until(lambda: len(ours()) == 4, "names for the engine")
        return connections

    connections = four(rig.shm)
    rig.shm.kill()
    assert len(ours()) == 4
    gateway = rig.start(Gateway, rig.manifest, ready=False)
    wait_until(lambda: not ours(), "the names of a gateway that was killed")
    os.kill(rig.vllm.pid, signal.SIGCONT)
    rig.vllm.wait_routable(gateway)
    assert ask(gateway, rig.conversations["28s"][0])
    connections += (last := four(gateway))
    family = rig.vllm.family()
    rig.vllm.kill()
    for pid in family[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert {c.answer().status for c in last} == {503}
    wait_until(lambda: not ours(), "the names for an engine that was killed")
    for c in connections:
        c.close()
