"""One connection to one MCP server: opened when it is needed, held by a task of its own, opened again with backoff.

The SDK's client has to be entered and left by the same task, so calls only borrow it. Nothing here retries a call: the
errors say whether it was sent (`failures.py`), and the activity decides.
"""

import asyncio
import contextvars
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.exceptions import MCPError

from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.secret_values import read_secret, without_secrets
from wakeful.contract.base import json_bytes
from wakeful.contract.elicitation import AnsweredQuestion, ElicitedQuestion
from wakeful.contract.limits import MESSAGE_BYTES
from wakeful.contract.remote import Secret
from wakeful.contract.schema_patterns import MAX_WORK
from wakeful.contract.schemas import judged
from wakeful.telemetry.pattern_warning import warn_of_patterns
from wakeful_activities.mcp.failures import ConnectionLost, ServerAway, reason_of
from wakeful_activities.mcp.http_transport import LOST, NEW_SESSION, NOT_SENT, http_transport
from wakeful_activities.mcp.questions import CallInFlight, Questions
from wakeful_activities.mcp.stdio_transport import LastWords, stdio_transport
from wakeful_activities.mcp.streams import SENDING, output_schema_of, watched

STABLE_SECONDS = 10.0
"""A connection that lasted longer is opened again at once."""

MAX_PAGES = 100
"""Of a list of tools: a server whose list never ends cannot hang a run. All pages have the bytes of one message."""

Progress = Callable[[float, float | None, str | None], None]

_logger = logging.getLogger("wakeful")


@dataclass(frozen=True)
class ToolRequest:
    """A call as a server gets it."""

    tool: str
    arguments: dict[str, Any]
    input_responses: types.InputResponses | None = None
    request_state: str | None = None
    answered: tuple[AnsweredQuestion, ...] = ()
    on_progress: Progress = field(default=lambda _progress, _total, _message: None)


Answer = types.CallToolResult | types.InputRequiredResult | ElicitedQuestion
"""The result of a call, or questions of the server: a newer one asks for more input, an older one just asks."""


@dataclass(frozen=True)
class _Listed:
    client: Client
    tools: tuple[types.Tool, ...]
    until: float


class McpConnection:
    """The connection of this process to a server, which all calls share."""

    def __init__(self, server: McpServer, environ: Mapping[str, str] | None = None) -> None:
        self.server = server
        self._environ = environ
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        """The attempt to connect has succeeded or failed."""
        self._stop = asyncio.Event()
        self._closed = asyncio.Event()
        self._problem = "it has not answered yet"
        self._last_words = LastWords()
        self._failures = 0
        self._retry_at = 0.0
        self._secrets: tuple[str, ...] = ()
        self._listed: _Listed | None = None
        self._listing = asyncio.Lock()
        self._questions = Questions()
        self.is_retired = False
        """Another one replaces it: it ends with its last call."""

    async def client(self, *, within: float) -> Client:
        """The client, once it is connected.

        Raises:
            ServerAway: it is not connected within so many seconds, or an attempt to connect has failed.
        """
        clock = asyncio.get_running_loop().time
        deadline, is_last = clock() + within, False
        while self._client is None:
            if is_last or max(clock(), self._retry_at) >= deadline:
                raise ServerAway(self.server.name, self._problem)
            if self._owner is None or self._owner.done():
                if (delay := self._retry_at - clock()) > 0:
                    await asyncio.sleep(delay)
                    continue  # another call may have started it
                self._start()
            is_last = not self._settled.is_set()  # else it is being closed, and opened afterwards
            await _first(self._settled if is_last else self._closed, seconds=deadline - clock())
        return self._client

    async def tools(self, *, within: float) -> tuple[types.Tool, ...]:
        """The tools that the server lists: all pages, and not older than `refresh`.

        Raises:
            ServerAway: it does not list them within so many seconds.
        """
        client = await self.client(within=within)
        if (listed := self._fresh(client)) is not None:
            return listed
        async with self._listing:
            if (listed := self._fresh(client)) is not None:
                return listed
            try:
                async with asyncio.timeout(within):
                    tools = await self._list(client)
            except TimeoutError:
                raise ServerAway(self.server.name, f"it did not list its tools within {within:g} s") from None
            except Exception as error:
                self._note(client, error)
                raise ServerAway(self.server.name, f"it cannot list its tools: {self._clean(error)}") from None
            warn_of_patterns([tool.input_schema for tool in tools], server=self.server.name)
            until = asyncio.get_running_loop().time() + self.server.refresh
            self._listed = _Listed(client, tools, until)
            return tools

    async def call(self, request: ToolRequest, *, within: float) -> Answer:
        """Call a tool. If this is cancelled, this asks the server to cancel the call.

        Args:
            within: seconds that the connection may take, if there is none.

        Raises:
            ServerAway: nothing was sent.
            ConnectionLost: the connection ended before the answer.
            TimeoutError: there was no answer within the server's timeout; the call was cancelled at the server.
            MCPError: the server answered with an error of the protocol.
            RuntimeError: the answer is malformed.
        """
        client = await self.client(within=within)
        if self._listed is None or self._listed.client is not client:
            await self.tools(within=within)  # a call is sent, and its result checked, by the schemas
        call = await self._questions.begin(request.answered)
        before = SENDING.set(call)
        try:
            answer = await self._send(client, request, call)
            self._check(request.tool, answer)
            return answer
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise self._translated(client, error, call) from None
        finally:
            SENDING.reset(before)
            await self._questions.end(call)
            if self.is_retired and not self._questions.has_calls:
                self._stop.set()

    def clean(self, text: str) -> str:
        """The text without the values of the server's secrets."""
        return without_secrets(text, self._secrets)

    def retire(self) -> None:
        """End with the last call."""
        self.is_retired = True
        if not self._questions.has_calls:
            self._stop.set()

    async def aclose(self) -> None:
        """Close the connection, and stop the server if it is a subprocess."""
        self._stop.set()
        if self._owner is not None:
            if not self._settled.is_set():
                self._owner.cancel()
            await asyncio.wait({self._owner})

    def _start(self) -> None:
        self._settled, self._stop, self._closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        # In a context of its own: it outlives the activity that needs it first.
        self._owner = asyncio.create_task(self._hold(), context=contextvars.Context())
        self._owner.add_done_callback(lambda _: self._closed.set())

    async def _hold(self) -> None:
        """Open the connection, and hold it until it ends."""
        clock = asyncio.get_running_loop().time
        began, ended = math.inf, asyncio.Event()
        last_words = self._last_words = LastWords()
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.server.start_timeout):
                    client = await stack.enter_async_context(self._open(ended, last_words))
                self._client, began = client, clock()
                self._settled.set()
                _logger.info("connected to an MCP server", extra={"server": self.server.name})
                await _first(ended, self._stop)
                self._client = None
            problem = last_words.problem or "it closed the connection"
        except (Exception, BaseExceptionGroup) as error:
            problem = last_words.problem or self._clean(error)
        finally:
            self._client = None
            self._settled.set()
        self._problem = f"{problem} (it wrote: {last_words})" if last_words.lines else problem
        self._failures = 0 if clock() - began > STABLE_SECONDS else self._failures + 1
        delay = self.server.restart_delay * 2 ** max(0, self._failures - 1) if self._failures else 0.0
        self._retry_at = clock() + min(delay, self.server.max_restart_delay)
        if not self._stop.is_set():
            _logger.warning("lost an MCP server", extra={"server": self.server.name, "failures": self._failures})

    def _open(self, ended: asyncio.Event, last_words: LastWords) -> Client:
        server = self.server
        secrets = {secret: read_secret(secret, self._environ) for secret in server.secrets}
        self._secrets = tuple(secrets.values())
        if server.url is not None:
            headers = {name: secrets[value] for name, value in server.headers.items()}
            if server.token is not None:
                headers["Authorization"] = f"Bearer {secrets[server.token]}"
            transport = http_transport(server.url, headers, call_seconds=server.timeout, last_words=last_words)
        else:
            env = {name: secrets[value] if isinstance(value, Secret) else value for name, value in server.env.items()}
            transport = stdio_transport(server.command, env, server.cwd, last_words=last_words, clean=self.clean)
        return Client(
            watched(transport, ended),
            read_timeout_seconds=server.timeout,
            elicitation_callback=self._answer if server.elicitation else None,
            message_handler=self._on_message,
            client_info=types.Implementation(name="wakeful", version="1"),
            mode="auto" if server.probe else "legacy",
            cache=None,
        )

    async def _answer(
        self,
        context: ClientRequestContext,  # noqa: ARG002  # the SDK passes it by this name
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult:
        return await self._questions.answer(params)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._listed = None

    def _fresh(self, client: Client) -> tuple[types.Tool, ...] | None:
        listed = self._listed
        is_fresh = listed and listed.client is client and asyncio.get_running_loop().time() < listed.until
        return listed.tools if listed and is_fresh else None

    async def _list(self, client: Client) -> tuple[types.Tool, ...]:
        tools: list[types.Tool] = []
        cursor: str | None = None
        left = MESSAGE_BYTES
        for _ in range(MAX_PAGES):
            page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            tools.extend(page.tools)
            if (left := left - json_bytes(page)) < 0:
                raise RuntimeError(f"its list of tools has more than {MESSAGE_BYTES:,} bytes")
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(tools)

    async def _send(self, client: Client, request: ToolRequest, call: CallInFlight) -> Answer:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            request.on_progress(progress, total, message)

        answering = asyncio.create_task(
            client.session.call_tool(
                request.tool,
                request.arguments,
                progress_callback=on_progress,
                input_responses=request.input_responses,
                request_state=request.request_state,
                allow_input_required=True,
            )
        )
        try:
            both: set[asyncio.Future[Any]] = {answering, call.question}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return answering.result() if answering.done() else call.question.result()
        finally:
            if not answering.done():
                answering.cancel()
                await asyncio.wait({answering})  # the SDK tells the server, and gives up after 5 seconds

    def _check(self, name: str, answer: Answer) -> None:
        tool = next((tool for tool in self._listed.tools if tool.name == name), None) if self._listed else None
        schema = None if tool is None else output_schema_of(tool)
        if schema is None or not isinstance(answer, types.CallToolResult) or answer.is_error:
            return
        if answer.structured_content is None and "structured_content" not in answer.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema but did not return structured content")
        found = judged(answer.structured_content, schema)
        if found.problem is not None and found.work <= MAX_WORK:  # what is too long to be checked may be right
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {found.problem}")

    def _translated(self, client: Client, error: Exception, call: CallInFlight) -> Exception:
        """What an error of a call means."""
        self._note(client, error)
        name, reason = self.server.name, self._last_words.problem or self._clean(error)
        match getattr(error, "code", types.CONNECTION_CLOSED):
            case types.REQUEST_TIMEOUT:
                return TimeoutError()
            case code if code in (NOT_SENT, NEW_SESSION):
                return ServerAway(name, reason)
            case code if code in (LOST, types.CONNECTION_CLOSED):
                return ConnectionLost(name, reason) if call.is_sent else ServerAway(name, reason)
            case _:
                return error

    def _note(self, client: Client, error: Exception) -> None:
        """Close a connection that an error shows to be useless."""
        code = getattr(error, "code", types.CONNECTION_CLOSED)
        # Over HTTP, every call has a connection of its own, and only the session can be gone.
        gone = NEW_SESSION if self.server.url is not None else types.CONNECTION_CLOSED
        if self._client is client and code == gone:
            self._client = None
            self._stop.set()

    def _clean(self, error: BaseException) -> str:
        return self.clean(reason_of(error))


async def _first(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of them is set, or for so many seconds."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
