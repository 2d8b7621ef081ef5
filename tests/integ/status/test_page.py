"""The status page in a real browser: without script, with it, under attack, on a phone."""

import http.server
import json
import threading
import time
import urllib.error
import urllib.request

import pytest

LIVE = "follows changes"
HOSTILE = """<script>window.hit=1</script><img src=x onerror="window.hit=2">'"&amp;</td></table>"""


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def table(page, name):
    """Rows of the table under a heading, as texts of cells."""
    return page.evaluate(
        f"""[...document.querySelectorAll('[aria-labelledby={name}] tbody tr')]
            .map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
    )


def test_everything_is_there_without_script(server, open_page):
    page = open_page(server.url, script=False)
    assert table(page, "pools") == [["default/demo", "8080", "1", "2 of 2", ""]]
    (model,) = table(page, "models")
    assert model[:7] == ["smollm2-135m", "", "default/demo", "demo", "vllm", "Engine", "2 of 2"]
    assert model[7].startswith("Ready: True 9") and "Stalled: False 61m" in model[7]
    first, second = table(page, "endpoints")
    assert first[:8] == ["default/demo/0", "127.0.0.1:50051", "routable", "gw-a0", "3", "2", "1", "37 %"]
    assert second[8] == "8h"
    assert [row[:4] for row in table(page, "gateways")] == [
        ["gw-a0", "default", "current", "7 3f9a01c2"],
        ["gw-b1", "default", "current", "7 3f9a01c2"],
    ]
    assert table(page, "programs")[0][:3] == ["default", "7 3f9a01c2", "2 of 2"]
    assert "Load the page again to see what changed." in page.text() and LIVE not in page.text()
    assert page.said == []


def test_changes_arrive_live_and_without_a_reload(server, open_page):
    page = open_page(server.url)
    page.wait_text(LIVE)
    page.evaluate("window.mark = 'the same page'; document.querySelector('table').mark = 'the same table'; 0")
    assert "down" not in page.text()
    server.set("reason", "connection refused")
    server.set("state", "down")
    page.wait_text("down connection refused")
    assert "Ready: False NoEndpoint" in page.text()
    assert page.evaluate("document.title") == "Kelpie: 1 of 2 endpoints routable"
    server.set("gateways", 3)
    page.wait(lambda: len(table(page, "gateways")) == 3)
    server.set("gateways", 1)
    page.wait(lambda: len(table(page, "gateways")) == 1)
    server.set("error", "pool.yaml:3:5: error: spec.selector: Required value")
    page.wait_text("pool.yaml:3:5: error: spec.selector: Required value")
    server.set("error", "")
    page.wait(lambda: "pool.yaml:3:5" not in page.text())
    assert page.evaluate("window.mark") == "the same page"
    assert page.evaluate("document.querySelector('table').mark") == "the same table"
    assert page.said == []


def test_a_burst_of_changes_costs_few_fetches_and_ends_with_the_last(server, open_page):
    page = open_page(server.url)
    page.wait_text(LIVE)
    count = "performance.getEntriesByType('resource').filter(e => e.initiatorType === 'fetch').length"
    before, began = page.evaluate(count), time.monotonic()
    for i in range(300):
        server.set("reason", f"number {i} of 300")
        time.sleep(0.005)
    page.wait_text("number 299 of 300")
    assert page.evaluate(count) - before <= 2 + 2 * (time.monotonic() - began)
    assert page.said == []


@pytest.mark.parametrize("script", [True, False])
def test_hostile_text_is_only_text(server, open_page, script):
    for word in ("model", "reason", "message", "error", "not-ready", "admin", "state"):
        server.set(word, f"{HOSTILE} {word}")
    page = open_page(server.url, script=script)
    if script:
        page.wait_text(LIVE)
        server.set("reason", HOSTILE + " changed")
        page.wait_text("changed")
    text = page.text()
    assert text.count(HOSTILE) >= 5, text
    assert page.evaluate("window.hit === undefined && document.querySelectorAll('main img, main script').length === 0")
    status = json.loads(get(server.url + "/status"))
    assert status["engines"][0]["model"] == f"{HOSTILE} model"
    assert page.said == []


def test_the_policy_of_the_page_holds(server, open_page):
    page = open_page(server.url)
    page.wait_text(LIVE)
    violated = page.evaluate("""new Promise(done => {
        const seen = [];
        document.addEventListener('securitypolicyviolation', e => seen.push(e.effectiveDirective));
        const script = document.createElement('script');
        script.textContent = 'window.hit = 1';
        document.body.append(script);
        document.body.setAttribute('onclick', 'window.hit = 2');
        document.body.click();
        document.body.insertAdjacentHTML('beforeend', '<style>body { color: red }</style><p style="color: red">x</p>');
        document.body.insertAdjacentHTML('beforeend', '<iframe src="https://example.com/"></iframe>');
        fetch('http://127.0.0.1:1/').catch(() => 0);
        new WebSocket('ws://127.0.0.1:1/');
        setTimeout(() => done(seen.sort()), 500);
    })""")
    assert violated == ["connect-src", "connect-src", "frame-src", "script-src-attr", "script-src-elem",
                        "style-src-attr", "style-src-elem"]  # fmt: skip
    assert page.evaluate("window.hit") is None


@pytest.fixture
def foreign():
    """A page of somebody else, on another port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>foreign</title>")

        def log_message(self, *_):
            pass

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{other.server_port}"
    other.shutdown()
    other.server_close()


def test_a_foreign_page_sees_nothing(server, open_page, foreign):
    page = open_page(foreign)
    opened = f"""new Promise(done => {{
        const feed = new WebSocket('ws://127.0.0.1:{server.port}/status/feed');
        feed.onmessage = () => done('open');
        feed.onclose = () => done('closed');
    }})"""
    assert page.evaluate(opened) == "closed"
    assert page.evaluate(f"fetch('{server.url}/status').then(() => 'read', () => 'refused')") == "refused"
    page.evaluate(f"document.body.append(Object.assign(document.createElement('iframe'), {{src: '{server.url}/'}}))")
    page.wait(lambda: "frame-ancestors" in str(page.said))
    page = open_page(server.url)
    assert page.evaluate(opened) == "open"


def test_the_operator_comes_back(server, serve, open_page):
    page = open_page(server.url)
    page.wait_text(LIVE)
    server.stop()
    page.wait_text("no connection to the operator")
    assert "127.0.0.1:50051" in page.text()  # what was known stays to be read
    again = serve(server.port)
    again.set("reason", "after the restart")
    page.wait_text(LIVE)
    page.wait_text("after the restart")


def luminance(color):
    parts = [int(float(x)) / 255 for x in color[color.index("(") + 1 : -1].split(",")[:3]]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_readable(server, open_page, dark):
    server.set("state", "down")
    server.set("error", "pool.yaml: wrong")
    page = open_page(server.url, dark=dark)
    colors = page.evaluate("""[...document.querySelectorAll('body, a, h2, p, th, td, td *, time, code, .mark, pre, .summary a')].map(e => {
        let under = e;
        while (getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)') under = under.parentElement;
        return [e.outerHTML.slice(0, 60), getComputedStyle(e).color, getComputedStyle(under).backgroundColor];
    })""")
    assert len(colors) > 40
    for what, text, back in colors:
        a, b = sorted((luminance(text), luminance(back)))
        assert (b + 0.05) / (a + 0.05) >= 4.5, (what, text, back)  # WCAG 2.1, AA
    assert (luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1) == dark


def test_a_phone_needs_no_scrolling_sideways(server, open_page, tmp_path):
    server.set("model", "m" * 300)
    server.set("reason", "x" * 500)
    server.set("state", "answering")
    page = open_page(server.url, width=360, height=700)
    assert page.evaluate("document.scrollingElement.scrollWidth") == 360
    assert page.evaluate("[...document.querySelectorAll('td, .wide')].filter(e => e.scrollWidth > e.clientWidth).length") == 0
    label = page.evaluate("getComputedStyle(document.querySelector('[aria-labelledby=endpoints] td'), '::before').content")
    assert label == '"Endpoint"'


def test_large_states(server, open_page):
    server.set("gateways", 20000)
    page = open_page(server.url)
    assert len(table(page, "gateways")) == 2000
    assert "18000 more are not shown here; as JSON all are." in page.text()
    assert "20000 of 20000 gateways current" in page.text()
    assert len(json.loads(get(server.url + "/status"))["gateways"]) == 20000
    server.set("gateways", 100000)
    page.wait_text("98000 more are not shown here")
    with pytest.raises(urllib.error.HTTPError) as e:
        get(server.url + "/status")
    assert e.value.code == 500
    assert json.loads(e.value.read())["error"]["message"] == "build `/status`: more than 16777216 bytes"


def test_ready_says_why_not(server):
    assert get(server.url + "/readyz?verbose") == "ok\n"
    server.set("not-ready", "manifests: nothing accepted yet")
    for _ in range(100):
        try:
            get(server.url + "/readyz?verbose")
        except urllib.error.HTTPError as e:
            assert (e.code, e.read()) == (503, b"not ready: manifests: nothing accepted yet\n")
            break
        time.sleep(0.05)
    else:
        pytest.fail("still ready")
    assert get(server.url + "/livez") == "ok\n"
    assert set(json.loads(get(server.url + "/version"))) == {"version", "commit"}
