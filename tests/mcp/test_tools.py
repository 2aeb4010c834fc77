"""B-715: the official client against our MCP server over HTTP, in both eras of the protocol, on a real Temporal."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import uuid4

import pytest
from mcp import Client as McpClient
from mcp import types

import wakeful.mcp
from tests.mcp.calling import text, thread_of, ticket_of
from tests.mcp.conftest import connected, http_server
from tests.support.served_agents_app import registry
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.contract import ids

GONE = ids.request_thread_id("payer", "no such request")


@pytest.fixture
async def either(url: str, mode: str) -> AsyncIterator[McpClient]:
    """A client of either era that cannot be asked."""
    async with connected(McpClient(url, mode=mode)) as caller:
        yield caller


@pytest.fixture(scope="session")
async def caller(url: str) -> AsyncIterator[McpClient]:
    """A client that cannot be asked, for what is the same in both eras."""
    async with connected(McpClient(url)) as caller:
        yield caller


async def test_every_agent_is_a_tool(either: McpClient) -> None:
    tools = {tool.name: tool for tool in (await either.list_tools()).tools}
    assert [*tools] == ["chief", "judge", "numbers", "payer", "short", "tester", "continue", "cancel"]
    assert tools["payer"].description == "Pays what you owe."
    assert tools["chief"].description == "Ask the agent 'chief'. Its instructions begin: \"You delegate.\""
    assert tools["payer"].input_schema["required"] == ["message"]
    assert {*tools["payer"].input_schema["properties"]} == {"message", "thread_id", "request_id"}
    assert (tools["payer"].output_schema, tools["continue"].output_schema) == (None, None)
    assert tools["judge"].output_schema is not None


async def test_a_call_returns_the_final_text_and_names_its_thread(either: McpClient, agents: Client) -> None:
    result = await either.call_tool("payer", {"message": "hello"})
    assert (text(result), result.is_error, result.structured_content) == ("heard hello", False, None)
    assert result.meta is not None
    assert result.meta["wakeful/status"] == "natural"
    [_, named] = result.content
    assert isinstance(named, types.TextContent)
    assert thread_of(result) in named.text
    assert (await agents.result(thread_of(result))).response == "heard hello"


async def test_a_call_continues_a_thread(caller: McpClient, agents: Client) -> None:
    first = await caller.call_tool("payer", {"message": "one"})
    second = await caller.call_tool("payer", {"message": "two", "thread_id": thread_of(first)})
    third = await caller.call_tool("payer", {"message": "two", "thread_id": thread_of(first)})
    assert [text(each) for each in (first, second, third)] == ["heard one", "heard two", "heard two"]
    assert {thread_of(each) for each in (second, third)} == {thread_of(first)}
    written = [message.text for message in await agents.transcript(thread_of(first))]
    assert written == ["one", "heard one", "two", "heard two", "two", "heard two"]


async def test_the_answer_of_an_agent_with_an_output_type_is_structured(either: McpClient) -> None:
    await either.list_tools()  # the client then checks results against the schemas
    judged = await either.call_tool("judge", {"message": "the butler"})
    assert judged.structured_content == {"guilty": True, "years": 3}
    assert text(judged) == '{"guilty": true, "years": 3}'
    counted = await either.call_tool("numbers", {"message": "to three"})
    assert counted.structured_content == {"result": [1, 2, 3]}


async def test_progress_and_log_messages_follow_the_run(url: str, mode: str) -> None:
    logs: list[types.LoggingMessageNotificationParams] = []
    shown: list[tuple[float, str | None]] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        shown.append((progress, message))

    async with McpClient(url, mode=mode, logging_callback=on_log, log_level="info") as caller:
        result = await caller.call_tool("tester", {"message": "add"}, progress_callback=on_progress)
    assert text(result) == "the sum is 5"
    messages = [message for _, message in shown]
    assert messages[0] == f"thread {thread_of(result)}"
    assert [message for message in messages if message in ("calls add", "add succeeded")] == [
        "calls add",
        "add succeeded",
    ]
    assert [number for number, _ in shown] == sorted({number for number, _ in shown})
    assert {each.logger for each in logs} == {"agent/tester"}
    assert {"thread_id": thread_of(result), "event": "tool_call_ready", "text": "calls add"} in [
        each.data for each in logs
    ]


async def test_a_run_that_does_not_end_naturally_is_an_error_that_says_why(caller: McpClient) -> None:
    result = await caller.call_tool("short", {"message": "for ever"})
    assert result.is_error
    assert "stopped:max_rounds" in text(result)
    assert result.meta is not None
    assert str(result.meta["wakeful/status"]).startswith("stopped:max_rounds")


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("payer", {}, "message"),
        ("payer", {"message": "hello", "mesage": "x"}, "mesage"),
        ("payer", {"message": "hello", "thread_id": "a\nb"}, "thread 'a\\nb' is not one that this server serves"),
        ("continue", {"thread_id": GONE}, f"no thread {GONE!r}"),
        ("cancel", {"thread_id": GONE}, f"no thread {GONE!r}"),
    ],
)
async def test_wrong_arguments_are_an_error_that_a_model_can_read(
    caller: McpClient, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    result = await caller.call_tool(tool, arguments)
    assert result.is_error
    assert problem in text(result)


async def test_an_unknown_tool_is_a_protocol_error(caller: McpClient) -> None:
    with pytest.raises(Exception, match="unknown tool 'nobody'"):
        await caller.call_tool("nobody", {"message": "hello"})


async def test_the_same_request_gets_the_same_run(caller: McpClient, agents: Client, thread_id: str) -> None:
    asked = {"message": "hello", "request_id": thread_id}
    first = await caller.call_tool("payer", asked)
    again = await caller.call_tool("payer", asked)
    by_meta = await caller.call_tool(
        "payer", {"message": "hello"}, meta=cast(types.RequestParamsMeta, {"wakeful/request_id": thread_id})
    )
    assert first.meta == again.meta == by_meta.meta
    assert len(await agents.transcript(thread_of(first))) == 2


async def test_the_same_request_on_a_thread_is_sent_once(caller: McpClient, agents: Client, thread_id: str) -> None:
    for asked in ("one", "two", "one", "two"):
        result = await caller.call_tool(
            "payer", {"message": f"message {asked}", "thread_id": thread_id, "request_id": asked}
        )
        assert text(result) == f"heard message {asked}"
    written = [message.text for message in await agents.transcript(thread_id)]
    assert written == ["message one", "heard message one", "message two", "heard message two"]


async def test_an_equal_message_joins_the_run_under_way(caller: McpClient, agents: Client, thread_id: str) -> None:
    asked = {"message": "linger idempotent", "thread_id": thread_id}
    first = asyncio.create_task(caller.call_tool("tester", asked))
    await until(agents, thread_id, lambda view: view.steps == 1)
    second = asyncio.create_task(caller.call_tool("tester", asked))
    await agents.cancel(thread_id)
    results = [await first, await second]
    assert [each.is_error for each in results] == [True, True]
    assert len([message for message in await agents.transcript(thread_id) if message.role == "user"]) == 1


async def test_a_client_that_cannot_be_asked_continues_with_a_tool(either: McpClient, agents: Client) -> None:
    await either.list_tools()
    waiting = await either.call_tool("judge", {"message": "pay the fine"})
    assert not waiting.is_error
    told = waiting.structured_content["waiting"]
    [decision] = told["decisions"]
    assert told["thread_id"] == thread_of(waiting)
    assert (decision["tool"], decision["arguments"]) == ("pay", {"amount": 7})
    assert thread_of(waiting) in text(waiting)
    assert decision["ticket"] in text(waiting)
    assert "do not decide yourself" in text(waiting)

    still = await either.call_tool("continue", {"thread_id": thread_of(waiting)})
    assert still.structured_content == waiting.structured_content
    approval = {"thread_id": thread_of(waiting), "ticket": decision["ticket"], "decision": "approve"}
    result = await either.call_tool("continue", approval)
    assert result.structured_content == {"guilty": False, "years": 0}
    assert (await either.call_tool("continue", approval)).structured_content == {"guilty": False, "years": 0}


async def test_a_decision_names_its_ticket_and_an_answer_is_checked(caller: McpClient) -> None:
    waiting = await caller.call_tool("payer", {"message": "colour"})
    thread, ticket = thread_of(waiting), ticket_of(waiting)
    nameless = await caller.call_tool("continue", {"thread_id": thread, "decision": "approve"})
    assert (nameless.is_error, ticket in text(nameless)) == (True, True)
    empty = await caller.call_tool("continue", {"thread_id": thread, "ticket": ticket, "decision": "approve"})
    assert (empty.is_error, "`answer` is missing" in text(empty)) == (True, True)
    wrong = await caller.call_tool("continue", {"thread_id": thread, "ticket": ticket, "answer": {"colour": "green"}})
    assert (wrong.is_error, "green" in text(wrong)) == (True, True)
    right = await caller.call_tool("continue", {"thread_id": thread, "ticket": ticket, "answer": {"colour": "red"}})
    assert text(right) == "chose {'colour': 'red'}"


async def test_a_denial_reaches_the_run_with_its_reason(caller: McpClient, agents: Client) -> None:
    waiting = await caller.call_tool("payer", {"message": "pay"})
    ticket = ticket_of(waiting)
    await caller.call_tool(
        "continue", {"thread_id": thread_of(waiting), "ticket": ticket, "decision": "deny", "reason": "too dear"}
    )
    [refused] = [message.text for message in await agents.transcript(thread_of(waiting)) if message.tool_call_id]
    assert "too dear" in refused


async def test_cancel_ends_the_run_of_a_thread(either: McpClient, agents: Client, thread_id: str) -> None:
    call = asyncio.create_task(either.call_tool("tester", {"message": "linger", "thread_id": thread_id}))
    await until(agents, thread_id, lambda view: view.steps == 1)
    await either.call_tool("cancel", {"thread_id": thread_id, "reason": "enough"})
    async with asyncio.timeout(BOUND_SECONDS):
        result = await call
    assert (result.is_error, text(result)) == (True, "The run ended as cancelled: enough.")


async def test_a_client_that_disconnects_leaves_its_run(url: str, mode: str, agents: Client, thread_id: str) -> None:
    async with McpClient(url, mode=mode) as caller:
        waiting = await caller.call_tool("payer", {"message": "pay", "thread_id": thread_id})
        ticket = ticket_of(waiting)
    await until_status(agents, thread_id, RunStatus.WAITING)
    async with McpClient(url, mode=mode) as caller:
        arguments = {"thread_id": thread_id, "ticket": ticket, "decision": "approve"}
        assert text(await caller.call_tool("continue", arguments)) == "paid 7"


CALLS: tuple[tuple[str, dict[str, str]], ...] = (("payer", {"message": "hello"}), ("continue", {}), ("cancel", {}))


async def test_a_server_serves_the_threads_that_were_opened_for_its_tenant_and_user(agents: Client) -> None:
    opened = ids.request_thread_id("payer", uuid4().hex, tenant="ours", user="ada")
    others = {
        "not opened over MCP": ("payer", f"app-{uuid4()}", "ours", "ada"),
        "opened for another user": ("payer", _opened("ours", "bob"), "ours", "bob"),
        "opened for no user": ("payer", _opened("ours", None), "ours", None),
        "opened for another tenant": ("payer", _opened("theirs", "ada"), "theirs", "ada"),
        "opened for no tenant": ("payer", _opened(None, "ada"), None, "ada"),
        "of another tenant, by an id of this server": ("payer", _opened("ours", "ada"), "theirs", "ada"),
        "of an agent that is not served": ("tester", _opened("ours", "ada"), "ours", "ada"),
    }
    for agent, thread, tenant, user in others.values():
        await agents.start(agent, "hello", thread_id=thread, tenant=tenant, user=user)
    app = wakeful.mcp.app(agents, agents=["payer"], tenant="ours", user="ada", decisions="all")
    async with http_server(app) as url, McpClient(url) as caller:
        for which, (_, thread, *_) in others.items():
            for tool, arguments in CALLS:
                result = await caller.call_tool(tool, {"thread_id": thread, **arguments})
                assert (which, text(result)) == (which, _refusal(thread))
        assert text(await caller.call_tool("payer", {"message": "hello", "thread_id": opened})) == "heard hello"
        assert text(await caller.call_tool("continue", {"thread_id": opened})) == "heard hello"
    identity = (await agents.status(opened)).identity
    assert (identity.tenant, identity.user) == ("ours", "ada")


def _opened(tenant: str | None, user: str | None) -> str:
    return ids.request_thread_id("payer", uuid4().hex, tenant=tenant, user=user)


def _refusal(thread_id: str) -> str:
    return f"thread {thread_id!r} is not one that this server serves: leave `thread_id` out to start a new thread"


async def test_a_server_of_all_threads_serves_those_of_its_tenant_and_user_and_opens_none_by_name(
    agents: Client,
) -> None:
    ours, bobs, theirs, missing = (f"{name}-{uuid4()}" for name in ("ours", "bobs", "theirs", "missing"))
    await agents.run("payer", "hello", thread_id=ours, user="ada")
    await agents.run("payer", "hello", thread_id=bobs, user="bob")
    await agents.run("payer", "hello", thread_id=theirs, tenant="theirs", user="ada")
    app = wakeful.mcp.app(agents, agents=["payer"], user="ada", all_threads=True)
    async with http_server(app) as url, McpClient(url) as caller:
        for tool, arguments in CALLS:
            for thread in (bobs, theirs):
                assert text(await caller.call_tool(tool, {"thread_id": thread, **arguments})) == _refusal(thread)
            result = await caller.call_tool(tool, {"thread_id": missing, **arguments})
            assert f"no thread {missing!r}" in text(result)
        assert text(await caller.call_tool("payer", {"message": "again", "thread_id": ours})) == "heard again"


async def test_a_client_answers_questions_and_approves_nothing_unless_the_server_allows_it(
    agents: Client, mode: str
) -> None:
    async with http_server(wakeful.mcp.app(agents, registry=registry)) as url, McpClient(url, mode=mode) as caller:
        asked = await caller.call_tool("payer", {"message": "colour"})
        answer = {"thread_id": thread_of(asked), "ticket": ticket_of(asked), "answer": {"colour": "red"}}
        assert text(await caller.call_tool("continue", answer)) == "chose {'colour': 'red'}"
        for message in ("pay", "lend"):
            waiting = await caller.call_tool("payer", {"message": message})
            assert "decision is made elsewhere" in text(waiting)
            for decision in ({"decision": "approve"}, {"decision": "deny"}, {"answer": {"amount": 1}}):
                given = {"thread_id": thread_of(waiting), "ticket": ticket_of(waiting), **decision}
                refused = await caller.call_tool("continue", given)
                assert (refused.is_error, "takes no approvals" in text(refused)) == (True, True)
            assert len((await agents.status(thread_of(waiting))).pending) == 1
