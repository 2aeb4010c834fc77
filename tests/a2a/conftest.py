"""A real A2A server on loopback, over the session's Temporal server and worker, and the official client."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client import Client as A2aClient
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.constants import TransportProtocol

from tests.support.waiting import BOUND_SECONDS
from wakeful.a2a import app
from wakeful.client.client import Client
from wakeful.contract.decisions import ClientDecisionsName
from wakeful.contract.ids import a2a_thread_id
from wakeful.http_serving import listen, serve_app

AGENTS = {
    "tester": "Does what tests ask.",
    "parallel": "Does it at once.",
    "gated": "Pays.",
    "ruled": "Asks first.",
    "clumsy": "Answers in JSON.",
}


@contextlib.asynccontextmanager
async def serving(
    client: Client,
    *,
    agents: Mapping[str, str] = AGENTS,
    port: int = 0,
    token: str | None = None,
    tenant: str | None = None,
    push_private: bool = True,
    decisions: ClientDecisionsName = "all",
) -> AsyncIterator[str]:
    """Serve on loopback; yields the url."""
    listening, stop = listen("127.0.0.1", port), asyncio.Event()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    served = app(
        client,
        agents=agents,
        url=url,
        token=token,
        tenant=tenant,
        push_private=push_private,
        decisions=decisions,
    )
    running = asyncio.create_task(serve_app(served, listening, until=stop))
    try:
        yield url
    finally:
        stop.set()
        await running


class Caller:
    """The official client, with the words of these tests."""

    def __init__(self, official: A2aClient, http: httpx.AsyncClient, context_id: str) -> None:
        self.official = official
        self.http = http
        self.context_id = context_id

    def request(
        self,
        text: str | Part = "",
        *,
        task_id: str = "",
        message_id: str = "",
        tenant: str = "",
        at_once: bool = False,
        context_id: str | None = None,
    ) -> SendMessageRequest:
        part = Part(text=text) if isinstance(text, str) else text
        message = Message(
            message_id=message_id or uuid.uuid4().hex,
            context_id=("" if task_id else self.context_id) if context_id is None else context_id,
            task_id=task_id,
            role=Role.ROLE_USER,
            parts=[part],
        )
        configuration = SendMessageConfiguration(return_immediately=at_once)
        return SendMessageRequest(message=message, configuration=configuration, tenant=tenant)

    async def stream(self, request: SendMessageRequest) -> list[StreamResponse]:
        async with asyncio.timeout(BOUND_SECONDS):
            return [event async for event in self.official.send_message(request)]

    async def task(self, request: SendMessageRequest) -> Task:
        """The one task that a client without streaming gets."""
        (only,) = await self.stream(request)
        return only.task

    async def get(self, task_id: str) -> Task:
        return await self.official.get_task(GetTaskRequest(id=task_id))

    async def until(self, task_id: str, state: TaskState) -> Task:
        async with asyncio.timeout(BOUND_SECONDS):
            while (task := await self.get(task_id)).status.state != state:
                await asyncio.sleep(0.05)
        return task


@contextlib.asynccontextmanager
async def calling(
    url: str,
    context_id: str,
    *,
    streaming: bool = False,
    binding: TransportProtocol = TransportProtocol.JSONRPC,
    token: str | None = None,
    agent: str | None = None,
) -> AsyncIterator[Caller]:
    """The official client of a server, or of one agent of it."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=BOUND_SECONDS) as http:
        card = await A2ACardResolver(http, f"{url}/{agent}" if agent else url).get_agent_card()
        config = ClientConfig(
            streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding], use_client_preference=True
        )
        yield Caller(ClientFactory(config).create(card), http, context_id)


@pytest.fixture(params=[TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON])
def binding(request: pytest.FixtureRequest) -> TransportProtocol:
    chosen: TransportProtocol = request.param
    return chosen


@pytest.fixture(scope="session")
async def url(usual_client: Client) -> AsyncIterator[str]:
    """Of a server for the tests' agents."""
    async with serving(usual_client) as url:
        yield url


def text_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def own(context_id: str) -> str:
    """The thread of a context, on a server without a tenant."""
    return a2a_thread_id(context_id, None)
