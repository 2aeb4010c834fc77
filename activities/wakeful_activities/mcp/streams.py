"""The streams of a transport, watched: which calls were sent, and whether the connection has ended.

Schemas of results are moved out of the SDK's reach: it would check them with the jsonschema library, whose time the
server chooses, by patterns that backtrack and definitions that refer to each other.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse, Tool
from pydantic import JsonValue

CALL_METHOD = "tools/call"

OUTPUT_SCHEMA = "wakeful/output_schema"
"""Where in the metadata of a tool the schema of its results is."""

Item = SessionMessage | Exception


def output_schema_of(tool: Tool) -> JsonValue:
    """The schema that the results of a tool must match; None if it has none."""
    return (tool.meta or {}).get(OUTPUT_SCHEMA)


class Sent:
    """Whether the request of a call was given to the transport."""

    def __init__(self) -> None:
        self.is_sent = False


SENDING: contextvars.ContextVar[Sent | None] = contextvars.ContextVar("sending", default=None)
"""The call for which the current task sends requests. Over HTTP, what the server sends in answer has it as well."""


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[TransportStreams], ended: asyncio.Event
) -> AsyncIterator[TransportStreams]:
    """The transport; `ended` is set when the server has closed the connection."""
    async with transport as (read, write):
        yield _Reading(read, ended), _Writing(write)


class _Reading:
    def __init__(self, inner: ReadStream[Item], ended: asyncio.Event) -> None:
        self._inner = inner
        self._ended = ended

    @property
    def last_context(self) -> contextvars.Context | None:
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> Item:
        try:
            return _without_output_schemas(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writing:
    def __init__(self, inner: WriteStream[SessionMessage]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage, /) -> None:
        sent, message = SENDING.get(), item.message
        is_call = sent is not None and isinstance(message, JSONRPCRequest) and message.method == CALL_METHOD
        if sent is not None and is_call:
            sent.is_sent = True  # also if this is interrupted: the transport may have taken it
        try:
            await self._inner.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if sent is not None and is_call:
                sent.is_sent = False  # the transport had ended before
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _without_output_schemas(item: Item) -> Item:
    if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
        tools = item.message.result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(schema := tool.pop("outputSchema", None), dict):
                tool["_meta"] = {**(tool.get("_meta") or {}), OUTPUT_SCHEMA: schema}
    return item
