"""Permissions, a budget and frontend tools with a send: they are for the run that the message begins."""

import json
from pathlib import Path

import pytest

from tests.support.processes import wakeful
from tests.support.waiting import until, until_status
from wakeful import (
    Budget,
    CallerError,
    FrontendTool,
    MessageRefused,
    Rule,
    RunBlocked,
    RunStatus,
    RunStopped,
    ThreadNotFound,
)
from wakeful.client.client import Client
from wakeful.connection import EmbeddedServer
from wakeful.contract.permissions import Behavior

PAGE = FrontendTool(id="open_page", description="Open a page", parameters={"type": "object"})
NO_SUMS = Rule(tool="add", behavior=Behavior.DENY)


async def test_a_message_brings_its_own_front_end_budget_and_rules(client: Client, thread_id: str) -> None:
    assert (await client.ask(thread_id, "hi", agent_id="tester")).text == "hello, hi"
    await client.send(thread_id, "browse", frontend_tools=[PAGE], message_id="m2")
    view = await until_status(client, thread_id, RunStatus.WAITING)
    assert view.pending[0].suspension.action == "tool:open_page"
    with pytest.raises(MessageRefused, match="budgets apply to the run that messages start"):
        await client.send(thread_id, "hi", on_busy="steer", budget=Budget(turns=1), confirm=True)
    await client.decide(thread_id, view.pending[0].pending.id, "resume", result={"title": "Home"})
    assert (await client.ask(thread_id, "browse", message_id="m2")).text == 'the page says {"title":"Home"}'

    with pytest.raises(RunStopped, match="turns budget is spent"):
        await client.ask(thread_id, "add", budget=Budget(turns=1))
    with pytest.raises(RunBlocked, match="Tool 'add' denied by permission rules"):
        await client.ask(thread_id, "add", permissions=[NO_SUMS])
    assert (await client.ask(thread_id, "add")).text == "the sum is 5"
    await client.close(thread_id)


async def test_a_rule_that_cannot_be_read_is_an_error_of_the_sender(client: Client, thread_id: str) -> None:
    """Sent, it would end the run that the message begins."""
    with pytest.raises(CallerError, match="permission rule"):
        await client.send(thread_id, "hi", agent_id="tester", permissions=[Rule(tool="/(/", behavior="deny")])
    with pytest.raises(ThreadNotFound):
        await client.status(thread_id)


async def test_run_takes_the_permissions_and_frontend_tools_of_start(client: Client, thread_id: str) -> None:
    denied = await client.run("tester", "add", thread_id=thread_id, permissions=[NO_SUMS], frontend_tools=[PAGE])
    assert denied.status_reason.startswith("blocked")
    history = await client.handle(thread_id).fetch_history()
    (request,) = history.events[0].workflow_execution_started_event_attributes.input.payloads
    assert [each["id"] for each in json.loads(request.data)["frontend_tools"]] == ["open_page"]


async def test_the_command_sends_them_too(
    client: Client, thread_id: str, server: EmbeddedServer, tmp_path: Path
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([PAGE.model_dump(mode="json")]))
    send = ("send", thread_id, "browse", "--agent", "tester", "--budget-turns", "1", "--permission", "add=deny")
    ran = await wakeful(*send, "--frontend-tools", str(tools), address=server.address)
    assert ran.code == 0, ran.err
    view = await until_status(client, thread_id, RunStatus.WAITING)
    assert (view.pending[0].suspension.action, view.budget) == ("tool:open_page", Budget(turns=1))
    assert NO_SUMS in [each.rule for each in (await client.permissions(thread_id)).rules]
    await client.decide(thread_id, view.pending[0].pending.id, "resume", result={})
    ended = await until(client, thread_id, lambda view: view.result is not None)
    assert ended.result is not None
    assert ended.result.status_reason == "stopped:budget"
    await client.close(thread_id)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--permission", "add"], "--permission 'add' is not TOOL=BEHAVIOR; a behavior is one of allow, ask, deny"),
        (["--frontend-tools", "nowhere.json"], "--frontend-tools 'nowhere.json' cannot be read: No such file"),
        (["--frontend-tools", "README.md"], "--frontend-tools 'README.md': Invalid JSON: "),
    ],
)
async def test_a_setting_that_cannot_be_read_is_one_clear_line(
    server: EmbeddedServer, option: list[str], says: str
) -> None:
    ran = await wakeful("send", "t", "hi", "--agent", "tester", *option, address=server.address)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert ran.err.startswith(f"wakeful: {says}")
