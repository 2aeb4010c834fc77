"""Runs that use the tools of a real MCP server: permissions, media, questions, and a server that is away."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from temporalio.client import Client as TemporalClient

from tests.activities.mcp.conftest import CANARY, free_port, http_desk, remote_desk
from tests.support.mcp_app import calling, desk, registry_with
from tests.support.waiting import until
from wakeful import Behavior, FrontendTool, PermissionPolicy, Registry, Rule, RunStatus, Secret
from wakeful.client.client import Client
from wakeful.contract.messages import ImageBlock, Message, Role
from wakeful.contract.views import StatusView
from wakeful.worker import WorkerSettings, running_worker


@asynccontextmanager
async def serving(temporal: TemporalClient, registry: Registry, queue: str) -> AsyncIterator[Client]:
    patience = timedelta(minutes=2)
    settings = WorkerSettings(task_queue=queue, new_run_patience=patience, in_flight_patience=patience)
    async with running_worker(temporal, registry, settings), Client(temporal, task_queue=queue) as client:
        yield client


@pytest.fixture(scope="module")
async def clerk(temporal: TemporalClient, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A client of an agent with the tests' server, over stdio."""
    env: dict[str, Any] = {
        "DESK_JOURNAL": str(tmp_path_factory.mktemp("desk") / "journal"),
        "DESK_TOKEN": Secret(env="DESK_SECRET"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_SECRET", CANARY)
        async with serving(temporal, registry_with(desk(env=env)), "mcp") as client:
            yield client


async def results_of(client: Client, thread_id: str) -> list[Message]:
    return [message for message in await client.transcript(thread_id) if message.role is Role.TOOL]


async def test_a_run_calls_tools_of_a_server_and_its_results_have_data_media_and_errors(
    clerk: Client, thread_id: str
) -> None:
    """B-830"""
    turn: list[tuple[str, dict[str, Any]]] = [("echo", {"text": "hi"}), ("add", {"a": 1, "b": 2}), ("fail", {})]
    last: list[tuple[str, dict[str, Any]]] = [("leak", {}), ("page", {}), ("picture", {})]
    result = await clerk.run("clerk", calling(turn, last), thread_id=thread_id)
    texts = [message.text for message in await results_of(clerk, thread_id)]
    assert texts[0] == "hi"
    assert json.loads(texts[1]) == {"total": 3}
    assert texts[2:5] == [
        "Error executing tool fail: the printer is on fire",
        "Error executing tool leak: cannot sign in with [secret]",
        "see:\n[resource desk://page]\npage one",
    ]
    assert [type(block) for block in (await results_of(clerk, thread_id))[-1].content][1:] == [ImageBlock]
    assert result.response == "The tool returned no text, but content: 1 of type 'image'."
    handle = clerk.temporal.get_workflow_handle(thread_id)
    assert CANARY not in (await handle.fetch_history()).to_json()


async def test_a_question_of_the_server_waits_in_the_inbox_and_its_answer_continues_the_call(
    clerk: Client, thread_id: str
) -> None:
    """B-830"""
    await clerk.start("clerk", calling([("book", {"where": "Rome"})]), thread_id=thread_id)
    [ticket] = (await until(clerk, thread_id, lambda view: bool(view.pending))).pending
    suspension = ticket.suspension
    assert (suspension.message, suspension.action) == ("Which seat to Rome?", "mcp:elicitation")
    assert isinstance(suspension.response_schema, dict)
    assert suspension.response_schema["required"] == ["seat"]
    await clerk.decide(thread_id, ticket.pending.id, "resume", result={"seat": "12A"})
    assert (await clerk.result(thread_id)).response == "Rome: 12A"


@pytest.mark.parametrize("probe", [True, False], ids=["newest", "older"])
async def test_several_questions_of_a_call_are_asked_one_after_another(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, probe: bool
) -> None:
    """B-830: of the newest protocol together, of an older one each in a call of its own; the tool acts once."""
    journal = tmp_path / "journal"
    registry = registry_with(desk(env={"DESK_JOURNAL": str(journal)}, probe=probe))
    answers: dict[str, JsonValue] = {"Which seat to Rome?": {"seat": "12A"}, "Which meal to Rome?": {"meal": "soup"}}
    async with serving(temporal, registry, thread_id) as client:
        await client.start("clerk", calling([("dine", {"where": "Rome"})]), thread_id=thread_id)
        while answers:
            [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
            answer = answers.pop(str(ticket.suspension.message))
            await client.decide(thread_id, ticket.pending.id, "resume", result=answer, confirm=True)
        assert (await client.result(thread_id)).response == "Rome: 12A, soup"
    assert journal.read_text().splitlines() == ["dined Rome"]


async def test_a_call_whose_answer_is_lost_or_late_is_unknown_unless_it_may_be_repeated(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """B-830"""
    journal = tmp_path / "journal"
    registry = registry_with(desk(env={"DESK_JOURNAL": str(journal)}, timeout=1.5, restart_delay=0.05))
    turns: list[list[tuple[str, dict[str, Any]]]]
    turns = [[("crash", {})], [("slow", {"steps": 1, "seconds": 600})], [("stumble", {})]]
    async with serving(temporal, registry, thread_id) as client:
        result = await client.run("clerk", calling(*turns), thread_id=thread_id)
        crashed, late, _ = [message.text for message in await results_of(client, thread_id)]
    unknown = "outcome unknown: the connection to MCP server 'desk' was lost: Connection closed."
    assert crashed.startswith(unknown)
    assert late.startswith("outcome unknown: it took longer than 1.5 s, and was cancelled.")
    assert result.response == "here after all"
    assert journal.read_text().splitlines().count("crash") == 1


@pytest.mark.parametrize(("result", "read"), [(None, "DeclinedElicitation"), ({"action": "cancel"}, "CancelledElicit")])
async def test_a_denied_question_reaches_the_server_as_declined_or_cancelled(
    clerk: Client, thread_id: str, result: Any, read: str
) -> None:
    """B-830"""
    await clerk.start("clerk", calling([("book", {"where": "Rome"})]), thread_id=thread_id)
    [ticket] = (await until(clerk, thread_id, lambda view: bool(view.pending))).pending
    await clerk.decide(thread_id, ticket.pending.id, "cancel", result=result)
    assert (await clerk.result(thread_id)).response.startswith(f"Rome: {read}")


async def test_a_tool_that_is_declared_destructive_is_asked_about(clerk: Client, thread_id: str) -> None:
    """B-830"""
    await clerk.start("clerk", calling([("erase", {})]), thread_id=thread_id)
    [ticket] = (await until(clerk, thread_id, lambda view: bool(view.pending))).pending
    assert ticket.suspension.action == "tool:PermissionConfirm"
    await clerk.decide(thread_id, ticket.pending.id, "resume")
    assert (await clerk.result(thread_id)).response == "gone"


async def test_a_server_that_differs_from_its_pins_is_asked_about_whatever_the_rules_allow(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    allowing = PermissionPolicy(rules=(Rule(tool="*", behavior=Behavior.ALLOW),))
    pinned = desk(
        env={"DESK_JOURNAL": str(tmp_path / "journal")}, pinned={"echo": "sha256:of-what-was-read", "gone": "sha256:1"}
    )
    async with serving(temporal, registry_with(pinned, permissions=allowing), "mcp-pinned") as client:
        await client.start("clerk", calling([("echo", {"text": "hi"})]), thread_id=thread_id)
        [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
        asked = ticket.suspension.message or ""
        assert asked.startswith("Permission required for tool 'mcp__desk__echo': MCP server 'desk' does not list")
        assert "tool 'add' is new" in asked
        await client.decide(thread_id, ticket.pending.id, "resume")
        assert (await client.result(thread_id)).response == "hi"


async def test_a_rule_that_matches_no_tool_of_the_server_is_logged_and_named_by_why(
    temporal: TemporalClient, thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    rules = [Rule(tool=f"mcp__desk__{name}", behavior=Behavior.DENY) for name in ("ehco", "pick", "erase")]
    pick = FrontendTool(id="mcp__desk__pick", description="Pick a colour.")
    registry = registry_with(desk(), permissions=PermissionPolicy(default_behavior=Behavior.ALLOW, rules=tuple(rules)))
    async with serving(temporal, registry, thread_id) as client:
        script = calling([("echo", {"text": "hi"})])
        await client.run("clerk", script, thread_id=thread_id, frontend_tools=[pick])
        found = await client.why(thread_id)
    assert "No tool of its run is matched by 1 permission rule: 'mcp__desk__ehco'." in found.why
    assert f"{thread_id}: permission rule 'mcp__desk__ehco' matches no tool of the run" in found.facts
    causes = [str(getattr(record, "cause", "")) for record in caplog.records]
    assert [cause for cause in causes if "matches no tool" in cause] == [
        "permission rule 'mcp__desk__ehco' of agent 'clerk' matches no tool of its runs"
    ]


async def test_a_denied_question_of_a_tool_that_was_approved_is_not_a_new_request_for_approval(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-830"""
    registry = registry_with(desk(permissions={"book": "ask"}))
    async with serving(temporal, registry, thread_id) as client:
        await client.start("clerk", calling([("book", {"where": "Rome"})]), thread_id=thread_id)
        [approval] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
        await client.decide(thread_id, approval.pending.id, "resume")

        def asks(view: StatusView) -> bool:
            return any(ticket.suspension.action == "mcp:elicitation" for ticket in view.pending)

        [question] = (await until(client, thread_id, asks)).pending
        await client.decide(thread_id, question.pending.id, "cancel")
        assert (await client.result(thread_id)).response == "Rome: DeclinedElicitation"


async def test_a_run_waits_for_a_server_that_is_away_and_why_names_it(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-830: first when its tools are listed, then before a call; nothing is executed twice."""
    monkeypatch.setenv("DESK_SECRET", CANARY)
    port, journal = free_port(), tmp_path / "journal"
    registry = registry_with(remote_desk(port))
    async with serving(temporal, registry, thread_id) as client:
        await client.start("clerk", calling([("erase", {})], [("note", {"text": "a"})]), thread_id=thread_id)
        async with asyncio.timeout(60):
            while "MCP server 'desk'" not in (found := await client.why(thread_id)).doing:
                await asyncio.sleep(0.2)
        assert "it cannot be reached" in found.why
        async with http_desk(port, DESK_JOURNAL=str(journal)):
            [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
        await client.decide(thread_id, ticket.pending.id, "resume")
        await until(client, thread_id, lambda view: view.status is RunStatus.RUNNING)
        async with asyncio.timeout(60):
            while "MCP server 'desk'" not in (await client.why(thread_id)).doing:
                await asyncio.sleep(0.2)
        async with http_desk(port, DESK_JOURNAL=str(journal)):
            assert (await client.result(thread_id)).response == "noted a"
    assert journal.read_text().splitlines() == ["erased", "note a"]
    handle = temporal.get_workflow_handle(thread_id)
    assert CANARY not in (await handle.fetch_history()).to_json()


@pytest.mark.parametrize("keeps_state", [True, False], ids=["same keys", "new keys"])
async def test_an_answer_continues_the_call_on_another_worker_with_another_process_of_the_server(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, keeps_state: bool
) -> None:
    """B-830: by the server's own state, which history has; a server that cannot read it is asked anew and answered."""
    journal = tmp_path / "journal"
    env = {"DESK_JOURNAL": str(journal), **({"DESK_KEEPS_STATE": "1"} if keeps_state else {})}
    registry = registry_with(desk(env=env))
    async with serving(temporal, registry, thread_id) as client:
        await client.start("clerk", calling([("book", {"where": "Rome"})]), thread_id=thread_id)
        [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
    await client.decide(thread_id, ticket.pending.id, "resume", result={"seat": "12A"})
    async with serving(temporal, registry, thread_id) as client:
        assert (await client.result(thread_id)).response == "Rome: 12A"
    assert journal.read_text().splitlines() == ["booked Rome 12A"]
