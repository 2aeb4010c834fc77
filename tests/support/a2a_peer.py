"""A remote agent: a2a-sdk's own server on loopback, which does what its messages say and writes a ledger of them."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    ListTasksRequest,
    ListTasksResponse,
    Part,
)
from a2a.utils.errors import UnsupportedOperationError
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

BOUND_SECONDS = 60

PNG = b"\x89PNG of a plan"


@dataclass(frozen=True)
class Entry:
    """A message or a cancel that the agent got."""

    kind: str
    task_id: str
    context_id: str
    message_id: str = ""
    text: str = ""


@dataclass
class Peer:
    """The agent: what it got, and what it should do about HTTP requests."""

    url: str = ""
    ledger: list[Entry] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of every request."""
    methods: list[str] = field(default_factory=list)
    lists: bool = True
    """It can list its tasks."""
    streams: bool = True
    binding: str = "JSONRPC"
    down: bool = False
    """It answers with 503."""
    token: str | None = None
    """It accepts no other bearer token, and quotes a wrong one."""
    echo: str = ""
    """What it says when it is asked to echo."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Until then, the agent works."""

    @property
    def messages(self) -> list[str]:
        return [entry.text for entry in self.ledger if entry.kind == "message"]

    @property
    def tasks(self) -> list[str]:
        """The tasks, once each."""
        return list(dict.fromkeys(entry.task_id for entry in self.ledger))

    @property
    def cancels(self) -> list[str]:
        return [entry.task_id for entry in self.ledger if entry.kind == "cancel"]

    async def until(self, met: Callable[["Peer"], bool]) -> None:
        async with asyncio.timeout(BOUND_SECONDS):
            while not met(self):
                await asyncio.sleep(0.02)


class Agent(AgentExecutor):
    """Does what the last line of a message says; what follows a question is its answer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        assert message is not None
        text = context.get_user_input()
        task_id, context_id = context.task_id or "", context.context_id or ""
        self._peer.ledger.append(Entry("message", task_id, context_id, message.message_id, text))
        verb, _, rest = text.strip().splitlines()[-1].partition(" ")
        if verb == "message":
            await event_queue.enqueue_event(new_text_message(rest, context_id=context_id))
            return
        updater = TaskUpdater(event_queue, task_id, context_id)
        if task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
            await updater.start_work()
            await self._do(verb, rest, updater)
        else:
            await self._end(updater, f"you said {text}")

    async def _do(self, verb: str, rest: str, updater: TaskUpdater) -> None:
        said = new_text_message(rest) if rest else None
        match verb:
            case "stream":
                for number, word in enumerate(rest.split()):
                    part = Part(text=f"{word} ")
                    await updater.add_artifact([part], artifact_id="a", append=number > 0)
                await self._peer.released.wait()
                await updater.complete()
            case "work":
                await self._peer.released.wait()
                await self._end(updater, f"worked on {rest}")
            case "later":
                seconds, _, what = rest.partition(" ")
                await asyncio.sleep(float(seconds))  # the work itself
                await self._end(updater, what)
            case "ask":
                await updater.requires_input(said)
            case "auth":
                await updater.requires_auth(said)
            case "fail":
                await updater.failed(said)
            case "reject":
                await updater.reject(said)
            case "data":
                await updater.add_artifact([Part(data=ParseDict({"city": rest, "degrees": 7}, Value()))])
                await updater.complete()
            case "file":
                picture = Part(raw=PNG, filename="plan.png", media_type="image/png")
                await updater.add_artifact([Part(text=rest), picture])
                await updater.complete()
            case "echo":
                await self._end(updater, f"it is {self._peer.echo}")
            case _:
                await self._end(updater, rest)

    async def _end(self, updater: TaskUpdater, text: str) -> None:
        await updater.add_artifact([Part(text=text)])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task_id, context_id = context.task_id or "", context.context_id or ""
        self._peer.ledger.append(Entry("cancel", task_id, context_id))
        await TaskUpdater(event_queue, task_id, context_id).cancel()


class _Handler(DefaultRequestHandler):
    def __init__(self, peer: Peer, card: AgentCard) -> None:
        super().__init__(Agent(peer), InMemoryTaskStore(), card)
        self._peer = peer

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        if not self._peer.lists:
            raise UnsupportedOperationError
        listed: ListTasksResponse = await super().on_list_tasks(params, context)
        return listed


@contextlib.asynccontextmanager
async def running_peer(**settings: object) -> AsyncIterator[Peer]:
    """A remote agent of a test's own, on a free port of loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    peer = Peer(url=f"http://127.0.0.1:{listener.getsockname()[1]}", **settings)  # type: ignore[arg-type]  # its fields
    server = _Server(uvicorn.Config(_app(peer), log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield peer
    finally:
        peer.released.set()
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are the test's


def _app(peer: Peer) -> ASGIApp:
    interface = AgentInterface(url=peer.url, protocol_binding=peer.binding, protocol_version="1.0")
    card = AgentCard(
        name="peer",
        description="Does what it is told.",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=peer.streams),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="obey", name="obey", description="Does it.", tags=["test"])],
    )
    handler = _Handler(peer, card)
    routes = [*create_agent_card_routes(card), *create_rest_routes(handler), *create_jsonrpc_routes(handler, "/")]
    app = Starlette(routes=routes)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        peer.headers.append(headers)
        peer.methods.append(scope["path"])
        given = headers.get("authorization", "")
        if peer.down:
            await PlainTextResponse("down for maintenance", status_code=503)(scope, receive, send)
        elif peer.token is not None and given != f"Bearer {peer.token}":
            await PlainTextResponse(f"wrong token: {given}", status_code=401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer
