"""A headless Chromium, driven over its DevTools pipe: JSON with a NUL behind each message, in on descriptor 3, out on 4."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60


class Browser:
    def __init__(self):
        program = shutil.which("chromium")
        assert program, "no chromium: hack/deps test"
        self.folder = tempfile.mkdtemp(prefix="kelpie-chromium-")
        to_read, self.write_to = os.pipe()
        self.read_from, to_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                 "--no-first-run", "--disable-background-networking", "--disable-component-update",
                 f"--user-data-dir={self.folder}"]  # fmt: skip

        # Its ends may have any numbers, 3 and 4 in the wrong order too. Python closes the others on exec.
        def place():
            a, b = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_read, to_write))
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, *flags, "about:blank"],
            preexec_fn=place,
            close_fds=False,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.last, self.buffer, self.events = 0, b"", []

    def stop(self):
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.next(until)
            assert answer, f"{method}: no answer"
            if answer.get("id") == self.last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def next(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_from], [], [], left)[0]:
                return None
            piece = os.read(self.read_from, 1 << 20)
            assert piece, "the browser is gone"
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def drain(self):
        while event := self.next(time.monotonic() + 0.05):
            self.events.append(event)


class Page:
    """A tab. `said` is all that was logged to its console, by scripts and by the browser itself."""

    def __init__(self, browser, script=True, dark=False, width=1200, height=900):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])  # fmt: skip
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(lambda: self.evaluate("document.readyState") == "complete" and self.evaluate("location.href") != "about:blank")

    def evaluate(self, expression):
        """The value of an expression; of what a promise in the end becomes."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def text(self):
        return self.evaluate("document.body.innerText")

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, self.text()
            time.sleep(0.05)

    def wait_text(self, text):
        self.wait(lambda: text in self.text())

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def events(self, *methods):
        self.browser.drain()
        return [e for e in self.browser.events if e.get("sessionId") == self.session and e["method"] in methods]

    @property
    def said(self):
        return [e["params"] for e in self.events("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")]

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

