"""Images in chats, from data: URLs to what the engine is sent: ids, ranges and tensors equal those that transformers' processors make of the same
conversation. The sim engine logs digests of the tensors; exactness of pixels by image is the matter of tests/oracle/image."""

import collections
import json
import os
import pathlib
import shutil
import signal
import struct
import time
import zlib

import pytest
import vision
import wire
from PIL import Image
from programs import ASAN, Gateway, Operator, Sim, engine, manifest, wait_until
from test_control import controlled
from vision import data_url, file_of, part, picture, text
from wire import CHAT

VOCAB = 151700
TYPES = ("vllm", "sglang")


@pytest.fixture(scope="module")
def models(qwen3_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: vision.Model(name, qwen3_path, folder) for name in vision.MODELS}


@pytest.fixture(scope="module")
def sim(start_shared):
    return start_shared(Sim, "--vocab", VOCAB, "--log-ids", "--max-context", 100000)


@pytest.fixture(scope="module")
def gateway(start_shared, sim, models, qwen3_path):
    engines = [
        engine(f"{name}-{type}", sim.port, model=f"{name}-{type}", path=m.folder, type=type) for name, m in models.items() for type in TYPES
    ]
    return start_shared(Gateway, manifest(*engines, engine("blind", sim.port, model="blind", path=qwen3_path)), "--max-images", 4)


def call(gateway, path, body):
    answer = wire.call(gateway.port, path, body)
    return answer.status, answer.json()


def ask(gateway, model, messages, **more):
    return call(gateway, CHAT, {"model": model, "messages": messages, "max_tokens": 2, **more})


def sent(sim, answer):
    """(ids, media) of the request behind an answer."""
    start = sim.wait_event("start", answer["id"])[0]
    return start["ids"], sim.wait_event("media", answer["id"])[0]


def same(model, type, sim, answer, messages, images, raw=False):
    ids, media = sent(sim, answer)
    want_ids, want = model.want(vision.bare(messages), images, raw)
    assert ids == want_ids
    assert answer["usage"]["prompt_tokens"] == len(want_ids)
    if type == "sglang":
        want.pop("patches_per_image", None)
    assert media["tensors"].keys() == want.keys()
    for name, array in want.items():
        got = media["tensors"][name]
        assert got["shape"] == list(array.shape), name
        assert got["sha256"] == vision.digest(array), name
        assert got["dtype"] == ("int64" if name != "pixel_values" else "uint8" if raw else "float32")
    runs = [i for i, id in enumerate(want_ids) if id == media["token"]]
    assert [i for offset, length in media["spans"] for i in range(offset, offset + length)] == runs
    assert len(media["spans"]) == len(images)
    return media


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["qwen2", "qwen25", "qwen3"])
def test_a_conversation_is_what_transformers_makes_of_it(gateway, sim, models, name, type):
    rng = vision.rng(name + type)
    for sizes in ([(64, 48)], [(1, 1), (300, 200)], [(1000, 20), (57, 400), (333, 333)]):
        messages, images = vision.conversation(rng, sizes)
        status, answer = ask(gateway, f"{name}-{type}", messages)
        assert status == 200, answer
        same(models[name], type, sim, answer, messages, images)


@pytest.mark.parametrize("name", ["llava", "llava-full"])
def test_llava(gateway, sim, models, name):
    messages, images = vision.conversation(vision.rng(name), [(64, 480), (700, 300)])
    status, answer = ask(gateway, f"{name}-vllm", messages)
    assert status == 200, answer
    media = same(models[name], "vllm", sim, answer, messages, images)
    assert [length for _, length in media["spans"]] == [576 + (name != "llava")] * 2


def test_llava_is_refused_for_sglang(gateway):
    status, answer = ask(gateway, "llava-sglang", vision.conversation(vision.rng(1), [(64, 48)])[0])
    assert status == 400 and "Qwen" in answer["error"]["message"]


def test_the_same_twice_has_the_same_name_for_the_cache_and_another_request_has_not(gateway, sim):
    """MM-16: the hash covers the image and what is made of it, and who may share it."""
    image, other = file_of(picture(5, 100, 80)), file_of(picture(6, 100, 80))

    def hashes(model, *files, **more):
        status, answer = ask(gateway, model, [{"role": "user", "content": [part(f) for f in files]}], **more)
        assert status == 200, answer
        return sent(sim, answer)[1]["hashes"]

    first = hashes("qwen25-vllm", image, other)
    assert len(set(first)) == 2 and all(len(h) == 64 for h in first)
    assert hashes("qwen25-vllm", other, image) == first[::-1]
    assert hashes("qwen3-vllm", image)[0] not in first
    assert hashes("qwen25-vllm", image, cache_salt="a")[0] not in first


def test_choices_share_their_images(gateway, sim, models):
    messages, images = vision.conversation(vision.rng(3), [(80, 60)])
    status, answer = ask(gateway, "qwen25-vllm", messages, n=3, temperature=1)
    assert status == 200 and len(answer["choices"]) == 3
    media = sim.wait_event("media", answer["id"], count=3)
    assert len({json.dumps(m["tensors"]) for m in media}) == 1


def test_tokenize_counts_images(gateway, models):
    messages, images = vision.conversation(vision.rng(4), [(640, 480), (20, 30)])
    status, answer = call(gateway, "/v1/tokenize", {"model": "qwen25-vllm", "messages": messages})
    assert status == 200 and answer["tokens"] == models["qwen25"].want(vision.bare(messages), images)[0]


def test_config_comes_with_the_engines_tokenizer(start, models):
    sim = start(Sim, "--vocab", VOCAB, *(a for f in models["qwen25"].files for a in ("--tokenizer-file", f)))
    gateway = start(Gateway, manifest(engine("e", sim.port)))
    messages, images = vision.conversation(vision.rng(5), [(200, 100)])
    status, answer = ask(gateway, "m", messages)
    assert status == 200 and answer["usage"]["prompt_tokens"] == len(models["qwen25"].want(vision.bare(messages), images)[0])


@pytest.mark.parametrize("type", TYPES)
def test_MM_08_a_placeholder_that_a_user_types_is_text(gateway, sim, models, type):
    """It takes no image's place, before the image or after it, nor counts as one."""
    image = picture(7, 90, 90)
    for words in ("<|image_pad|>", "<|vision_start|><|image_pad|><|vision_end|>", "<image>"):
        messages = [{"role": "user", "content": [text(f"Is {words} safe?"), part(file_of(image)), text(words)]}]
        status, answer = ask(gateway, f"qwen25-{type}", messages)
        assert status == 200, answer
        ids, media = sent(sim, answer)
        assert ids.count(vision.IMAGE_PAD) == sum(length for _, length in media["spans"]) == media["spans"][0][1]
        plain = models["qwen25"].tokenizer.decode(ids, skip_special_tokens=False).replace("<|image_pad|>" * media["spans"][0][1], "#")
        assert plain.count("#") == 1 and plain.count(words) == (4 if "start" in words else 2) - 2 * ("start" in words)
        status, answer = ask(gateway, f"qwen25-{type}", [{"role": "user", "content": words}])
        assert status == 200 and not sim.events("media", answer["id"])


def error(answer):
    return answer["error"]["param"], answer["error"]["message"]


@pytest.mark.parametrize(
    "url, words",
    [
        ("", "expected a data:"), ("file:///etc/passwd", "expected a data:"), ("data:image/png;base64", "comma"),
        ("data:image/png,abc", ";base64"), ("data:text/html;base64,AAAA", "media type"), ("data:image/png;base64,", "without data"),
        ("data:image/png;base64,AAA", "no base64"), ("data:image/png;base64,AA AA", "no base64"), ("data:image/png;base64,A-_A", "no base64"),
        ("data:image/png;base64,AAAA\nAAAA", "no base64"), ("data:image/png;base64,AAAA", "JPEG"), (data_url(file_of(picture(1, 9, 9), "GIF")), "JPEG"),
        (data_url(file_of(picture(1, 99, 99))[:900]), "PNG"), ("http://127.0.0.1/x.png", "not fetched"),
    ],
)
def test_bad_urls(gateway, url, words):
    good = part(file_of(picture(2, 20, 20)))
    status, answer = ask(gateway, "qwen25-vllm", [{"role": "user", "content": "a"}, {"role": "user", "content": [text("b"), good, part(url)]}])
    param, message = error(answer)
    assert status == 400 and param == "messages[1].content[2]" and words in message and f"`{param}`" in message, answer
    assert len(message) < 250  # MM-20: nothing of the data in it


def test_urls_that_are_fine(gateway):
    data = file_of(picture(2, 20, 20))
    plain = data_url(data).split(",")[1]
    for head in ("data:image/png;base64", "DATA:IMAGE/PNG;BASE64", "data:;base64", "data:image/jpeg;base64", "data:image/png;name=a;base64", "data:application/octet-stream;base64"):
        status, answer = ask(gateway, "qwen25-vllm", [{"role": "user", "content": [part(f"{head},{plain}")]}])
        assert status == 200, (head, answer)


def test_bad_parts(gateway):
    good = part(file_of(picture(2, 20, 20)))
    for content, place in (
        ([{"type": "image_url"}], ".content[0].image_url"), ([{"type": "image_url", "image_url": "x"}], ".content[0].image_url"),
        ([{"type": "image_url", "image_url": {"url": 1}}], ".content[0].image_url.url"), ([part("data:", detail="tiny")], ".content[0].image_url.detail"),
        ([good] * 5, ".content[4]"), ([{"type": "video_url"}], ".content[0].type"), ([{"type": "input_audio"}], ".content[0].type"),
    ):
        status, answer = ask(gateway, "qwen25-vllm", [{"role": "user", "content": content}])
        assert status == 400 and error(answer)[0] == "messages[0]" + place, answer
    for role in ("system", "assistant"):
        status, answer = ask(gateway, "qwen25-vllm", [{"role": role, "content": [good]}, {"role": "user", "content": "x"}])
        assert status == 400 and error(answer)[0] == "messages[0].content[0].type", answer


def test_a_model_that_takes_no_images_says_why(gateway):
    status, answer = ask(gateway, "blind", [{"role": "user", "content": [text("x"), part(file_of(picture(2, 20, 20)))]}])
    assert status == 400 and error(answer) == (
        "messages[0].content[1]",
        "`messages[0].content[1]`: model `blind` takes no images: it has no preprocessor_config.json",
    )
    assert answer["error"]["code"] == "unsupported_parameter"


def test_MM_09_counts_are_checked_before_dispatch(gateway, sim, start, models, qwen3_path, tmp_path):
    """A template that loses an image, one that writes a place too many, a prompt of ids with a place and no image."""
    for name, template, places in (("loses", "{{ messages[0].content[0].text }}", 0), ("adds", vision.QWEN_TEMPLATE + "<|image_pad|>", 2)):
        model = vision.Model("qwen25", qwen3_path, tmp_path / name) if (tmp_path / name).mkdir() is None else None
        config = json.loads((model.folder / "tokenizer_config.json").read_text())
        (model.folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
        other = start(Gateway, manifest(engine("e", sim.port, path=model.folder)))
        before = len(sim.events("start"))
        status, answer = ask(other, "m", [{"role": "user", "content": [text("x"), part(file_of(picture(2, 20, 20)))]}])
        assert status == 400 and f"{places} places for images, and the messages have 1" in answer["error"]["message"], answer
        assert len(sim.events("start")) == before
    status, answer = call(gateway, "/v1/completions", {"model": "qwen25-vllm", "prompt": [1, 2, vision.IMAGE_PAD]})
    assert status == 400 and "there are no images" in answer["error"]["message"], answer


def png_head(width, height):
    """A PNG that says how large it is, and has nothing else."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_MM_04_a_bomb_is_refused_by_its_head(gateway):
    """A few bytes that declare a huge picture: one alone, and several together; memory does not grow."""
    before = gateway.rss()
    for sizes in ([(60000, 60000)], [(9000, 9000)] * 3, [(65535, 1)]):
        status, answer = ask(gateway, "qwen25-vllm", [{"role": "user", "content": [part(png_head(*s)) for s in sizes]}])
        assert status == 400 and error(answer)[0] == f"messages[0].content[{len(sizes) - 1}]", answer
    assert ASAN or gateway.rss() - before < 40 << 10


def test_MM_07_limits(start, sim, models):
    """Bytes of a file, pixels of a request, memory of all requests; after them the gateway goes on."""
    gateway = start(
        Gateway, manifest(engine("e", sim.port, path=models["qwen25"].folder)),
        "--max-image-bytes", 20000, "--max-image-pixels", 100000, "--media-memory", 1, "--max-images", 2,
    )  # fmt: skip
    noise = picture(1, 200, 200)
    for parts, words, status_wanted in (
        ([part(file_of(noise))], "20000 bytes", 400), ([part(png_head(400, 300))], "pixels", 400),
        ([part(png_head(240, 240))] * 2, "pixels together", 400), ([part(file_of(picture(1, 10, 10)))] * 3, "at most 2", 400),
        ([part(file_of(Image.new("RGB", (300, 300))))], "--media-memory", 429),
    ):
        status, answer = ask(gateway, "m", [{"role": "user", "content": parts}])
        assert status == status_wanted and words in answer["error"]["message"], answer
    status, answer = ask(gateway, "m", [{"role": "user", "content": [part(file_of(picture(1, 60, 60)))]}])
    assert status == 200, answer
    wait_until(lambda: gateway.metric("kelpie_media_bytes") == 0, "memory of images given back")


def test_a_client_that_leaves_leaves_nothing(gateway, sim):
    body = {"model": "qwen25-vllm", "messages": [{"role": "user", "content": [part(file_of(picture(1, 2000, 1500), "JPEG"))]}], "max_tokens": 2}
    for _ in range(5):
        with wire.Connection(gateway.port) as c:
            c.request(CHAT, body)
    wait_until(lambda: gateway.metric("kelpie_media_bytes") == gateway.metric("kelpie_requests_in_flight") == 0, "everything given back")


def test_the_engines_own_limit(start, models):
    sim = start(Sim, "--vocab", VOCAB, "--item-limits", "image=1,video=0")
    gateway = start(Gateway, manifest(engine("e", sim.port, path=models["qwen25"].folder)))
    good = part(file_of(picture(2, 20, 20)))
    assert ask(gateway, "m", [{"role": "user", "content": [good]}])[0] == 200
    status, answer = ask(gateway, "m", [{"role": "user", "content": [good]}, {"role": "user", "content": ["x", good]}])
    assert status == 400 and error(answer)[0] == "messages[1].content[1]" and "at most 1" in answer["error"]["message"], answer


def test_an_engine_of_another_gateway_gets_the_same(start, models):
    """Forwarded: the entry tier owns no engine. Small images and several, a large one that is refused, and a client that leaves."""
    sim = start(Sim, "--vocab", VOCAB, "--log-ids", "--max-context", 100000)
    operator = start(Operator, manifest(engine("e", sim.port, path=models["qwen25"].folder), engine("l", sim.port, model="l", path=models["llava"].folder)))
    owner = controlled(start, operator, "owner", own=["default/e", "default/l"], ready=False)
    entry = controlled(start, operator, "entry", ready=False)
    for g in (owner, entry):
        wait_until(lambda: g.ask("/readyz?verbose")[1].count(": routable") == 2, "both engines")
    rng = vision.rng(11)
    for name, sizes in (("m", [(64, 48)]), ("m", [(600, 400), (20, 300), (333, 333)]), ("l", [(300, 200), (50, 50)])):
        messages, images = vision.conversation(rng, sizes)
        status, answer = ask(entry, name, messages)
        assert status == 200, answer
        same(models["llava" if name == "l" else "qwen25"], "vllm", sim, answer, messages, images)
    big = [{"role": "user", "content": [part(file_of(Image.new("RGB", (630, 630))))] * 12}]
    status, answer = ask(entry, "m", big)
    assert status == 400 and "engine of another gateway" in answer["error"]["message"], answer
    assert ask(owner, "m", big)[0] == 200
    body = {"model": "m", "messages": [{"role": "user", "content": big[0]["content"][:5]}], "max_tokens": 20000}
    for _ in range(3):
        with wire.Connection(entry.port) as c:
            c.request(CHAT, body)
    for g in (owner, entry):
        wait_until(lambda: g.metric("kelpie_requests_in_flight") == g.metric("kelpie_media_bytes") == 0, "everything given back")
    wait_until(lambda: not ours(), "no names left")


def broken():
    """A file whose head is fine; decoding it fails."""
    return file_of(picture(1, 60, 60))[:900]


def test_nothing_is_decoded_for_engines_that_are_down_or_take_no_such_images(gateway, start, models):
    sim = start(Sim, "--vocab", VOCAB)
    other = start(Gateway, manifest(engine("e", sim.port, path=models["qwen25"].folder)))
    messages = [{"role": "user", "content": [part(broken())]}]
    status, answer = ask(other, "m", messages)
    assert status == 400 and "PNG" in answer["error"]["message"], answer
    status, answer = ask(gateway, "llava-sglang", messages)
    assert status == 400 and error(answer) == ("messages", "`messages`: SGLang takes images of Qwen's models only"), answer
    sim.kill()
    wait_until(lambda: ": down" in other.ask("/readyz?verbose")[1], "the engine is down")
    status, answer = ask(other, "m", messages)
    assert status == 503 and answer["error"]["code"] == "no_engine_available", answer
    status, answer = ask(other, "m", [{"role": "user", "content": [part("data:image/png;base64,AAAA")]}])
    assert status == 400, answer


def test_images_that_are_too_many_for_another_gateway_stay_here(start, models):
    """Engines of one pool, own and another gateway's, take turns, but for what the other cannot be sent."""
    sims = [start(Sim, "--vocab", VOCAB, "--max-context", 100000) for _ in range(2)]
    operator = start(Operator, manifest(*(engine(f"e{i}", s.port, path=models["qwen25"].folder) for i, s in enumerate(sims))))
    own, other = (controlled(start, operator, f"g{i}", "--routing", "round_robin", own=[f"default/e{i}"], ready=False) for i in range(2))
    wait_until(lambda: own.ask("/readyz?verbose")[1].count(": routable") == 2, "both engines")
    small = part(file_of(picture(1, 60, 60)))
    for content, both in ((small, True), (part(file_of(Image.new("RGB", (630, 630)))), False)):
        before = [len(s.events("start")) for s in sims]
        for _ in range(4):
            status, answer = ask(own, "m", [{"role": "user", "content": [content] * 12}])
            assert status == 200, answer
        assert [len(s.events("start")) - n for s, n in zip(sims, before)] == ([2, 2] if both else [4, 0])
    explained = json.loads(own.ask(f"/explain?request={answer['id']}")[1])
    assert "it cannot be sent these images" in [c.get("excluded") for c in explained["choices"][0]["attempts"][0]["candidates"]]


@pytest.mark.parametrize("name", ["qwen2", "qwen25", "qwen3", "llava"])
def test_an_engine_that_normalizes_gets_bytes(start, models, name):
    """As vLLM does for Qwen's models by default; through shared memory, sent, and by way of another gateway."""
    sim = start(Sim, "--vocab", VOCAB, "--log-ids", "--max-context", 100000, "--normalizes")
    one = engine("e", sim.port, path=models[name].folder)
    operator = start(Operator, manifest(one))
    owner = controlled(start, operator, "owner", own=["default/e"], ready=False)
    entry = controlled(start, operator, "entry", ready=False)
    for g in (owner, entry):
        wait_until(lambda: g.ask("/readyz?verbose")[1].count(": routable") == 1, "the engine")
    gateways = [start(Gateway, manifest(one)), start(Gateway, manifest(one), "--media-shm", "off"), entry]
    messages, images = vision.conversation(vision.rng(name), [(300, 200), (57, 400)])
    for g, by_ in zip(gateways, ("shm", "inline", "inline")):
        status, answer = ask(g, "m", messages)
        assert status == 200, answer
        same(models[name], "vllm", sim, answer, messages, images, raw=True)
        assert by_ in by(sim, answer)
        wait_until(lambda: g.metric("kelpie_media_bytes") == 0, "memory of images given back")


def test_an_engine_that_is_replaced_by_one_that_normalizes(start, models):
    """At the same address, and the other way round. Its gateway knows before it sends it anything, one that forwards by being turned away."""
    options = ("--vocab", VOCAB, "--log-ids", "--max-context", 100000)
    sim = start(Sim, *options)
    one = engine("e", sim.port, path=models["qwen25"].folder)
    operator = start(Operator, manifest(one))
    owner = controlled(start, operator, "owner", own=["default/e"], ready=False)
    entry = controlled(start, operator, "entry", ready=False)
    messages, images = vision.conversation(vision.rng(13), [(300, 200)])
    for raw in (False, True, False):
        for g in (owner, entry):
            wait_until(lambda: ": routable" in g.ask("/readyz?verbose")[1], "the engine")
            statuses, deadline = [], time.monotonic() + 20
            while not statuses or (statuses[-1] == 503 and g is entry and time.monotonic() < deadline):
                status, answer = ask(g, "m", messages)
                statuses.append(status)
            assert status == 200, (statuses, answer)
            same(models["qwen25"], "vllm", sim, answer, messages, images, raw)
        sim.kill()
        wait_until(lambda: ": routable" not in owner.ask("/readyz?verbose")[1], "the engine is gone")
        sim = start(Sim, *options, *(() if raw else ("--normalizes",)), port=sim.port)


def test_images_are_made_for_the_engines_that_are_more(start, models):
    """Of a pool some normalize and some do not: where they are as many those that do, where they are fewer, or down, the others."""
    folder = models["qwen25"].folder
    sims = [start(Sim, "--vocab", VOCAB, *options) for options in (("--normalizes",), (), ())]
    messages, _ = vision.conversation(vision.rng(12), [(300, 200)])

    def shares(gateway):
        before = [len(s.events("start")) for s in sims]
        for _ in range(4):
            status, answer = ask(gateway, "m", messages)
            assert status == 200, answer
        return [len(s.events("start")) - n for s, n in zip(sims, before)]

    pools = [start(Gateway, manifest(engine("e", *(s.port for s in sims[:n]), path=folder)), "--routing", "round_robin") for n in (2, 3)]
    for n, gateway in enumerate(pools, 2):
        wait_until(lambda: gateway.ask("/readyz?verbose")[1].count("routable") == n, "all engines")
    assert shares(pools[0]) == [4, 0, 0]
    assert shares(pools[1]) == [0, 2, 2]
    sims[0].kill()
    wait_until(lambda: ": down" in pools[0].ask("/readyz?verbose")[1], "the engine is down")
    assert shares(pools[0]) == [0, 4, 0]


# --- /dev/shm ---


def ours():
    """The names of gateways in /dev/shm that stand for pixels."""
    return [n for n in os.listdir("/dev/shm") if n.startswith("kelpie-") and not n.endswith(".lock")]


def namespace():
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/dev/shm').st_dev}"


def by(sim, answer):
    return {t["by"] for e in sim.events("media", answer["id"]) for n, t in e["tensors"].items() if n == "pixel_values"}


def test_pixels_go_through_shared_memory_where_both_sides_have_it(gateway, sim, start, models):
    """As a name for each choice, to vLLM; sent, where either side says no, to SGLang, and when they are few."""
    messages, images = vision.conversation(vision.rng(8), [(300, 200)])
    for model, want in (("qwen25-vllm", "shm"), ("qwen25-sglang", "inline")):
        status, answer = ask(gateway, model, messages, n=2, temperature=1)
        assert status == 200 and by(sim, answer) == {want}
    for options, more in (((), ("--media-shm", "off")), (("--shm", ""), ()), (("--shm", "elsewhere:1"), ())):
        other = start(Sim, "--vocab", VOCAB, *options)
        status, answer = ask(start(Gateway, manifest(engine("e", other.port, path=models["qwen25"].folder)), *more), "m", messages)
        assert status == 200 and by(other, answer) == {"inline"}
    wait_until(lambda: not ours(), "no names left")


def test_an_engine_that_cannot_read_there_is_sent_them(start, models):
    """It says that it has our /dev/shm and has another: the request is served all the same, and the next ones at once."""
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root, for a /dev/shm of its own")
    wrapper = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh")
    sim = start(Sim, "--vocab", VOCAB, "--shm", namespace(), wrapper=wrapper)
    gateway = start(Gateway, manifest(engine("e", sim.port, path=models["qwen25"].folder)))
    messages, images = vision.conversation(vision.rng(9), [(300, 200)])
    for starts in (2, 1):
        status, answer = ask(gateway, "m", messages)
        assert status == 200 and by(sim, answer) == {"inline"}
        assert len(sim.events("start", answer["id"])) == starts
    assert len(gateway.lines("an engine cannot read what is left for it in /dev/shm: images are sent")) == 1
    assert not ours()


def test_an_engine_that_fails_by_itself_is_left_for_another(start, models):
    """The second try there, without a name, costs the request none of its own; the other engine is not blamed for it."""
    sims = [start(Sim, "--vocab", VOCAB, *options) for options in (("--fault", "internal:0"), ())]
    engines = [engine(f"e{i}", s.port, path=models["qwen25"].folder) for i, s in enumerate(sims)]
    gateway = start(Gateway, manifest(*engines), "--routing", "round_robin")
    wait_until(lambda: gateway.ask("/readyz?verbose")[1].count(": routable") == 2, "both engines")
    messages, images = vision.conversation(vision.rng(9), [(300, 200)])
    for _ in range(4):
        status, answer = ask(gateway, "m", messages)
        assert status == 200, answer
    tries = collections.Counter(e["request_id"][:-2] for e in sims[0].events("start"))
    assert tries and set(tries.values()) == {2}, tries
    assert not gateway.lines("an engine cannot read what is left for it in /dev/shm: images are sent")


@pytest.mark.parametrize("victim", ["engine", "gateway"])
def test_nothing_is_left_when_either_side_is_killed(start, models, victim):
    """kill -9 between the name and its reader."""
    sim = start(Sim, "--vocab", VOCAB)
    text_ = manifest(engine("e", sim.port, path=models["qwen25"].folder))
    gateway = start(Gateway, text_)
    messages, _ = vision.conversation(vision.rng(10), [(300, 200)])
    os.kill(sim.pid, signal.SIGSTOP)
    connections = [wire.Connection(gateway.port) for _ in range(4)]
    for c in connections:
        c.request(CHAT, {"model": "m", "messages": messages, "max_tokens": 2})
    wait_until(lambda: len(ours()) == 4, "names for the engine")
    if victim == "engine":
        sim.kill()
        assert {c.answer().status for c in connections} == {503}
    else:
        gateway.kill()
        assert len(ours()) == 4
        sim.kill()
        start(Gateway, text_, ready=False)
    wait_until(lambda: not ours(), "nothing left")
    for c in connections:
        c.close()
