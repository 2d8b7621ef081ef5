"""Fifty large images at once, and what that does to those who only send text. By hand: `pytest -m slow -s tests/e2e/test_image_load.py`.

Clients and engine of the images stand for other machines. They are niced, and yet one that runs keeps its processor for up to a tick (4 ms) when a loop of
the gateway, the text's client or its engine wakes up there. So they stand still while a text is asked, and what is left is the gateway's own: bodies that have arrived,
reading, decoding and processing. A second round without that is printed, not judged."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import signal
import time

import pytest
import vision
import wire
from programs import Gateway, Sim, engine, manifest
from vision import file_of, part, picture
from wire import CHAT

N, BOUND = 50, 1.5


def send(port, body, n, barrier):
    os.nice(19)
    connections = [wire.Connection(port, 300) for _ in range(n)]
    barrier.wait()
    for c in connections:
        c.send(body)
    assert all(c.answer().status == 200 for c in connections)


@contextlib.contextmanager
def standing_still(pids):
    """They have no processor meanwhile. One that has ended is fine."""
    running = lambda pid: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZX"
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        while any(running(pid) for pid in pids):
            os.sched_yield()
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def p99(port, seconds=None, alive=None, still=()):
    """Time to the first byte of short texts, one after the other; these processes stand still meanwhile."""
    body = wire.encode(CHAT, {"model": "text", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, "stream": True})
    times, end = [], time.monotonic() + (seconds or 600)
    while time.monotonic() < end and (alive is None or alive()):
        with standing_still(still), wire.Connection(port) as c:
            c.send(body)
            begin = time.perf_counter()
            c.socket.recv(1)
            times.append(time.perf_counter() - begin)
        time.sleep(0.005)
    if alive:
        print([round(max(times[i : i + 20]) * 1e3, 1) for i in range(0, len(times), 20)])
    times.sort()
    return times[int(len(times) * 0.99)] * 1e3, len(times)


def delays(pid):
    """Milliseconds that the threads of one name ran, and waited for a processor."""
    sums = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name = re.sub(r"-\d+", "", (task / "comm").read_text().strip())
        ran, waited, _ = map(int, (task / "schedstat").read_text().split())
        old = sums.get(name, (0, 0))
        sums[name] = (old[0] + ran / 1e6, old[1] + waited / 1e6)
    return sums


def beside_images(gateway, body, engine):
    """(p99, samples) of texts while N requests with an image are under way. engine: a pid that stands still with the clients while a text is asked, or None."""
    barrier = multiprocessing.Barrier(2)
    sender = multiprocessing.Process(target=send, args=(gateway.port, body, N, barrier))
    sender.start()
    barrier.wait()
    before, begin = delays(gateway.pid), time.monotonic()
    loaded, n = p99(gateway.port, alive=sender.is_alive, still=(engine, sender.pid) if engine else ())
    seconds, after = time.monotonic() - begin, delays(gateway.pid)
    sender.join()
    print({k: [round(a - b) for a, b in zip(v, before.get(k, (0, 0)))] for k, v in after.items()}, f"{seconds:.1f} s")
    assert sender.exitcode == 0
    return loaded, n


@pytest.mark.slow
@pytest.mark.alone
def test_text_is_answered_while_images_are_made(start, qwen3_path, tmp_path):
    model = vision.Model("qwen25", qwen3_path, tmp_path)
    sims = [start(Sim, "--vocab", 151700, "--max-context", 100000, wrapper=wrapper) for wrapper in ((), ("nice", "-n", "19"))]
    gateway = start(Gateway, manifest(engine("text", sims[0].port, model="text", path=model.folder), engine("e", sims[1].port, path=model.folder)))
    image = file_of(picture(1, 4000, 3000).resize((4000, 3000)), "JPEG", quality=60)
    body = wire.encode(CHAT, {"model": "m", "messages": [{"role": "user", "content": [part(vision.data_url(image))]}], "max_tokens": 2})
    p99(gateway.port, 3)
    idle, n_idle = p99(gateway.port, 5, still=(sims[1].pid,))
    loaded, n_loaded = beside_images(gateway, body, sims[1].pid)
    shared, _ = beside_images(gateway, body, None)
    print(json.dumps({"image bytes": len(image), "idle p99 ms": round(idle, 2), "loaded p99 ms": round(loaded, 2), "samples": [n_idle, n_loaded],
                      "with clients and engine of the images on the same processors": round(shared, 2), "rss MiB": gateway.rss() >> 10}))
    assert loaded <= idle * BOUND
