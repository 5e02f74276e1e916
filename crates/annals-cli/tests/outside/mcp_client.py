"""Talks to Annals as an MCP server with the Python SDK and prints what it saw as one line of JSON.

`mcp_client.py COMMAND ARGS ENV` starts the server; with ANNALS_URL and ANNALS_TOKEN set, it talks to `/mcp` there.
"""
import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


def server():
    if "ANNALS_URL" in os.environ:
        http = create_mcp_http_client(headers={"Authorization": "Bearer " + os.environ["ANNALS_TOKEN"]})
        return streamable_http_client(os.environ["ANNALS_URL"] + "/mcp", http_client=http)
    command, args, env = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    return StdioServerParameters(command=command, args=args, env=env)


async def main():
    async with Client(server(), mode=os.environ.get("MCP_MODE", "auto")) as client:
        tools = await client.list_tools()
        asked = await client.call_tool("annals_ask", {"prompt": "Write the report."})
        told = asked.structured_content
        again = await client.call_tool("annals_wait", {"conversation": told["conversation"], "turn": told["turn"]})
        read = await client.call_tool("annals_read", {"conversation": told["conversation"], "path": told["files"][0]["path"]})
        resource = await client.read_resource(told["files"][0]["uri"])
        timeline = await client.call_tool("annals_timeline", {"conversation": told["conversation"]})
        found = await client.call_tool("annals_search_memory", {"query": "report"})
        wrong = await client.call_tool("annals_read", {"conversation": told["conversation"], "path": "fi:turn_1.files/absent"})
        used = await client.call_tool("react__write", {"path": "b.md", "channel": "canvas", "content": "# B", "kind": "file"})
        listed = await client.list_resources()
        print(json.dumps({
            "protocol": client.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "told": told,
            "again": again.structured_content,
            "read": read.content[0].text,
            "resource": [resource.contents[0].mime_type, resource.contents[0].text],
            "timeline": timeline.content[0].text,
            "found": found.structured_content,
            "wrong": [wrong.is_error, wrong.content[0].text],
            "used": [bool(used.is_error), [part.type for part in used.content]],
            "listed": len(listed.resources),
        }))


asyncio.run(main())
