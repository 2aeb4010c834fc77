"""The awaken runtime's own tests of delegates, background tasks, cancelling and messages, each under its name."""

import asyncio
from typing import Any

import pytest

from tests.support.journal import Journal
from tests.support.subagent_app import delegate, holding, plan, send, spawn, written
from tests.support.subagents import answer_of, ends_in_tree, task_events, until_closed
from tests.support.waiting import until, until_status
from wakeful.client.client import Client
from wakeful.contract.events import ToolCallDone
from wakeful.contract.messages import Role
from wakeful.contract.runs import Origin, RunStatus, ThreadMode

SELF: tuple[str, dict[str, Any]] = ("cancel_task", {"target": {"relation": "self"}})
PARENT: dict[str, Any] = {"relation": "parent"}


async def receipt_of(client: Client, thread_id: str, to: dict[str, Any], message: str = "hi") -> Any:
    """The receipt that a root agent gets for this message."""
    result = await client.run("node", written(plan([send(to, message)])), thread_id=thread_id)
    return answer_of(result)["results"][0]


async def test_execute_delegate_returns_final_non_tool_message_after_tool_output(
    client: Client, thread_id: str
) -> None:
    child = plan([("work", {"what": "tool result should not win"})], say="final child answer")
    result = await client.run("node", written(plan([delegate(child)])), thread_id=thread_id)
    answer = answer_of(result)["results"][0]
    assert answer["status"] == "completed"
    assert answer["response"]["say"] == "final child answer"
    assert answer["steps"] == 2
    records = [record.event async for record in client.watch(thread_id)]
    (data,) = [event.result.data for event in records if isinstance(event, ToolCallDone)]
    assert isinstance(data, dict)
    assert data["output"] == {"text": data["response"]}


async def test_execute_delegate_in_background_task_can_self_cancel_and_cascade(
    client: Client, thread_id: str, journal: Journal
) -> None:
    """A background agent starts a task, then its delegate cancels the background agent: all of them end."""
    worker = plan(
        [spawn(plan([holding()]), name="leaf")],
        [delegate(plan([SELF], say="should not be reached after cancellation"))],
        say="nor should this",
    )
    result = await client.run("node", written(plan([spawn(worker, name="worker")])), thread_id=thread_id)
    assert task_events(result) == [{"kind": "cancelled", "task_id": "…"}]
    await until_closed(client, thread_id)
    ends = await ends_in_tree(client, thread_id)
    assert ends.pop(thread_id) == "natural"
    assert len(ends) == 3
    assert set(ends.values()) == {"cancelled"}
    assert journal.said("hold") in ([], ["began", "stopped"])
    for id in ends:
        assert "should not be reached" not in (await client.result(id)).response


async def test_execute_delegate_preserves_existing_cancel_task_tool_in_background_context(
    client: Client, thread_id: str, journal: Journal
) -> None:
    """An agent's own tool of that name takes precedence."""
    worker = spawn(plan([SELF], say="custom tool won"), agent="own_cancel")
    result = await client.run("node", written(plan([worker])), thread_id=thread_id)
    (event,) = task_events(result)
    assert event["kind"] == "completed"
    assert event["result"]["response"]["say"] == "custom tool won"
    assert journal.said("cancel_task") == ["custom cancel handled"]


async def test_run_handle_cancel(client: Client, thread_id: str) -> None:
    await client.start("node", written(plan([holding()])), thread_id=thread_id)
    await until(client, thread_id, lambda view: bool(view.calls))
    await client.cancel(thread_id)
    assert (await client.result(thread_id)).status_reason == "cancelled"


async def test_child_by_name_delivers_live(client: Client, thread_id: str) -> None:
    child = plan([("work", {"what": "wait for mail", "seconds": 1.0})], say="got it")
    plans = plan([spawn(child, name="researcher")], [send({"relation": "child", "name": "researcher"}, "hi")])
    result = await client.run("node", written(plans), thread_id=thread_id)
    receipt = next(each for each in answer_of(result)["results"] if each["status"] == "accepted")
    assert receipt["status"] == "accepted"
    (event,) = task_events(result)
    (mail,) = event["result"]["response"]["events"]
    assert (mail["kind"], mail["event_type"]) == ("custom", "agent_message")
    assert mail["payload"] == {"from": "node", "content": "hi"}


async def test_child_wrong_thread_permission_denied(client: Client, thread_id: str) -> None:
    """An agent cannot name a task of another thread."""
    owner = f"{thread_id}-owner"
    await client.start("node", written(plan([spawn(plan([holding()]), name="worker")])), thread_id=owner)
    await until(client, owner, lambda view: bool(view.children))
    receipt = await receipt_of(client, thread_id, {"relation": "child", "name": "worker"}, "x")
    assert receipt == {"message_id": "…", "status": "failed", "error": "recipient_not_found"}
    await client.cancel(owner)
    await until_closed(client, owner)


async def test_agent_delivers_durable(client: Client, thread_id: str) -> None:
    other = f"{thread_id}-2"
    await client.start("node", written(plan(say="here")), thread_id=other, mode=ThreadMode.THREAD)
    await until_status(client, other, RunStatus.DONE)
    receipt = await receipt_of(client, thread_id, {"relation": "agent", "thread_id": other}, "hello")
    assert receipt["status"] == "accepted"
    view = await until(client, other, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert view.identity.origin is Origin.INTERNAL
    (received,) = [message.text for message in await client.transcript(other) if "agent-message" in message.text]
    assert received == f'<agent-message from="node" thread_id="{thread_id}">\nhello\n</agent-message>'
    await client.handle(other).cancel()


async def test_parent_no_context_unavailable(client: Client, thread_id: str) -> None:
    receipt = await receipt_of(client, thread_id, PARENT, "done")
    assert receipt == {"message_id": "…", "status": "failed", "error": "recipient_unavailable"}


async def test_parent_without_thread_id_returns_unavailable(client: Client, thread_id: str) -> None:
    """The parent's run id alone is not enough."""
    request = {
        "agent_id": "node",
        "input": written(plan([send(PARENT, "hello parent")])),
        "parent_run_id": "run-parent",
    }
    await client.temporal.start_workflow("AgentRun", request, id=thread_id, task_queue=client.task_queue)
    assert "recipient_unavailable" in (await client.result(thread_id)).response


async def test_parent_with_thread_id_delivers(client: Client, thread_id: str) -> None:
    child = plan([send(PARENT, "analysis complete")], [("work", {"what": "a little more", "seconds": 0.5})])
    await client.run("node", written(plan([spawn(child)])), thread_id=thread_id)
    (received,) = [message for message in await client.transcript(thread_id) if "agent-message" in message.text]
    assert received.role is Role.USER
    assert "analysis complete" in received.text
    assert 'from="node"' in received.text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param({"to": {}, "message": "hi"}, "missing 'to.relation'", id="rejects_missing_relation"),
        pytest.param(
            {"to": {"relation": "child"}, "message": "hi"}, "child requires 'name'", id="rejects_child_without_name"
        ),
        pytest.param(
            {"to": {"relation": "agent"}, "message": "hi"},
            "agent requires 'thread_id'",
            id="rejects_agent_without_thread_id",
        ),
        pytest.param({"to": {"relation": "child", "name": "r"}, "message": "hi"}, None, id="accepts_valid_child"),
        pytest.param({"to": {"relation": "parent"}, "message": "hi"}, None, id="accepts_valid_parent"),
        pytest.param({"to": {"relation": "agent", "thread_id": "t1"}, "message": "hi"}, None, id="accepts_valid_agent"),
    ],
)
async def test_validate_args(client: Client, thread_id: str, arguments: dict[str, Any], problem: str | None) -> None:
    """`rejects_missing_relation` to `accepts_valid_agent`: valid arguments get a receipt, though a failed one."""
    result = await client.run("node", written(plan([("send_message", arguments)])), thread_id=thread_id)
    (text,) = answer_of(result)["results"]
    if problem is None:
        assert text["status"] in ("accepted", "failed")
    else:
        assert text == f"Invalid arguments: {problem}"


async def test_agent_routing_includes_agent_id(client: Client, thread_id: str) -> None:
    """A thread that does not exist is started with the agent that the message names."""
    other = f"{thread_id}-target"
    to = {"relation": "agent", "thread_id": other, "agent_id": "back"}
    assert (await receipt_of(client, thread_id, to, "please review"))["status"] == "accepted"
    async with asyncio.timeout(30):
        view = await until_status(client, other, RunStatus.DONE)
    assert view.identity.agent_id == "back"
    assert "please review" in (await client.transcript(other))[0].text
    await client.handle(other).cancel()
