"""The MCP server of `hack/demo --tools`: demo_tools.py PORT. Prints "ready on HOST:PORT", then each call."""

import asyncio
import sys
from typing import Literal

import uvicorn
from mcp.server.mcpserver import MCPServer

mcp = MCPServer("demo", version="1")
TIDES = {"morning": "low, 0.4 m", "noon": "rising, 1.9 m", "evening": "high, 3.1 m"}


@mcp.tool()
def tide(time: Literal["morning", "noon", "evening"]) -> str:
    """The tide at a time of the day."""
    print(f"tide({time!r})", flush=True)
    return TIDES[time]


mcp._tool_manager.get_tool("tide").parameters["additionalProperties"] = False  # a small model would go on and on


async def main():
    server = uvicorn.Server(uvicorn.Config(mcp.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.05)
    print(f"ready on 127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    await task


asyncio.run(main())
