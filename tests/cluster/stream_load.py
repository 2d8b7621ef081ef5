"""stream_load.py ADDRESS RATE TOKENS [keep]: streamed chats at a fixed rate, each of which is checked, until standard input ends; then those
under way are waited for. Each that ended is a line of JSON on standard output. Runs by itself, so that it can be put into a pod's network.

Outcomes: `whole`; `refused`: an answer that is no 200; `lost`: no answer at all; `error`: a stream that ended with one event that says why;
`cut`: a stream that just ended; `wrong`: a stream that ended well with something else than was asked for.
With `keep` connections are kept, and a request that a kept one was closed under before a byte of the answer came is sent once more, as HTTP
clients do (`resent`); without, each has its own."""

import asyncio
import json
import sys
import time

PATIENCE_S = 60


class Ended(Exception):
    def __init__(self, outcome, detail):
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail


class Load:
    def __init__(self, address, rate, tokens, keep):
        self.host, self.port = address.rsplit(":", 1)
        self.rate, self.tokens, self.keep, self.idle, self.over = rate, tokens, keep, [], False
        body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens, "stream": True})
        end = "" if keep else "Connection: close\r\n"
        self.request = f"POST /v1/chat/completions HTTP/1.1\r\nHost: demo\r\n{end}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    async def run(self):
        tasks, began, n = set(), time.monotonic(), 0
        asyncio.get_running_loop().add_reader(sys.stdin, self.stop)
        while not self.over:
            while n <= (time.monotonic() - began) * self.rate:
                task = asyncio.ensure_future(self.one(n))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                n += 1
            await asyncio.sleep(0.5 / self.rate)
        if tasks:
            await asyncio.wait(tasks)

    def stop(self):
        self.over = True
        asyncio.get_running_loop().remove_reader(sys.stdin)

    async def one(self, n):
        told = {"n": n, "began": time.time(), "outcome": "whole", "detail": "", "resent": False}
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.ask(told)
        except Ended as e:
            told.update(outcome=e.outcome, detail=e.detail)
        except TimeoutError:
            told.update(outcome="cut" if "first" in told else "lost", detail=f"nothing more for {PATIENCE_S} s")
        told["ended"] = time.time()
        print(json.dumps(told), flush=True)

    async def head(self, told):
        """The connection, and the head of the answer."""
        while True:
            kept = self.idle.pop() if self.idle else None
            try:
                reader, writer = kept or await asyncio.open_connection(self.host, self.port)
                told["from"] = writer.get_extra_info("sockname")[1]
                writer.write(self.request)
                return reader, writer, (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except (OSError, asyncio.IncompleteReadError) as e:
                if not kept or getattr(e, "partial", b""):
                    raise Ended("lost", repr(e)) from None
                told["resent"] = True

    async def ask(self, told):
        reader, writer, head = await self.head(told)
        try:
            status = int(head.split(" ", 2)[1])
            events = []
            async for event in self.events(reader, head):
                told.setdefault("first", time.time())
                events.append(event)
            if status != 200:
                raise Ended("refused", f"{status} {events}"[:300])
            self.judge(events)
        except (OSError, asyncio.IncompleteReadError) as e:
            told.setdefault("first", None)
            writer.close()
            raise Ended("cut", repr(e)) from None
        if self.keep and "connection: close" not in head:
            self.idle.append((reader, writer))
        else:
            writer.close()

    async def events(self, reader, head):
        """What follows `data: `, or the whole body of another answer."""
        if "transfer-encoding: chunked" not in head:
            size = int(head.split("content-length: ", 1)[1].split("\r\n", 1)[0])
            yield (await reader.readexactly(size)).decode()
            return
        rest = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            rest += await reader.readexactly(size)
            await reader.readexactly(2)
            *whole, rest = rest.split(b"\n\n")
            for event in whole:
                yield event.removeprefix(b"data: ").decode()
        await reader.readexactly(2)

    def judge(self, events):
        values = [json.loads(e) for e in events if e != "[DONE]"]
        errors = [v["error"] for v in values if "error" in v]
        if errors:
            raise Ended("error", f"{len(errors)} {errors[0].get('type')}: {errors[0].get('message')}"[:300])
        finish = [c["finish_reason"] for v in values for c in v["choices"] if c.get("finish_reason")]
        if not events or events[-1] != "[DONE]":
            raise Ended("cut", f"no [DONE] after {len(events)} events")
        if finish != ["length"]:
            raise Ended("wrong", f"finish {finish} after {len(events)} events")


if __name__ == "__main__":
    asyncio.run(Load(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["keep"]).run())
