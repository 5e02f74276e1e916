"""A server of the Python SDK that has more for people than for a model: resources and prompts."""
import base64

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@server.resource("notes://harbour.md", name="harbour", title="Harbour notes", description="What was seen at the harbour.\u202e", mime_type="text/markdown")
def harbour() -> str:
    return "# Harbour\n\nThe boats lay still.\n"


@server.resource("notes://dot.png", name="dot", description="One pixel.", mime_type="image/png")
def dot() -> bytes:
    return base64.b64decode(PNG)


@server.resource("notes://broken", name="broken", description="Cannot be read.")
def broken() -> str:
    raise ValueError("the page is torn")


@server.prompt(description="Asks for a review.")
def review(language: str, tone: str = "kind") -> str:
    return f"Review this {language} code in a {tone} tone."


@server.prompt(description="Asks for a summary.")
def summary() -> str:
    return "Summarise the notes."


@server.tool()
def shelf() -> str:
    """Names a shelf."""
    return "third"


server.run("stdio")
