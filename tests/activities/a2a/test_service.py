"""Requests to a remote agent that fail: which errors may pass, whether a message was sent, and what is kept secret."""

import json
import time

import httpx
import pytest
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface

from tests.support.a2a_peer import running_peer
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.messages import TextBlock
from wakeful.contract.remote import Endpoint, RemoteState, Secret
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.secrets import EndpointSecrets
from wakeful_activities.a2a.service import RemoteService, Sending, new_http_client, read_card

SENDING = Sending("m1", "c1", (TextBlock(text="say hi"),))
URL = "http://agents.example.com"


def card(*interfaces: AgentInterface) -> AgentCard:
    return AgentCard(name="x", supported_interfaces=interfaces, capabilities=AgentCapabilities(streaming=True))


def jsonrpc(url: str = URL, tenant: str = "") -> AgentInterface:
    return AgentInterface(url=url, tenant=tenant, protocol_binding="JSONRPC", protocol_version="1.0")


def service(
    handler: "httpx.MockTransport", endpoint: Endpoint | None = None, *interfaces: AgentInterface
) -> RemoteService:
    endpoint = endpoint or Endpoint(url=URL)
    http = httpx.AsyncClient(transport=handler)
    return RemoteService(http, endpoint, card(*(interfaces or (jsonrpc(),))), EndpointSecrets.read(endpoint))


def answering(status: int, text: str = "", **headers: str) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _request: httpx.Response(status, text=text, headers=headers))


def raising(error: Exception) -> httpx.MockTransport:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise error

    return httpx.MockTransport(fail)


FAILURES = [
    (raising(httpx.ConnectError("refused")), RemoteErrorKind.UNREACHABLE, False),
    (raising(httpx.ConnectTimeout("slow")), RemoteErrorKind.UNREACHABLE, False),
    (raising(httpx.ReadTimeout("slow")), RemoteErrorKind.UNAVAILABLE, True),
    (raising(httpx.RemoteProtocolError("closed")), RemoteErrorKind.UNAVAILABLE, True),
    (answering(503), RemoteErrorKind.UNAVAILABLE, True),
    (answering(429), RemoteErrorKind.UNAVAILABLE, False),
    (answering(408), RemoteErrorKind.UNAVAILABLE, True),
    (answering(401), RemoteErrorKind.UNAUTHORIZED, False),
    (answering(403), RemoteErrorKind.UNAUTHORIZED, False),
    (answering(422), RemoteErrorKind.REFUSED, False),
    (answering(200, "<html>"), RemoteErrorKind.UNAVAILABLE, True),
    (answering(200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}'), RemoteErrorKind.UNAVAILABLE, True),
    (answering(200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32001}}'), RemoteErrorKind.TASK_NOT_FOUND, False),
    (answering(200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601}}'), RemoteErrorKind.UNSUPPORTED, False),
    (answering(200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602}}'), RemoteErrorKind.REFUSED, False),
]


@pytest.mark.parametrize(("transport", "kind", "was_sent"), FAILURES)
async def test_an_error_says_whether_it_may_pass_and_whether_the_message_was_sent(
    transport: httpx.MockTransport, kind: RemoteErrorKind, was_sent: bool
) -> None:
    with pytest.raises(RemoteError) as error:
        await service(transport).send(SENDING, within=5)
    assert (error.value.kind, error.value.was_sent) == (kind, was_sent)


async def test_the_time_that_a_service_asks_for_is_kept() -> None:
    with pytest.raises(RemoteError, match="it is overloaded") as error:
        await service(answering(429, **{"retry-after": "7"})).send(SENDING, within=5)
    assert error.value.retry_after == 7


async def test_events_of_a_stream_are_folded_at_once_and_read_only_when_that_is_needed() -> None:
    artifact = {"artifactId": "a", "parts": [{"text": "x" * 100}]}
    update = {"taskId": "t1", "contextId": "c1", "append": True, "artifact": artifact}
    event = json.dumps({"jsonrpc": "2.0", "id": "1", "result": {"artifactUpdate": update}})
    streamed = answering(200, f"data: {event}\n\n" * 10_000, **{"content-type": "text/event-stream"})
    began = time.process_time()
    async for task in service(streamed).follow("t1"):
        assert task.state is RemoteState.WORKING
    assert len(task.read().text) == 1_000_000
    assert time.process_time() - began < 10


async def test_a_request_that_takes_too_long_may_have_been_sent() -> None:
    async with running_peer() as peer, new_http_client() as http:
        endpoint = Endpoint(url=peer.url)
        secrets = EndpointSecrets.read(endpoint)
        there = RemoteService(http, endpoint, await read_card(http, endpoint, secrets), secrets)
        with pytest.raises(RemoteError, match=r"it has not answered within 0\.0001 s") as error:
            await there.send(SENDING, within=0.0001)
    assert error.value.was_sent


async def test_the_card_is_at_the_path_of_the_url_or_at_its_origin() -> None:
    async with running_peer() as peer, new_http_client() as http:
        for url in (peer.url, f"{peer.url}/some/path"):
            endpoint = Endpoint(url=url)
            assert (await read_card(http, endpoint, EndpointSecrets.read(endpoint))).name == "peer"


async def test_an_address_without_a_card_is_refused() -> None:
    endpoint = Endpoint(url=URL)
    async with httpx.AsyncClient(transport=answering(200, "<html>")) as http:
        with pytest.raises(RemoteError, match="its card cannot be read") as error:
            await read_card(http, endpoint, EndpointSecrets.read(endpoint))
    assert error.value.kind is RemoteErrorKind.REFUSED


async def test_a_target_is_the_tenant_of_every_request() -> None:
    asked: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(401)

    target = Endpoint(url=URL, target="b")
    there = service(httpx.MockTransport(refuse), target, jsonrpc(f"{URL}/a", "a"), jsonrpc(f"{URL}/b", "b"))
    with pytest.raises(RemoteError):
        await there.send(SENDING, within=5)
    assert str(asked[0].url) == f"{URL}/b"
    assert '"tenant":"b"' in asked[0].content.decode().replace(" ", "")


def test_secrets_are_sent_to_the_origin_of_the_endpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    endpoint = Endpoint(url=URL, token=Secret(env="TOKEN"))
    with pytest.raises(RemoteError, match=r"its card names other addresses \(http://elsewhere\.example\.com\)"):
        service(answering(200), endpoint, jsonrpc("http://elsewhere.example.com"))
    service(answering(200), endpoint, jsonrpc("http://elsewhere.example.com"), jsonrpc())
    service(answering(200), Endpoint(url=URL), jsonrpc("http://elsewhere.example.com"))


def test_a_card_without_a_binding_that_workers_speak_is_refused() -> None:
    grpc = AgentInterface(url=URL, protocol_binding="GRPC", protocol_version="1.0")
    with pytest.raises(RemoteError, match=r"its card offers GRPC, and a worker speaks JSONRPC and HTTP\+JSON"):
        service(answering(200), None, grpc)


async def test_an_error_that_quotes_a_secret_is_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-8")
    quoting = answering(200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "not Bearer s3cret-8"}}')
    with pytest.raises(RemoteError) as error:
        await service(quoting, Endpoint(url=URL, token=Secret(env="TOKEN"))).send(SENDING, within=5)
    assert str(error.value) == "it refuses the request: not Bearer [secret]"
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_a_secret_that_no_header_can_have_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret\nx: y")
    with pytest.raises(ConfigurationError) as error:
        EndpointSecrets.read(Endpoint(url=URL, token=Secret(env="TOKEN")))
    expected = "the secret in environment variable 'TOKEN' has characters that no HTTP header can have"
    assert error.value.problems == (expected,)
