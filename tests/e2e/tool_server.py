"""An MCP server made with the SDK: tool_server.py PORT. What it is asked comes out as JSON lines; {"ready": port} is the first."""

import asyncio
import json
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

mcp = MCPServer("test", version="1")


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")  # in one piece: tools run on threads
    sys.stdout.flush()


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(city: str) -> str:
    """The weather of a city."""
    say(tool="get_weather", city=city)
    return f"rain in {city}"


@mcp.tool()
async def ping() -> str:
    """Answers after a while."""
    say(tool="ping", begins=True)
    await asyncio.sleep(0.3)
    say(tool="ping", begins=False)
    return "pong"


@mcp.tool()
def broken() -> str:
    """Always fails."""
    raise ToolError("the pipe has burst")


@mcp.tool()
async def slow() -> str:
    """Takes a minute."""
    say(tool="slow", begins=True)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        say(tool="slow", cancelled=True)
        raise
    return "done"


class Log:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            say(method=scope["method"], headers={k.decode(): v.decode() for k, v in scope["headers"]})
        await self.app(scope, receive, send)


server = uvicorn.Server(uvicorn.Config(Log(mcp.streamable_http_app()), host="127.0.0.1", port=int(sys.argv[1]), log_level="error", timeout_graceful_shutdown=1))


async def main():
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    say(ready=server.servers[0].sockets[0].getsockname()[1])
    await task


asyncio.run(main())
