"""An MCP server made with the SDK: server.py PORT [stateless] [json]. What it is asked comes out as JSON lines; {"ready": port} is the first."""

import asyncio
import json
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ImageContent, TextContent, ToolAnnotations

port, flags = int(sys.argv[1]), sys.argv[2:]
mcp = MCPServer("test", version="1")
calls = 0


def say(**what):
    print(json.dumps(what), flush=True)


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def fail(why: str) -> str:
    """Always fails."""
    raise ToolError(why)


@mcp.tool(structured_output=False)
def picture() -> list:
    """A text and a picture."""
    return [TextContent(type="text", text="a picture:"), ImageContent(type="image", data="AAAA", mime_type="image/png")]


@mcp.tool(structured_output=False)
def big(n: int) -> str:
    """A long text."""
    return "é" * n


@mcp.tool(name="odd.name/v1")
def odd() -> str:
    """A name that models do not take."""
    return "odd\x07\u001b[31m\r\nline"


@mcp.tool()
async def slow(seconds: float, steps: int, ctx: Context) -> str:
    """Tells how far it is."""
    say(began="slow")
    try:
        for i in range(steps):
            await ctx.report_progress(i + 1, steps, f"step {i + 1}")
            await asyncio.sleep(seconds / steps)
    except asyncio.CancelledError:
        say(cancelled="slow")
        raise
    say(ended="slow")
    return "done"


@mcp.tool()
def count() -> int:
    """How often it was called."""
    global calls
    calls += 1
    return calls


async def more() -> str:
    """Came later."""
    return "more"


@mcp.tool()
async def grow(ctx: Context) -> str:
    """Makes a tool, and says so."""
    mcp.add_tool(more, name="more")
    await ctx.session.send_tool_list_changed()
    return "grown"


class Log:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            headers = {k.decode(): v.decode() for k, v in scope["headers"]}
            say(method=scope["method"], headers=headers)
        await self.app(scope, receive, send)


app = mcp.streamable_http_app(stateless_http="stateless" in flags, json_response="json" in flags)
server = uvicorn.Server(uvicorn.Config(Log(app), host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1))


async def main():
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    say(ready=server.servers[0].sockets[0].getsockname()[1])
    await task


asyncio.run(main())
