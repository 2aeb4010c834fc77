"""An MCP server for tests: `python -m tests.support.mcp_desk [--http PORT]`.

It writes what it does to the file that `DESK_JOURNAL` names.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from mcp_types import (
    CallToolResult,
    EmbeddedResource,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
)


class Sum(BaseModel):
    total: int


class Seat(BaseModel):
    seat: str


class Meal(BaseModel):
    meal: str


def write(line: str) -> None:
    path = os.environ.get("DESK_JOURNAL")
    if path:
        with Path(path).open("a") as journal:
            journal.write(f"{line}\n")


async def which_seat(where: str) -> Elicit[Seat]:
    return Elicit(f"Which seat to {where}?", Seat)


async def which_meal(where: str) -> Elicit[Meal]:
    return Elicit(f"Which meal to {where}?", Meal)


def desk() -> MCPServer[Any]:
    keys = RequestStateSecurity(keys=["k" * 32], ttl=3600) if os.environ.get("DESK_KEEPS_STATE") else None
    server: MCPServer[Any] = MCPServer("desk", request_state_security=keys, log_level="ERROR")

    @server.tool()
    def echo(text: str) -> str:
        """Repeat a text."""
        return text

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(total=a + b)

    @server.tool()
    async def slow(ctx: Context[Any, Any], steps: int = 3, seconds: float = 0.05) -> str:
        """Take some time."""
        write("slow began")
        try:
            for step in range(steps):
                await ctx.report_progress(step + 1, steps, f"step {step + 1}")
                await asyncio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            write("slow cancelled")
            raise
        write("slow ended")
        return "done"

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ToolError("the printer is on fire")

    @server.tool()
    def picture() -> Image:
        """Draw a pixel."""
        return Image(data=PIXEL, format="png")

    @server.tool(structured_output=False)
    def page() -> CallToolResult:
        """Return a resource."""
        resource = EmbeddedResource(resource=TextResourceContents(uri="desk://page", text="page one"))
        return CallToolResult(content=[TextContent(text="see:"), resource])

    @server.tool()
    async def note(text: str, seconds: float = 0.0) -> str:
        """Write a line to the journal, which must not happen twice."""
        write(f"note {text}")
        await asyncio.sleep(seconds)
        return f"noted {text}"

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    async def put(text: str, seconds: float = 0.0) -> str:
        """Write a line to the journal, which may happen twice."""
        write(f"put {text}")
        await asyncio.sleep(seconds)
        return f"put {text}"

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def erase() -> str:
        """Erase everything."""
        write("erased")
        return "gone"

    @server.tool()
    def crash() -> str:
        """End the server without an answer."""
        write("crash")
        os._exit(3)

    @server.tool()
    def leak() -> str:
        """Repeat a secret in an error."""
        raise ToolError(f"cannot sign in with {os.environ.get('DESK_TOKEN')}")

    @server.tool()
    async def book(where: str, seat: Annotated[ElicitationResult[Seat], Resolve(which_seat)]) -> str:
        """Book a journey, once the seat is chosen."""
        chosen = seat.data.seat if isinstance(seat, AcceptedElicitation) else type(seat).__name__
        write(f"booked {where} {chosen}")
        return f"{where}: {chosen}"

    @server.tool()
    async def dine(
        where: str, seat: Annotated[Seat, Resolve(which_seat)], meal: Annotated[Meal, Resolve(which_meal)]
    ) -> str:
        """Book a journey with a meal: two questions."""
        write(f"dined {where}")
        return f"{where}: {seat.seat}, {meal.meal}"

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def stumble() -> str:
        """End the server without an answer, but only once."""
        path = Path(os.environ["DESK_JOURNAL"])
        has_stumbled = path.exists() and "stumbled" in path.read_text()
        write("stumbled")
        if not has_stumbled:
            os._exit(3)
        return "here after all"

    return server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--broken", action="store_true")
    given = parser.parse_args()
    if given.broken:
        sys.exit(f"no desk here, {os.environ.get('DESK_TOKEN')}")
    server = desk()
    if given.http is None:
        server.run()
        return
    token = os.environ.get("DESK_TOKEN")
    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and token and headers.get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await app(scope, receive, send)

    uvicorn.run(guarded, port=given.http, log_level="error")


if __name__ == "__main__":
    main()
