"""One remote agent: its card, and the requests of the A2A protocol, through the client of `a2a-sdk`.

The rest knows only `RemoteError`, whose messages have no secrets, and `RemoteSnapshot`.
"""

import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never
from urllib.parse import urlsplit

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import Client, ClientCallContext, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError

from wakeful.contract.messages import AudioBlock, Base64Source, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from wakeful.contract.remote import Endpoint, RemoteState
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.outgoing import MediaBlock, SentBlock
from wakeful_activities.a2a.sdk_errors import translating
from wakeful_activities.a2a.secrets import EndpointSecrets, origin_of
from wakeful_activities.a2a.snapshots import RemoteSnapshot, TaskFold, snapshot_of
from wakeful_activities.bounded_http import IDENTITY, bound_response

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
"""Of a request that the service answers at once."""
MESSAGE_VALUES = 100_000
"""Values of the JSON of one answer or event: `a2a-sdk` takes up to 0.1 ms for each, and the worker's loop waits."""
PAGE_SIZE, PAGES = 100, 10
"""Of the tasks of one context that a lost one is looked for in."""
_BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]


def new_http_client() -> httpx.AsyncClient:
    """The connections of a worker to all remote agents. Headers that sign in are given with every request."""
    # Reading has no timeout here: how long an answer may take depends on the request.
    timeout = httpx.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS, read=None)
    # A worker's slots limit how many calls follow a stream.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [partial(bound_response, values=MESSAGE_VALUES)]}
    return httpx.AsyncClient(timeout=timeout, limits=limits, headers=IDENTITY, event_hooks=hooks)


async def read_card(http: httpx.AsyncClient, endpoint: Endpoint, secrets: EndpointSecrets) -> AgentCard:
    """The agent card: at the endpoint's own path, if it has one, or else at its origin.

    Raises:
        RemoteError: it cannot be read.
    """
    origin = origin_of(endpoint.url)
    bases = [endpoint.url, origin] if urlsplit(endpoint.url).path.strip("/") else [origin]
    given = {"headers": secrets.headers}
    async with translating(secrets, within=REQUEST_SECONDS):
        for base in bases[:-1]:
            with contextlib.suppress(A2AError):
                return await A2ACardResolver(http, base).get_agent_card(http_kwargs=given)
        return await A2ACardResolver(http, bases[-1]).get_agent_card(http_kwargs=given)


@dataclass(frozen=True)
class Sending:
    """The identity of a message that is sent."""

    message_id: str
    context_id: str
    content: Sequence[SentBlock]
    task_id: str | None = None


class FollowedTask:
    """A task that is streamed. There can be thousands of events a second, so it is read only when that is needed."""

    def __init__(self, fold: TaskFold, checked: Callable[[RemoteSnapshot], RemoteSnapshot]) -> None:
        self._fold = fold
        self._checked = checked

    @property
    def state(self) -> RemoteState:
        return self._fold.state

    def read(self) -> RemoteSnapshot:
        """The task as it is now."""
        return self._checked(self._fold.snapshot)


class RemoteService:
    """The requests to one remote agent."""

    def __init__(self, http: httpx.AsyncClient, endpoint: Endpoint, card: AgentCard, secrets: EndpointSecrets) -> None:
        self._secrets = secrets
        self._tenant = endpoint.target or ""
        self.can_stream = card.capabilities.streaming
        card = _trusted(_for_target(card, endpoint), secrets)
        self._client = _client(http, card, streaming=False)
        self._streaming = _client(http, card, streaming=True)

    async def send(self, sending: Sending, *, within: float) -> RemoteSnapshot:
        """Send a message; the service answers with its task at once, or with a message.

        Raises:
            RemoteError: the request failed; `was_sent` says whether the service may have received it.
        """
        request = SendMessageRequest(
            tenant=self._tenant,
            message=Message(
                message_id=sending.message_id,
                context_id=sending.context_id,
                task_id=sending.task_id or "",
                role=Role.ROLE_USER,
                parts=[_part(block) for block in sending.content],
            ),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        fold = TaskFold()
        async with translating(self._secrets, within=within, was_sent=True):
            async for event in self._client.send_message(request, context=self._context()):
                fold.add(event)
        return self._checked(fold.snapshot)

    async def follow(self, task_id: str) -> AsyncGenerator[FollowedTask]:
        """The task whenever it has changed, until the service ends the stream.

        Raises:
            RemoteError: the stream cannot be had, or is interrupted.
        """
        request, fold = SubscribeToTaskRequest(tenant=self._tenant, id=task_id), TaskFold()
        async with translating(self._secrets):
            async for event in self._streaming.subscribe(request, context=self._context()):
                fold.add(event)
                yield FollowedTask(fold, self._checked)

    async def read(self, task_id: str, *, with_history: bool = False) -> RemoteSnapshot:
        """The task as it is now.

        Raises:
            RemoteError: it cannot be read, or the service does not know it.
        """
        request = GetTaskRequest(tenant=self._tenant, id=task_id)
        if not with_history:
            request.history_length = 0
        async with translating(self._secrets, within=REQUEST_SECONDS):
            return self._checked(snapshot_of(await self._client.get_task(request, context=self._context())))

    async def find(
        self, message_id: str, context_id: str, known_tasks: frozenset[str] | None = None
    ) -> RemoteSnapshot | None:
        """The task that a message began, if the service lists one.

        Args:
            known_tasks: the earlier tasks of the context, if they are known. A service that keeps no history of its
                tasks has at most one other then: a thread waits for one answer at a time.

        Raises:
            RemoteError: it cannot list its tasks.
        """
        async for task in self._tasks(context_id):
            message_ids = {message.message_id for message in task.history}
            is_new = known_tasks is not None and task.id not in known_tasks
            if message_id in message_ids or (not message_ids and is_new):
                return await self.read(task.id)  # a list leaves the artifacts out
        return None

    async def _tasks(self, context_id: str) -> AsyncIterator[Task]:
        token = ""
        for _ in range(PAGES):
            request = ListTasksRequest(
                tenant=self._tenant, context_id=context_id, page_size=PAGE_SIZE, page_token=token
            )
            async with translating(self._secrets, within=REQUEST_SECONDS):
                page = await self._client.list_tasks(request, context=self._context())
            for task in page.tasks:
                if task.context_id == context_id:
                    yield task
            token = page.next_page_token
            if not token:
                return

    async def cancel(self, task_id: str) -> None:
        """Cancel the task; nothing happens if it has ended.

        Raises:
            RemoteError: the request failed.
        """
        async with translating(self._secrets, within=REQUEST_SECONDS):
            with contextlib.suppress(TaskNotCancelableError, TaskNotFoundError):
                request = CancelTaskRequest(tenant=self._tenant, id=task_id)
                await self._client.cancel_task(request, context=self._context())

    def _context(self) -> ClientCallContext:
        return ClientCallContext(service_parameters=dict(self._secrets.headers))

    def _checked(self, snapshot: RemoteSnapshot) -> RemoteSnapshot:
        return snapshot.without(self._secrets.removed_from)


def _for_target(card: AgentCard, endpoint: Endpoint) -> AgentCard:
    """The card with the interfaces of the endpoint's target alone, if it has such."""
    wanted = [each for each in card.supported_interfaces if each.tenant == (endpoint.target or "")]
    return _with_interfaces(card, wanted) if wanted else card


def _trusted(card: AgentCard, secrets: EndpointSecrets) -> AgentCard:
    """The card with the addresses alone that secrets may be sent to."""
    if not secrets.headers:
        return card
    trusted = [each for each in card.supported_interfaces if origin_of(each.url) == secrets.origin]
    if not trusted:
        elsewhere = ", ".join(sorted({each.url for each in card.supported_interfaces})) or "none"
        raise RemoteError(
            RemoteErrorKind.REFUSED,
            f"its card names other addresses ({elsewhere}), and its secrets are sent to {secrets.origin} alone: make "
            "the url of the agent the address that its card names",
        )
    return _with_interfaces(card, trusted)


def _with_interfaces(card: AgentCard, interfaces: Sequence[AgentInterface]) -> AgentCard:
    chosen = AgentCard()
    chosen.CopyFrom(card)
    del chosen.supported_interfaces[:]
    chosen.supported_interfaces.extend(interfaces)
    return chosen


def _client(http: httpx.AsyncClient, card: AgentCard, *, streaming: bool) -> Client:
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=list(_BINDINGS), streaming=streaming)
    try:
        return ClientFactory(config).create(card)
    except ValueError:
        offered = ", ".join(sorted({each.protocol_binding for each in card.supported_interfaces})) or "nothing"
        raise RemoteError(
            RemoteErrorKind.REFUSED, f"its card offers {offered}, and a worker speaks {' and '.join(_BINDINGS)}"
        ) from None


def _part(block: SentBlock) -> Part:
    match block:
        case TextBlock(text=text):
            return Part(text=text)
        case ImageBlock() | DocumentBlock() | AudioBlock() | VideoBlock():
            return _media_part(block)
        case _:
            assert_never(block)


def _media_part(block: MediaBlock) -> Part:
    source, title = block.source, (block.title if isinstance(block, DocumentBlock) else None) or ""
    if isinstance(source, Base64Source):
        return Part(raw=base64.b64decode(source.data), media_type=source.media_type, filename=title)
    return Part(url=source.url, filename=title)
