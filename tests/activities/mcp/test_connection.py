"""A connection to a real MCP server, over stdio and HTTP: what calls return, and what is known when they fail."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult

from tests.activities.mcp.conftest import CANARY, PATIENCE, connected, free_port, http_desk, remote_desk
from tests.support.mcp_app import desk
from wakeful import McpServer, Secret
from wakeful.contract.elicitation import AnsweredQuestion, ElicitedAnswer, ElicitedQuestion
from wakeful_activities.mcp.connection import Answer, McpConnection, ToolRequest
from wakeful_activities.mcp.failures import ConnectionLost, ServerAway


def of(journal: Path) -> Callable[[], list[str]]:
    return lambda: journal.read_text().splitlines() if journal.exists() else []


async def eventually(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not met():
            await asyncio.sleep(0.02)


async def ask(connection: McpConnection, tool: str, **arguments: Any) -> Answer:
    return await connection.call(ToolRequest(tool, arguments), within=PATIENCE)


def text_of(answer: Answer) -> str:
    assert isinstance(answer, CallToolResult)
    return "".join(getattr(block, "text", "") for block in answer.content)


@pytest.fixture(scope="module", params=["stdio, newest", "stdio, older", "http, newest", "http, older"])
async def either(request: pytest.FixtureRequest, port: int) -> AsyncIterator[McpConnection]:
    """The server over both transports, in both generations of the protocol."""
    settings: dict[str, Any] = {"probe": request.param.endswith("newest"), "timeout": 20}
    server = desk(**settings) if request.param.startswith("stdio") else remote_desk(port, **settings)
    async with connected(server) as connection:
        yield connection


async def test_tools_are_listed_and_called_with_progress_and_concurrently(either: McpConnection) -> None:
    """B-830"""
    assert {"echo", "add", "slow"} <= {tool.name for tool in await either.tools(within=PATIENCE)}
    seen: list[tuple[float, float | None, str | None]] = []
    slow = ToolRequest("slow", {"steps": 2}, on_progress=lambda *report: seen.append(report))
    done, *echoed = await asyncio.gather(
        either.call(slow, within=PATIENCE), *(ask(either, "echo", text=str(number)) for number in range(5))
    )
    assert (text_of(done), [text_of(each) for each in echoed]) == ("done", ["0", "1", "2", "3", "4"])
    assert seen == [(1.0, 2.0, "step 1"), (2.0, 2.0, "step 2")]


async def test_an_older_server_asks_in_the_middle_of_a_call_and_a_newer_one_ends_it_with_its_question(
    either: McpConnection,
) -> None:
    """B-830"""
    asked = await ask(either, "book", where="Rome")
    if isinstance(asked, InputRequiredResult):
        assert either.server.probe
        assert asked.input_requests
        return
    assert isinstance(asked, ElicitedQuestion)
    assert not either.server.probe
    assert (asked.message, asked.json_schema and asked.json_schema["required"]) == ("Which seat to Rome?", ["seat"])
    answer = ElicitedAnswer(action="accept", content={"seat": "12A"})
    again = ToolRequest("book", {"where": "Rome"}, answered=(AnsweredQuestion(question=asked, answer=answer),))
    assert text_of(await either.call(again, within=PATIENCE)) == "Rome: 12A"


async def test_questions_of_concurrent_calls_of_an_older_server_are_each_asked(port: int) -> None:
    """B-830: over stdio nothing says which call a question belongs to."""
    async with connected(desk(probe=False, timeout=30)) as connection:
        await connection.tools(within=PATIENCE)
        busy = asyncio.create_task(ask(connection, "slow", steps=3, seconds=0.1))
        asked = await asyncio.gather(*(ask(connection, "book", where=where) for where in ("Rome", "Oslo")))
        assert {each.message for each in asked if isinstance(each, ElicitedQuestion)} == {
            "Which seat to Rome?",
            "Which seat to Oslo?",
        }
        assert text_of(await busy) == "done"  # its call was not mistaken for one that asks


async def test_a_cancelled_call_is_cancelled_at_the_server(journal: Path) -> None:
    """B-830"""
    lines = of(journal)
    async with connected(desk(env={"DESK_JOURNAL": str(journal)})) as connection:
        await connection.tools(within=PATIENCE)
        call = asyncio.create_task(ask(connection, "slow", steps=1, seconds=600))
        await eventually(lambda: "slow began" in lines())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: "slow cancelled" in lines())
        timed = McpConnection(desk(env={"DESK_JOURNAL": str(journal)}, timeout=0.5))
        await timed.tools(within=PATIENCE)
        with pytest.raises(TimeoutError):
            await ask(timed, "slow", steps=1, seconds=600)
        await eventually(lambda: lines().count("slow cancelled") == 2)
        await timed.aclose()


async def test_a_call_that_ended_its_server_is_lost_and_the_next_one_starts_it_again(journal: Path) -> None:
    """B-830"""
    async with connected(desk(env={"DESK_JOURNAL": str(journal)}, restart_delay=0.05)) as connection:
        await connection.tools(within=PATIENCE)
        with pytest.raises(ConnectionLost, match="MCP server 'desk': Connection closed"):
            await ask(connection, "crash")
        assert text_of(await ask(connection, "echo", text="back")) == "back"
    assert of(journal)() == ["crash"]


async def test_a_server_over_http_that_is_away_lost_or_started_again(journal: Path) -> None:
    """B-830: a call that was not sent says so, and needs no new connection once the server is back."""
    port = free_port()
    async with connected(remote_desk(port)) as connection:
        with pytest.raises(ServerAway, match="it cannot be reached"):
            await ask(connection, "echo", text="nobody is there")
        async with http_desk(port, DESK_JOURNAL=str(journal)) as process:
            assert text_of(await ask(connection, "echo", text="hello")) == "hello"
            slow = asyncio.create_task(ask(connection, "slow", steps=1, seconds=600))
            await eventually(lambda: "slow began" in of(journal)())
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(ConnectionLost):
                await slow
        with pytest.raises(ServerAway):
            await ask(connection, "echo", text="gone")
        async with http_desk(port, DESK_JOURNAL=str(journal)):
            assert text_of(await ask(connection, "echo", text="again")) == "again"


async def test_a_session_that_an_older_server_forgot_is_opened_again(journal: Path) -> None:
    """B-830"""
    port = free_port()
    async with connected(remote_desk(port, probe=False)) as connection:
        async with http_desk(port):
            assert text_of(await ask(connection, "echo", text="one")) == "one"
        async with http_desk(port, DESK_JOURNAL=str(journal)):
            with pytest.raises(ServerAway, match="does not know the session"):
                await ask(connection, "note", text="two")
            assert text_of(await ask(connection, "note", text="two")) == "noted two"
    assert of(journal)() == ["note two"]


async def test_secrets_are_read_by_the_worker_and_are_in_no_error_or_log(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """B-830: the server repeats its token on stderr and in errors; a wrong one is refused with a reason."""
    caplog.set_level("DEBUG")
    secret: dict[str, Any] = {"env": {"DESK_TOKEN": Secret(env="DESK_SECRET")}}
    async with connected(desk(command=(*desk().command, "--broken"), **secret)) as broken:
        with pytest.raises(ServerAway, match=r"it wrote: no desk here, \[secret\]") as away:
            await broken.client(within=PATIENCE)
    async with connected(remote_desk(port, token=Secret(env="HOME"))) as refused:
        with pytest.raises(ServerAway, match="refused the credentials") as unknown:
            await refused.client(within=PATIENCE)
    async with connected(remote_desk(port, token=Secret(env="NOT_SET_ANYWHERE"))) as missing:
        with pytest.raises(ServerAway, match="'NOT_SET_ANYWHERE' is missing or empty"):
            await missing.client(within=PATIENCE)
    assert CANARY not in f"{away.value}{unknown.value}{caplog.text}"


async def test_a_subprocess_inherits_no_secret_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_TOKEN", CANARY)
    async with connected(desk(command=(*desk().command, "--broken"))) as broken:
        with pytest.raises(ServerAway, match="it wrote: no desk here, None"):
            await broken.client(within=PATIENCE)


async def test_a_program_that_does_not_exist_is_named() -> None:
    async with connected(McpServer(name="desk", command=["/no/such/program"])) as connection:
        with pytest.raises(ServerAway, match="No such file or directory '/no/such/program'"):
            await connection.client(within=1.0)


async def test_the_list_is_remembered_and_refreshed() -> None:
    """B-830"""
    async with connected(desk(refresh=0.2)) as connection:
        first = await connection.tools(within=PATIENCE)
        assert await connection.tools(within=PATIENCE) is first
        async with asyncio.timeout(PATIENCE):
            while await connection.tools(within=PATIENCE) is first:
                await asyncio.sleep(0.05)


async def test_an_error_of_the_protocol_is_raised_as_it_is() -> None:
    async with connected(desk()) as connection:
        stale = ToolRequest("book", {"where": "Rome"}, request_state="not yours")
        with pytest.raises(MCPError, match="requestState"):
            await connection.call(stale, within=PATIENCE)


STRUCTURED = """
import json, sys
RESULTS = {"hangs": {"why": "a" * 60}, "fits": {"n": 1}, "differs": {"n": "x"}, "lacks": None}
SCHEMAS = {"hangs": {"properties": {"why": {"pattern": "%s"}}}}
NUMBERS = {"properties": {"n": {"type": "integer"}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            about = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}
            result = {"protocolVersion": "2025-06-18", **about}
        case "tools/list":
            empty = {"type": "object"}
            made = {name: {"type": "object", **SCHEMAS.get(name, NUMBERS)} for name in RESULTS}
            result = {"tools": [{"name": n, "inputSchema": empty, "outputSchema": made[n]} for n in made]}
        case _:
            structured = RESULTS[asked["params"]["name"]]
            result = {"content": [], **({} if structured is None else {"structuredContent": structured})}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


ENDLESS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        about = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}
        result = {"protocolVersion": "2025-06-18", **about}
    else:
        with open(sys.argv[1], "a") as journal:
            journal.write("page\\n")
        tool = {"name": "x", "description": "x" * 3_000_000, "inputSchema": {"type": "object"}}
        result = {"tools": [tool], "nextCursor": "more"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_list_of_tools_ends_when_its_pages_are_too_large_together(journal: Path) -> None:
    server = McpServer(name="endless", command=[sys.executable, "-c", ENDLESS, str(journal)], probe=False)
    async with connected(server) as connection:
        with pytest.raises(ServerAway, match="its list of tools has more than 16,777,216 bytes"):
            await connection.tools(within=PATIENCE)
    assert len(of(journal)()) == 6


async def test_structured_results_are_checked_in_bounded_time() -> None:
    program = STRUCTURED % (".?" * 40 + "!")
    server = McpServer(name="structured", command=[sys.executable, "-c", program], probe=False)
    async with connected(server) as connection:
        fitting = await ask(connection, "fits")
        assert isinstance(fitting, CallToolResult)
        assert fitting.structured_content == {"n": 1}
        with pytest.raises(RuntimeError, match=r"hangs: why: .* does not match"):
            await ask(connection, "hangs")
        with pytest.raises(RuntimeError, match='differs: n: "x" is not of type integer'):
            await ask(connection, "differs")
        with pytest.raises(RuntimeError, match="did not return structured content"):
            await ask(connection, "lacks")
