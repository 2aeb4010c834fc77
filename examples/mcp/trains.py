"""A small MCP server, for the example beside it: trains, and a question before a seat is booked."""

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("trains", log_level="ERROR")


class Seat(BaseModel):
    seat: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def departures(city: str) -> str:
    """List the next trains to a city."""
    return f"to {city}: 09:12, 11:12, 13:12"


async def which_seat(city: str) -> Elicit[Seat]:
    return Elicit(f"Which seat to {city}?", Seat)


@server.tool(structured_output=False)
async def book(city: str, seat: Annotated[Seat, Resolve(which_seat)]) -> str:
    """Book a seat, which the traveller chooses."""
    return f"booked seat {seat.seat} to {city}"


if __name__ == "__main__":
    server.run()
