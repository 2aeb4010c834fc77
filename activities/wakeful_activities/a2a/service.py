"""One remote agent: its card, and the requests of the A2A protocol, through the client of `a2a-sdk`.

The SDK's errors are translated here, once: the rest knows only `RemoteError`, whose messages have no secrets.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import Client, ClientCallContext, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.errors import A2AClientError, AgentCardResolutionError
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
from a2a.utils.errors import (
    A2AError,
    InternalError,
    MethodNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseError

from wakeful.contract.messages import AudioBlock, Base64Source, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from wakeful.contract.remote import Endpoint
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.outgoing import MediaBlock, SentBlock
from wakeful_activities.a2a.secrets import EndpointSecrets, origin_of
from wakeful_activities.a2a.snapshots import RemoteSnapshot, TaskFold, snapshot_of

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
"""Of a request that the service answers at once."""
PAGE_SIZE, PAGES = 100, 10
"""Of the tasks of one context that a lost one is looked for in."""
_OVERLOADED = 429
_UNAUTHORIZED = (401, 403)
_TIMEOUT = 408
_BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]


def new_http_client() -> httpx.AsyncClient:
    """The connections of a worker to all remote agents. Headers that sign in are given with every request."""
    # Reading has no timeout here: how long an answer may take depends on the request.
    return httpx.AsyncClient(timeout=httpx.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS, read=None))


async def read_card(http: httpx.AsyncClient, endpoint: Endpoint, secrets: EndpointSecrets) -> AgentCard:
    """The agent card: at the endpoint's own path, if it has one, or else at its origin.

    Raises:
        RemoteError: it cannot be read.
    """
    origin = origin_of(endpoint.url)
    bases = [endpoint.url, origin] if urlsplit(endpoint.url).path.strip("/") else [origin]
    given = {"headers": secrets.headers}
    async with _translating(secrets, within=REQUEST_SECONDS):
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
        async with _translating(self._secrets, within=within, was_sent=True):
            async for event in self._client.send_message(request, context=self._context()):
                fold.add(event)
        return self._checked(fold.snapshot)

    async def follow(self, task_id: str) -> AsyncGenerator[RemoteSnapshot]:
        """The task as it changes, until the service ends the stream.

        Raises:
            RemoteError: the stream cannot be had, or is interrupted.
        """
        request, fold = SubscribeToTaskRequest(tenant=self._tenant, id=task_id), TaskFold()
        async with _translating(self._secrets):
            async for event in self._streaming.subscribe(request, context=self._context()):
                fold.add(event)
                yield self._checked(fold.snapshot)

    async def read(self, task_id: str, *, with_history: bool = False) -> RemoteSnapshot:
        """The task as it is now.

        Raises:
            RemoteError: it cannot be read, or the service does not know it.
        """
        request = GetTaskRequest(tenant=self._tenant, id=task_id)
        if not with_history:
            request.history_length = 0
        async with _translating(self._secrets, within=REQUEST_SECONDS):
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
            async with _translating(self._secrets, within=REQUEST_SECONDS):
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
        async with _translating(self._secrets, within=REQUEST_SECONDS):
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


@contextlib.asynccontextmanager
async def _translating(
    secrets: EndpointSecrets, *, within: float | None = None, was_sent: bool = False
) -> AsyncIterator[None]:
    """Raise the SDK's errors as ours.

    Args:
        within: seconds that the request may take.
        was_sent: a request that fails in the middle may have had an effect.
    """
    try:
        async with asyncio.timeout(within):
            yield
    except RemoteError:
        raise
    except TimeoutError:
        message = f"it has not answered within {within:g} s"
        raise RemoteError(RemoteErrorKind.UNAVAILABLE, message, was_sent=was_sent) from None
    except (A2AError, httpx.HTTPError, ParseError, NotImplementedError, ValueError, KeyError) as error:
        found = _translated(error, was_sent=was_sent)
        message = secrets.removed_from(str(found))
        # Not from the original, which may quote what was sent.
        raise RemoteError(found.kind, message, was_sent=found.was_sent, retry_after=found.retry_after) from None


def _translated(error: Exception, *, was_sent: bool) -> RemoteError:
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    match error, cause:
        case TaskNotFoundError(), _:
            return RemoteError(RemoteErrorKind.TASK_NOT_FOUND, f"it does not know the task: {error}")
        case ((UnsupportedOperationError() | MethodNotFoundError() | NotImplementedError()), _):
            return RemoteError(RemoteErrorKind.UNSUPPORTED, f"it does not have the method: {error}")
        case _, httpx.HTTPStatusError(response=response):
            return _of_status(response, was_sent=was_sent)
        case _, (httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout()):
            why = str(cause) or type(cause).__name__
            return RemoteError(RemoteErrorKind.UNREACHABLE, f"it cannot be reached ({why})")
        case _, httpx.HTTPError():
            why = f"{type(cause).__name__}: {cause}".rstrip(": ")
            return RemoteError(RemoteErrorKind.UNAVAILABLE, f"the connection failed ({why})", was_sent=was_sent)
        case InternalError(), _:
            return RemoteError(RemoteErrorKind.UNAVAILABLE, f"it has an internal error: {error}", was_sent=was_sent)
        case AgentCardResolutionError(), _:
            return RemoteError(RemoteErrorKind.REFUSED, f"its card cannot be read: {error}")
        case ((A2AClientError() | ParseError() | ValueError() | KeyError()), _):
            why = f"its answer is malformed ({type(error).__name__}: {error})"
            return RemoteError(RemoteErrorKind.UNAVAILABLE, why, was_sent=was_sent)
        case _:
            return RemoteError(RemoteErrorKind.REFUSED, f"it refuses the request: {error}")


def _of_status(response: httpx.Response, *, was_sent: bool) -> RemoteError:
    status = response.status_code
    what = f"HTTP {status} {response.reason_phrase}".rstrip()
    if status in _UNAUTHORIZED:
        return RemoteError(RemoteErrorKind.UNAUTHORIZED, f"it does not accept the credentials ({what})")
    if status == _OVERLOADED:
        return RemoteError(
            RemoteErrorKind.UNAVAILABLE, f"it is overloaded ({what})", retry_after=_retry_after(response)
        )
    if status == _TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return RemoteError(
            RemoteErrorKind.UNAVAILABLE,
            f"it answers {what}",
            was_sent=was_sent,
            retry_after=_retry_after(response),
        )
    return RemoteError(RemoteErrorKind.REFUSED, f"it answers {what}")


def _retry_after(response: httpx.Response) -> float | None:
    with contextlib.suppress(ValueError):
        return max(0.0, float(response.headers.get("retry-after", "")))
    return None
