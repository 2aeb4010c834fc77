"""Peers that never stop sending: a worker reads up to a limit, says which, and closes the connection.

What a peer could send bounds what the worker holds: the rest is in the buffers of two sockets.
"""

import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.activities.providers.calls import parts
from tests.support.endless_peer import EndlessPeer, endless_peer
from wakeful import McpServer, PydanticAIModel
from wakeful.contract.errors import ProviderError
from wakeful.contract.limits import ERROR_BYTES, MESSAGE_BYTES, RESPONSE_BYTES
from wakeful.contract.messages import TextBlock
from wakeful.contract.remote import Endpoint, RemoteState
from wakeful_activities.a2a.failures import RemoteError
from wakeful_activities.a2a.secrets import EndpointSecrets
from wakeful_activities.a2a.service import RemoteService, Sending, new_http_client, read_card
from wakeful_activities.mcp.connection import McpConnection, ToolRequest
from wakeful_activities.mcp.failures import ServerAway
from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses

BUFFERS = 16 * 1024 * 1024
"""What sockets, and the parsers of HTTP, may hold besides."""
CHUNK = b"x" * 65_536
EVENTS = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}
PROVIDERS: list[Callable[..., Any]] = [OpenAIChat, OpenAIResponses, AnthropicMessages]


async def refusal(provider: Any, peer: EndlessPeer) -> str:
    with pytest.raises(ProviderError) as caught:
        await parts(provider)
    await provider.aclose()
    return str(caught.value)


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_an_event_of_a_model_that_never_ends_is_read_up_to_the_limit(kind: Callable[..., Any]) -> None:
    async with endless_peer(CHUNK, begin=b"data: ", headers=EVENTS) as peer:
        error = await refusal(kind(api_key="k", base_url=peer.url), peer)
    assert "sent an answer that is not read further: one event has more than 16,777,216 bytes" in error
    assert peer.sent < MESSAGE_BYTES + BUFFERS


async def test_an_answer_of_empty_events_is_read_up_to_the_limit() -> None:
    ping = b": ping" + b" " * 1_000_000 + b"\n\n"
    async with endless_peer(ping, headers=EVENTS) as peer:
        error = await refusal(OpenAIChat(api_key="k", base_url=peer.url), peer)
    assert "it has more than 268,435,456 bytes" in error
    assert peer.sent < RESPONSE_BYTES + BUFFERS


async def test_an_answer_without_a_stream_is_read_up_to_the_limit() -> None:
    async with endless_peer(CHUNK, begin=b'{"id": "', headers=JSON) as peer:
        error = await refusal(OpenAIChat(api_key="k", base_url=peer.url), peer)
    assert "it has more than 16,777,216 bytes" in error
    assert peer.sent < MESSAGE_BYTES + BUFFERS


async def test_an_error_of_a_model_is_read_up_to_the_limit() -> None:
    async with endless_peer(CHUNK, status="400 Bad Request") as peer:
        assert "answered 400" in await refusal(OpenAIChat(api_key="k", base_url=peer.url), peer)
    assert peer.sent < ERROR_BYTES + BUFFERS


async def test_a_compressed_answer_is_not_read() -> None:
    async with endless_peer(CHUNK, headers={**EVENTS, "Content-Encoding": "gzip"}) as peer:
        error = await refusal(OpenAIChat(api_key="k", base_url=peer.url), peer)
    assert "it is compressed ('gzip'), although the request asks for 'identity'" in error


async def test_an_event_of_a_model_of_pydantic_ai_is_read_up_to_the_limit() -> None:
    async with endless_peer(CHUNK, begin=b"data: ", headers=EVENTS) as peer:
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=peer.url, api_key="k"))
        with pytest.raises(ProviderError, match="not read further: one event has more than 16,777,216 bytes"):
            await parts(PydanticAIModel(model))
    assert peer.sent < 3 * (MESSAGE_BYTES + BUFFERS)  # the SDK tries three times


@pytest.mark.parametrize("headers", [EVENTS, JSON], ids=["events", "json"])
async def test_a_result_of_an_mcp_server_is_read_up_to_the_limit(headers: dict[str, str]) -> None:
    begin = b"data: " if headers is EVENTS else b'{"jsonrpc": "'
    async with endless_peer(CHUNK, begin=begin, headers=headers) as peer:
        connection = McpConnection(McpServer(name="desk", url=f"{peer.url}/mcp", start_timeout=20), {})
        with pytest.raises(ServerAway) as caught:
            await connection.call(ToolRequest("echo", {}), within=20)
        await connection.aclose()
    assert "the answer is not read further" in str(caught.value)
    assert "16,777,216 bytes" in str(caught.value)
    assert peer.sent < 2 * (MESSAGE_BYTES + BUFFERS)


SENDING = Sending("m1", "c1", (TextBlock(text="hi"),))


def remote(http: Any, peer: EndlessPeer) -> RemoteService:
    interface = AgentInterface(url=peer.url, protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(name="x", supported_interfaces=[interface], capabilities=AgentCapabilities(streaming=True))
    endpoint = Endpoint(url=peer.url)
    return RemoteService(http, endpoint, card, EndpointSecrets.read(endpoint))


async def test_what_a_remote_agent_answers_is_read_up_to_the_limit() -> None:
    async with endless_peer(CHUNK, begin=b'{"jsonrpc": "', headers=JSON) as peer, new_http_client() as http:
        endpoint = Endpoint(url=peer.url)
        with pytest.raises(RemoteError, match="the answer is not read further: it has more than 16,777,216 bytes"):
            await remote(http, peer).send(SENDING, within=30)
        with pytest.raises(RemoteError, match="16,777,216 bytes"):
            await read_card(http, endpoint, EndpointSecrets.read(endpoint))
    assert peer.sent < 2 * (MESSAGE_BYTES + BUFFERS)


async def test_an_event_of_a_remote_agent_is_read_up_to_the_limit() -> None:
    async with endless_peer(CHUNK, begin=b"data: ", headers=EVENTS) as peer, new_http_client() as http:
        with pytest.raises(RemoteError, match="one event has more than 16,777,216 bytes"):
            async for _ in remote(http, peer).follow("t1"):
                pass
    assert peer.sent < MESSAGE_BYTES + BUFFERS


async def test_of_a_remote_agent_an_answer_or_an_event_of_too_many_values_is_not_parsed() -> None:
    many, limit = b"[]," * 5_000, "has more than 100,000 JSON values"
    async with endless_peer(many, begin=b'{"a": [', headers=JSON) as peer, new_http_client() as http:
        with pytest.raises(RemoteError, match=limit):
            await remote(http, peer).send(SENDING, within=30)
    assert peer.sent < MESSAGE_BYTES
    async with endless_peer(many, begin=b'data: {"a": [', headers=EVENTS) as peer, new_http_client() as http:
        with pytest.raises(RemoteError, match=limit):
            await anext(remote(http, peer).follow("t1"))
    assert peer.sent < MESSAGE_BYTES


async def test_the_values_of_many_events_of_a_remote_agent_do_not_add_up() -> None:
    artifact = {"artifactId": "a", "parts": [{"data": [1] * 1_000}]}
    answer = {"jsonrpc": "2.0", "id": "1", "result": {"artifactUpdate": {"taskId": "t1", "artifact": artifact}}}
    event = f"data: {json.dumps(answer)}\n\n".encode()
    async with (
        endless_peer(event, headers=EVENTS) as peer,
        new_http_client() as http,
        aclosing(remote(http, peer).follow("t1")) as stream,
    ):
        for _ in range(200):
            assert (await anext(stream)).state is RemoteState.WORKING


async def test_artifacts_of_a_remote_agent_are_kept_up_to_the_limit() -> None:
    artifact = {"artifactId": "a", "parts": [{"text": "x" * 500_000}]}
    update = {"taskId": "t1", "contextId": "c1", "append": True, "artifact": artifact}
    answer = {"jsonrpc": "2.0", "id": "1", "result": {"artifactUpdate": update}}
    event = f"data: {json.dumps(answer)}\n\n".encode()
    async with endless_peer(event, headers=EVENTS) as peer, new_http_client() as http:
        with pytest.raises(RemoteError, match="it streams more than 16,777,216 bytes"):
            async for _ in remote(http, peer).follow("t1"):
                pass
    assert peer.sent < 2 * (MESSAGE_BYTES + BUFFERS)


async def test_an_mcp_server_that_writes_a_line_without_end_is_stopped() -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    connection = McpConnection(McpServer(name="desk", command=[sys.executable, "-c", program]), {})
    with pytest.raises(ServerAway) as caught:
        await connection.call(ToolRequest("echo", {}), within=20)
    await connection.aclose()
    assert "it wrote a line of more than 16,777,216 bytes, and was stopped" in str(caught.value)
