"""A steady load of requests, each of which is checked: for tests that change something meanwhile."""

import asyncio
import collections
import json
import re
import threading
import time

from programs import PATIENCE
from wire import CHAT, COMPLETIONS

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2000}
CHAT_BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2000}


class Load:
    """A fixed rate of requests over kept-alive connections, from a thread with an event loop of its own. `failures` is what went wrong;
    a request that the gateway never answered a byte of, because it was closing, is counted apart in `unsent`."""

    def __init__(self, gateway, rate, body, connections=64):
        self.gateway, self.rate, self.body = gateway, rate, body
        self.done, self.failures, self.unsent, self.statuses = 0, [], 0, collections.Counter()
        self.over, self.idle = threading.Event(), []
        self.limit = connections
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.thread.start()

    def stop(self):
        self.over.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    async def _run(self):
        tasks, started, number = set(), time.monotonic(), 0
        while not self.over.is_set():
            while number <= (time.monotonic() - started) * self.rate and len(tasks) < self.limit:
                task = asyncio.ensure_future(self._one(number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                number += 1
            await asyncio.sleep(1 / self.rate)
        if tasks:
            await asyncio.wait(tasks)
        for _, writer in self.idle:
            writer.close()

    async def _one(self, number):
        path, body, check = self.body(number)
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        answered = False
        try:
            reader, writer = (
                self.idle.pop()
                if self.idle
                else await asyncio.open_connection("127.0.0.1", self.gateway.port)
            )
            writer.write(head.encode() + data)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            answered = True
            text = head.decode().lower()
            status = int(text.split(" ", 2)[1])
            self.statuses[status] += 1
            if "transfer-encoding: chunked" in text:
                content = b""
                while size := int(await reader.readuntil(b"\r\n"), 16):
                    content += await reader.readexactly(size)
                    await reader.readexactly(2)
                await reader.readexactly(2)
            else:
                content = await reader.readexactly(int(re.search(r"content-length: (\d+)", text)[1]))
            check(status, content)
            self.done += 1
            if "connection: close" in text:
                writer.close()
            else:
                self.idle.append((reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError) as e:
            if (
                answered
                or self.gateway.process.poll() is None
                and not getattr(self.gateway, "is_leaving", False)
            ):
                self.failures.append(f"{number}: {e!r}")
            else:
                self.unsent += 1
        except Exception as e:
            self.failures.append(f"{number}: {e!r}")


def expect_whole(streamed, tokens):
    def check(status, content):
        assert status == 200, content[:300]
        if streamed:
            assert (
                content.endswith(b"data: [DONE]\n\n") and content.count(b'"finish_reason":"length"') == 1
            ), content[-300:]
            assert b'"error"' not in content
        else:
            answer = json.loads(content)
            assert (
                answer["usage"]["completion_tokens"] == tokens
                and answer["choices"][0]["finish_reason"] == "length"
            )

    return check


def short_requests(models=("m",), tokens=4):
    """Chat and completions, streamed and not, of these models in turn."""

    def body(number):
        streamed, chat, model = number % 2 == 0, number % 4 < 2, models[number // 4 % len(models)]
        asked = CHAT_BODY if chat else BODY
        value = {**asked, "model": model, "max_tokens": tokens, "stream": streamed}
        return CHAT if chat else COMPLETIONS, value, expect_whole(streamed, tokens)

    return body
