"""A server of the Python SDK whose tool asks which seat: in rounds since 2026-07-28."""
import os
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("booking")


class Seat(BaseModel):
    seat: str


async def which(flight: str) -> Elicit[Seat]:
    return Elicit(f"Which seat in {flight}?", Seat)


@server.tool()
async def book(flight: str, seat: Annotated[Seat, Resolve(which)]) -> str:
    """Books a seat."""
    with open(os.path.join(os.environ["HOME"], "effects"), "a") as file:
        file.write(f"booked {seat.seat}\n")
    return f"booked {seat.seat} in {flight}"


server.run("stdio")
