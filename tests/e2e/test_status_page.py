"""The status page of a real operator in a real browser: what it shows is what is, and it follows what happens."""

import pathlib
import sys

import pytest
from programs import QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integ/status"))
from browser import Browser, Page  # noqa: E402


@pytest.fixture
def browser():
    program = Browser()
    yield program
    program.stop()


def rows(page, name):
    return page.evaluate(
        f"""[...document.querySelectorAll('[aria-labelledby={name}] tbody tr')]
            .map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
    )


@pytest.mark.parametrize("script", [True, False])
def test_the_page_shows_what_happens(start, qwen3_path, browser, script):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    text = manifest(engine("e", sim.port, path=qwen3_path))
    operator = start(Operator, text)
    control = ("--control", f"127.0.0.1:{operator.port}")
    owning = lambda name: start(Gateway, None, *control, "--id", name, "--own", "default/e", "--peer-listen", "127.0.0.1:0")
    gateway = owning("gw-a")
    page = Page(browser, script=script)
    url = f"http://127.0.0.1:{operator.admin}/"
    page.open(url)

    def shows(name, *cells):
        """A row of the table begins with these cells; without script the page is loaded until it does."""

        def look():
            if not script:
                page.open(url)
            return any(row[: len(cells)] == list(cells) for row in rows(page, name))

        wait_until(look, f"{name}: {cells}")

    shows("pools", "default/pool", "8080", "1", "1 of 1")
    shows("endpoints", "default/e/0", sim.address, "routable", "gw-a")
    shows("gateways", "gw-a", "default", "current")
    shows("models", "m", "", "default/e", "pool", "vllm")
    operator.write_and_wait(text.replace('"vllm"', '"vlm"'), "manifests refused, the last good program stays")
    if script:
        page.wait_text("spec.engine.type")
    operator.write_and_wait(text)
    gateway.stop()
    shows("gateways", "gw-a", "default", "ended")
    gateway = owning("gw-b")
    shows("gateways", "gw-b", "default", "current")
    gateway.kill()
    shows("gateways", "gw-b", "default", "lost")
    assert page.said == []
