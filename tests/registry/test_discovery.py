"""Agents of other services are discovered by their agent cards, over HTTP."""

import logging
import sys

import pytest
from a2a.types.a2a_pb2 import AgentInterface
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from tests.support.agent_cards import CardServer, agent_card, card_server, unused_url
from wakeful import A2aSource, Agent, ConfigurationError, DiscoveryFailed, Registry, Secret
from wakeful.contract.remote import Endpoint
from wakeful.registry.discovery import MAX_CARD_BYTES, CardProblem, card_url, discovered_agents, slug

CANARY = "canary-7f3a"


def source(server: CardServer, name: str = "partner") -> A2aSource:
    return A2aSource(name=name, url=server.url)


def interface(
    url: str = "https://a.example.com/a2a", binding: str = "HTTP+JSON", version: str = "1.0", tenant: str = ""
) -> AgentInterface:
    return AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)


async def test_a_registry_discovers_the_agents_of_its_sources() -> None:
    """B-627"""
    async with card_server() as server:
        server.offer("Weather", tenant="weather", description="Tells the weather.")
        registry = Registry(agents=[Agent(id="boss")], sources=[source(server)])
        assert await registry.initialize() == 2
        resolved = registry.resolve("partner/weather")
        assert (resolved.agent_id, resolved.endpoint) == (
            "partner/weather",
            Endpoint(url=f"{server.url}/a2a", target="weather"),
        )
        assert registry.discovered["partner/weather"].description == "Tells the weather."
        assert registry.snapshot().agents == ("boss", "partner/weather")
        assert server.asked[0].url.path == "/.well-known/agent-card.json"


async def test_sources_that_are_known_are_not_asked_again_until_a_refresh() -> None:
    async with card_server() as server:
        registry = Registry(sources=[source(server)])
        await registry.initialize()
        assert await registry.initialize() == 2
        assert len(server.asked) == 1
        assert await registry.refresh() == 2, "what has not changed is no new version"
        server.offer("Climate")
        assert await registry.refresh() == 3
        assert [*registry.discovered] == ["partner/climate"]


async def test_a_registry_without_sources_has_nothing_to_discover() -> None:
    registry = Registry()
    assert await registry.initialize() == await registry.refresh() == 1


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "a2a.client.card_resolver", None)
    registry = Registry(sources=[A2aSource(name="partner", url="https://agents.example.com")])
    with pytest.raises(ConfigurationError, match=r"source 'partner' needs the package a2a-sdk.*'wakeful\[a2a\]'"):
        await registry.initialize()


async def test_a_failing_first_discovery_names_every_source_that_failed() -> None:
    """B-627"""
    async with card_server() as server:
        sources = [
            source(server, "good"),
            A2aSource(name="away", url=unused_url()),
            A2aSource(name="unset", url=server.url, token=Secret(env="WAKEFUL_TEST_UNSET")),
        ]
        registry = Registry(sources=sources)
        with pytest.raises(DiscoveryFailed) as failed:
            await registry.initialize()
        assert str(failed.value).startswith(
            "remote agent discovery failed: source 'away': All connection attempts failed"
        )
        assert [*failed.value.failures] == ["away", "unset"]
        assert "environment variable 'WAKEFUL_TEST_UNSET' is missing" in failed.value.failures["unset"]
        assert registry.discovered == {}


async def test_a_failing_refresh_leaves_all_agents_in_force() -> None:
    """B-627"""
    async with card_server("Weather") as one, card_server("Stocks") as other:
        registry = Registry(sources=[source(one, "one"), source(other, "other")])
        await registry.initialize()
        one.offer("Climate")
        other.answer = Response(status_code=503)
        with pytest.raises(DiscoveryFailed, match="source 'other': HTTP 503 instead of an agent card"):
            await registry.refresh()
        assert [*registry.discovered] == ["one/weather", "other/stocks"]
        assert registry.version == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response(status_code=401), "HTTP 401 instead of an agent card: check its token"),
        (
            RedirectResponse("https://elsewhere.example.com"),
            "HTTP 307 instead of an agent card: redirects are not followed",
        ),
        (PlainTextResponse("hello"), "its agent card is not JSON"),
        (PlainTextResponse("[]"), "its agent card is invalid: Agent card must be a JSON object"),
        (PlainTextResponse("{" * (MAX_CARD_BYTES + 1)), "its agent card exceeds 262,144 bytes"),
        (PlainTextResponse("[" * 100_000), "its agent card is not JSON"),
        (PlainTextResponse('{"name": "x"}'), "its agent card has no HTTP+JSON or JSONRPC interface, but: none"),
    ],
)
async def test_an_answer_that_is_no_card_fails_the_source(answer: Response, problem: str) -> None:
    """B-627

    awaken: a2a_agent_card_response_size_is_limited, discovery_error_display
    awaken: a2a_agent_card_decode_errors_are_reported_as_disconnected_status_inputs
    """
    async with card_server() as server:
        server.answer = answer
        with pytest.raises(DiscoveryFailed) as failed:
            await Registry(sources=[source(server)]).initialize()
        assert failed.value.failures["partner"].startswith(problem)
        assert f"({server.url}/.well-known/agent-card.json)" in failed.value.failures["partner"]


async def test_a_service_that_does_not_answer_fails_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.registry.discovery.DISCOVERY_SECONDS", 0.001)
    async with card_server() as server:
        with pytest.raises(DiscoveryFailed, match=r"no agent card within 0.001 s"):
            await Registry(sources=[source(server)]).initialize()


async def test_a_token_and_headers_sign_in_and_are_in_no_error_or_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B-627"""
    monkeypatch.setenv("PARTNER_TOKEN", CANARY)
    monkeypatch.setenv("PARTNER_KEY", f"{CANARY}-key")
    caplog.set_level(logging.DEBUG)
    async with card_server() as server:
        signed_in = A2aSource(
            name="partner",
            url=server.url,
            token=Secret(env="PARTNER_TOKEN"),
            headers={"X-Key": Secret(env="PARTNER_KEY")},
        )
        registry = Registry(sources=[signed_in])
        await registry.initialize()
        asked = server.asked[0].headers
        assert (asked["authorization"], asked["x-key"]) == (f"Bearer {CANARY}", f"{CANARY}-key")
        assert CANARY not in registry.resolve("weather").model_dump_json()
        server.answer = PlainTextResponse(f'{{"{CANARY}-key": 1, "name": {{"{CANARY}": 2}}}}')
        with pytest.raises(DiscoveryFailed) as failed:
            await registry.refresh()
        assert CANARY not in f"{failed.value!r} {failed.value.__cause__!r} {failed.value.__context__!r}"
        monkeypatch.setenv("PARTNER_TOKEN", f"{CANARY}\nX-Evil: 1")
        with pytest.raises(DiscoveryFailed, match="characters that no HTTP header can have"):
            await registry.refresh()
    assert CANARY not in caplog.text


async def test_secrets_are_not_sent_to_another_origin_than_that_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTNER_TOKEN", CANARY)
    async with card_server() as server:
        server.card = agent_card("Weather", interface("https://elsewhere.example.com/a2a"))
        token = Secret(env="PARTNER_TOKEN")
        with pytest.raises(DiscoveryFailed, match="names an interface at another origin, 'https://elsewhere"):
            await Registry(sources=[A2aSource(name="partner", url=server.url, token=token)]).initialize()
        await (registry := Registry(sources=[source(server)])).initialize()
        assert registry.resolve("weather").endpoint == Endpoint(url="https://elsewhere.example.com/a2a")


async def test_a_card_with_several_tenants_is_several_agents() -> None:
    async with card_server() as server:
        server.card = agent_card(
            "wakeful",
            server.interface(tenant="support"),
            server.interface(tenant="support", binding="JSONRPC"),
            server.interface(tenant="buyer"),
            server.interface(binding="GRPC", tenant="unreachable"),
            buyer="Buys things.",
        )
        await (registry := Registry(sources=[source(server)])).initialize()
        described = {id: (a.description, a.endpoint and a.endpoint.target) for id, a in registry.discovered.items()}
        assert described == {
            "partner/support": ("wakeful, at your service.", "support"),
            "partner/buyer": ("Buys things.", "buyer"),
        }


def test_agent_card_to_spec_conversion() -> None:
    """B-627: id, description, address and settings of an agent that was discovered."""
    token = Secret(env="CLOUD_TOKEN")
    cloud = A2aSource(name="cloud", url="https://a.example.com", token=token, timeout=60, poll_interval=5)
    card = agent_card("Test Agent", interface(tenant="test-agent"), description="Handles tests.")
    (agent,) = discovered_agents(cloud, card)
    assert (agent.id, agent.description) == ("cloud/test-agent", "Handles tests.")
    assert agent.endpoint == Endpoint(
        url="https://a.example.com/a2a", target="test-agent", token=token, timeout_seconds=60, poll_seconds=5
    )


@pytest.mark.parametrize(
    ("interfaces", "url"),
    [
        ([interface("https://a/old", version="0.3"), interface("https://a/new")], "https://a/new"),
        ([interface("https://a/rpc", "JSONRPC"), interface("https://a/rest")], "https://a/rest"),
        ([interface("https://a/rest", version="0.3"), interface("https://a/rpc", "JSONRPC", "1.0.1")], "https://a/rpc"),
        ([interface("https://a/grpc", "GRPC"), interface("https://a/rpc", "JSONRPC", "0.3.0")], "https://a/rpc"),
    ],
)
def test_the_current_version_and_then_http_json_are_preferred(interfaces: list[AgentInterface], url: str) -> None:
    """B-627"""
    (agent,) = discovered_agents(A2aSource(name="cloud", url="https://a"), agent_card("x", *interfaces))
    assert agent.endpoint is not None
    assert agent.endpoint.url == url


@pytest.mark.parametrize(
    ("offered", "problem"),
    [
        (interface("https://a", "GRPC", "1.0"), "no HTTP\\+JSON or JSONRPC interface, but: GRPC 1.0"),
        (interface("/a2a"), "a wrong interface: url: the url '/a2a' must start with http"),
        (interface("http://[a"), "another origin"),
        (interface(tenant="two\nlines"), "a tenant that cannot be an id"),
    ],
)
def test_a_card_that_cannot_be_used_is_a_problem(offered: AgentInterface, problem: str) -> None:
    signed_in = A2aSource(
        name="cloud", url="https://a.example.com", token=Secret(env="T") if "[" in offered.url else None
    )
    with pytest.raises(CardProblem, match=problem):
        discovered_agents(signed_in, agent_card("x", offered))


def test_discovery_url_uses_origin_root() -> None:
    """B-627"""
    assert card_url("https://api.example.com/v1/a2a?x=1") == "https://api.example.com/.well-known/agent-card.json"


def test_slugify_agent_name_produces_stable_id() -> None:
    """B-627"""
    assert (slug("Remote Coder v2"), slug("!!!")) == ("remote-coder-v2", "agent")
