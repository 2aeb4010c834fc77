"""B-715: what a run waits for is asked of a client that supports elicitation, in both eras of the protocol."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import types
from mcp.client.session import ElicitationFnT

import wakeful.mcp
from tests.mcp.calling import text, thread_of
from tests.mcp.conftest import http_server
from tests.support.waiting import BOUND_SECONDS
from wakeful.client.client import Client

Asked = list[types.ElicitRequestFormParams]


def answering(*answers: str | Mapping[str, Any], asked: Asked) -> ElicitationFnT:
    """A person who answers these in turn: the content of a form, or that it is declined or cancelled."""
    given = iter(answers)

    async def ask(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        asked.append(params)
        match next(given):
            case "decline":
                return types.ElicitResult(action="decline")
            case "cancel":
                return types.ElicitResult(action="cancel")
            case content:
                assert not isinstance(content, str)
                return types.ElicitResult(action="accept", content=dict(content))

    return ask


async def call(url: str, mode: str, agent: str, message: str, ask: ElicitationFnT, **more: str) -> types.CallToolResult:
    async with asyncio.timeout(BOUND_SECONDS), McpClient(url, mode=mode, elicitation_callback=ask) as caller:
        return await caller.call_tool(agent, {"message": message, **more})


async def test_an_approval_is_asked_for_and_accepted(url: str, mode: str, agents: Client) -> None:
    asked: Asked = []
    result = await call(url, mode, "payer", "pay", answering({}, asked=asked))
    assert text(result) == "paid 7"
    [question] = asked
    assert "wants to call 'pay' with {\"amount\": 7}" in question.message
    assert question.requested_schema["properties"]["always"]["type"] == "boolean"
    [decided] = [event for event in await _decided(agents, thread_of(result)) if event]
    assert decided == "mcp:mcp"


async def _decided(agents: Client, thread_id: str) -> list[str | None]:
    """Who made the decisions of a thread."""
    history = await agents.handle(thread_id).fetch_history()
    signals = [event.workflow_execution_signaled_event_attributes for event in history.events]
    found = []
    for signal in signals:
        if signal.signal_name == "decide":
            [written] = await agents.temporal.data_converter.decode([*signal.input.payloads], [dict[str, Any]])
            found.append(written.get("actor"))
    return found


async def test_to_decline_denies_the_call(url: str, mode: str, agents: Client) -> None:
    result = await call(url, mode, "payer", "pay", answering("decline", asked=[]))
    [refused] = [message for message in await agents.transcript(thread_of(result)) if message.tool_call_id]
    assert "denied" in refused.text.lower() or "cancel" in refused.text.lower()


async def test_a_question_that_is_dismissed_stays_open(url: str, mode: str, agents: Client) -> None:
    result = await call(url, mode, "payer", "pay", answering("cancel", asked=[]))
    assert result.structured_content["waiting"]["thread_id"] == thread_of(result)
    assert len((await agents.status(thread_of(result))).pending) == 1


async def test_always_adds_a_rule(url: str, mode: str, agents: Client) -> None:
    asked: Asked = []
    result = await call(url, mode, "payer", "twice", answering({"always": True}, asked=asked))
    assert (text(result), len(asked)) == ("paid 8", 1)


async def test_two_approvals_of_a_run_are_asked_for_one_after_the_other(url: str, mode: str) -> None:
    asked: Asked = []
    result = await call(url, mode, "payer", "twice", answering({}, {}, asked=asked))
    assert text(result) == "paid 8"
    assert ['{"amount": 7}' in asked[0].message, '{"amount": 8}' in asked[1].message] == [True, True]


async def test_a_question_is_a_form_and_a_wrong_answer_is_asked_for_again(url: str, mode: str) -> None:
    asked: Asked = []
    people = answering({"colour": "green"}, {"colour": "blue", "shade": 3}, asked=asked)
    result = await call(url, mode, "payer", "colour", people)
    assert text(result) == "chose {'colour': 'blue', 'shade': 3}"
    assert asked[0].requested_schema == {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, "shade": {"type": "integer"}},
        "required": ["colour"],
    }
    assert "Which colour?" in asked[0].message
    assert "refused" in asked[1].message


async def test_the_approval_of_a_sub_agent_is_asked_for(url: str, mode: str) -> None:
    asked: Asked = []
    result = await call(url, mode, "chief", "delegate", answering({}, asked=asked))
    assert "paid 7" in text(result)
    assert "The agent 'payer' wants to call 'pay'" in asked[0].message


async def test_a_question_that_is_decided_elsewhere_is_taken_back(url: str, agents: Client, thread_id: str) -> None:
    cancelled = asyncio.Event()

    async def hesitate(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        status = await agents.status(thread_id)
        await agents.decide(thread_id, status.pending[0].suspension.id, "resume")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError("only a cancellation ends this wait")

    result = await call(url, "legacy", "payer", "pay", hesitate, thread_id=thread_id)
    assert text(result) == "paid 7"
    async with asyncio.timeout(BOUND_SECONDS):
        await cancelled.wait()


async def test_a_server_that_takes_no_decisions_asks_for_none(agents: Client, mode: str) -> None:
    async with http_server(wakeful.mcp.app(agents, agents=["payer"], decisions="none")) as url:
        asked: Asked = []
        waiting = await call(url, mode, "payer", "pay", answering({}, asked=asked))
        thread = thread_of(waiting)
        assert (asked, "made elsewhere" in text(waiting)) == ([], True)
        async with McpClient(url, mode=mode) as caller:
            refused = await caller.call_tool("continue", {"thread_id": thread, "decision": "approve"})
            assert (refused.is_error, "takes no decisions" in text(refused)) == (True, True)
            result = asyncio.create_task(caller.call_tool("continue", {"thread_id": thread}))
            await agents.decide(thread, (await agents.status(thread)).pending[0].suspension.id, "resume")
            assert text(await result) == "paid 7"


@pytest.mark.parametrize("state", ["nonsense", '{"thread_id": "no such thread"}'])
async def test_a_foreign_request_state_is_refused(url: str, state: str) -> None:
    async with McpClient(url) as caller:
        result = await caller.session.call_tool("payer", {"message": "pay"}, request_state=state, input_responses={})
    assert result.is_error
