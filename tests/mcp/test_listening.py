"""Where `wakeful mcp serve --http` listens, and whom it lets in."""

from collections.abc import Sequence

import httpx
import pytest
from starlette.types import Receive, Scope, Send

import wakeful.mcp
from tests.mcp.conftest import http_server
from wakeful import ConfigurationError
from wakeful.cli.listening import listen, parse_address
from wakeful.client.client import Client
from wakeful.mcp.transports import read_token

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("8000", ("127.0.0.1", 8000)),
        (":8000", ("127.0.0.1", 8000)),
        ("0.0.0.0:8000", ("0.0.0.0", 8000)),
        ("[::1]:8000", ("::1", 8000)),
        ("agents.example:80", ("agents.example", 80)),
    ],
)
def test_an_address_is_a_port_perhaps_with_a_host(written: str, address: tuple[str, int]) -> None:
    assert parse_address(written) == address


@pytest.mark.parametrize("written", ["", "localhost", "host:http", "::1:80", "70000"])
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address"):
        parse_address(written)


@pytest.mark.parametrize(
    ("written", "allowed", "names"),
    [
        ("0", [], ()),
        ("localhost:0", ["agents.example"], ("agents.example",)),
        ("0.0.0.0:0", ["agents.example:443"], ("agents.example:443",)),
    ],
)
def test_a_server_is_reached_by_the_names_that_are_allowed(
    written: str, allowed: Sequence[str], names: Sequence[str]
) -> None:
    bound = listen(written, allowed, token="secret")
    bound.socket.close()
    assert bound.allowed_hosts == names


@pytest.mark.parametrize(
    ("written", "token", "problem"),
    [
        ("0.0.0.0:0", None, "set WAKEFUL_MCP_TOKEN"),
        ("192.0.2.1:0", None, "set WAKEFUL_MCP_TOKEN"),
        ("0.0.0.0:0", "secret", "--allowed-host"),
        ("192.0.2.1:0", "secret", "'192.0.2.1', port 0"),
    ],
)
def test_beyond_this_machine_a_server_needs_a_token_and_a_name(written: str, token: str | None, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        listen(written, [], token=token)


def test_an_empty_token_is_none() -> None:
    assert [read_token({}), read_token({"WAKEFUL_MCP_TOKEN": " "}), read_token({"WAKEFUL_MCP_TOKEN": "t "})] == [
        None,
        None,
        "t",
    ]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "bearer secret"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "secret"}, 401),
        ({}, 401),
        ({"authorization": "Bearer secret", "host": "evil.example"}, 421),
        ({"authorization": "Bearer secret", "origin": "https://evil.example"}, 403),
        ({"authorization": "Bearer secret", "host": "agents.example"}, 200),
    ],
)
async def test_requests_need_the_token_and_a_known_host(agents: Client, headers: dict[str, str], status: int) -> None:
    app = wakeful.mcp.app(agents, agents=["payer"], token="secret", allowed_hosts=["agents.example"])
    async with http_server(app) as url, httpx.AsyncClient() as http:
        accept = {"accept": "application/json, text/event-stream"}
        answer = await http.post(url, json=INITIALIZE, headers={**accept, **headers})
        assert answer.status_code == status
        assert "secret" not in answer.text


async def test_a_session_has_an_id_and_ends_when_it_is_deleted(url: str) -> None:
    headers = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as http:
        opened = await http.post(url, json=INITIALIZE, headers=headers)
        headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        statuses = [
            (await http.post(url, json=listing, headers=headers)).status_code,
            (await http.delete(url, headers=headers)).status_code,
            (await http.post(url, json=listing, headers=headers)).status_code,
        ]
    assert statuses == [200, 200, 404]


@pytest.mark.parametrize(
    ("variable", "peer", "headers", "status"),
    [
        ("", "127.0.0.1", {}, 200),
        ("", "::1", {}, 200),
        ("", "203.0.113.7", {}, 403),
        ("", "203.0.113.7", {"x-forwarded-for": "127.0.0.1"}, 403),
        ("", None, {}, 403),
        ("from the environment", "127.0.0.1", {}, 401),
        ("from the environment", "127.0.0.1", {"authorization": "Bearer from the environment"}, 200),
        ("from the environment", "203.0.113.7", {"authorization": "Bearer from the environment"}, 200),
    ],
)
async def test_an_app_reads_its_token_and_without_one_serves_only_its_machine(
    agents: Client,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    peer: str | None,
    headers: dict[str, str],
    status: int,
) -> None:
    monkeypatch.setenv("WAKEFUL_MCP_TOKEN", variable)
    app = wakeful.mcp.app(agents, agents=["payer"])

    async def of_peer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": peer and (peer, 1)}, receive, send)

    transport = httpx.ASGITransport(of_peer)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as http:
        accept = {"accept": "application/json, text/event-stream"}
        answer = await http.post("http://localhost/mcp", json=INITIALIZE, headers={**accept, **headers})
    assert answer.status_code == status
