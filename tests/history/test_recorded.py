"""Recorded histories are read by replay, and what is read agrees with what the history itself says.

The history is the independent witness: the result that a run ended with, the snapshot with which it continued as new,
the messages that its activities were given, and the numbers of its events.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import _replayer

from tests.replay.record import HISTORIES
from wakeful.contract import names
from wakeful.contract.base import replace
from wakeful.contract.carryover import Carryover
from wakeful.contract.messages import Message
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import RunResult
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.users import Users
from wakeful.history.completed_part import last_completed_task
from wakeful.history.conversation import ConversationReader
from wakeful.history.decoder import ExecutionRef, Payloads, moments_of
from wakeful.history.moments import Started
from wakeful.history.read_only_replayer import ReadOnlyReplayer
from wakeful.history.replayed_execution import ReplayedExecution, ThreadReading, replay_execution
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.continue_as_new import unpack
from wakeful.loop.thread.views import carryover, status_view, visible_messages

RECORDED = sorted(HISTORIES.glob("*.json"))
PAYLOADS = Payloads(pydantic_data_converter)
PARTS = 2
"""Parts of each history that are read on their own."""


@pytest.fixture(scope="module")
async def replayer() -> ReadOnlyReplayer:
    return ReadOnlyReplayer(pydantic_data_converter)


def history_in(path: Path) -> WorkflowHistory:
    history: dict[str, Any] = json.loads(path.read_text())
    workflow_id = history["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    return WorkflowHistory.from_json(workflow_id, history)


def is_of(path: Path, workflow_type: str) -> bool:
    started: dict[str, Any] = json.loads(path.read_text())["events"][0]["workflowExecutionStartedEventAttributes"]
    name: str = started["workflowType"]["name"]
    return name == workflow_type


THREADS = [path for path in RECORDED if is_of(path, names.WORKFLOW)]
each_thread = pytest.mark.parametrize("path", THREADS, ids=lambda path: path.stem)


async def replayed(
    replayer: ReadOnlyReplayer, history: WorkflowHistory, length: int | None = None
) -> ReplayedExecution:
    execution = ExecutionRef(history.workflow_id, history.run_id)
    return await replay_execution(replayer, execution, history.events[:length])


async def test_a_replay_does_not_read_the_code_of_every_imported_module(
    replayer: ReadOnlyReplayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK hashes it for a build id, if it is given none: as much CPU as all that a command does."""
    monkeypatch.setattr(_replayer, "load_default_build_id", lambda: pytest.fail("the SDK hashes every module"))
    await replayed(replayer, history_in(THREADS[0]))


@dataclass(frozen=True)
class Whole:
    """What is read of a whole recorded history."""

    history: WorkflowHistory
    reading: ThreadReading
    carryover: Carryover


_read: dict[Path, Whole] = {}


@pytest.fixture
async def whole(path: Path, replayer: ReadOnlyReplayer) -> Whole:
    """Read once for all tests."""
    if path not in _read:
        history = history_in(path)
        execution = await replayed(replayer, history)
        kept = await execution.query(names.QUERY_CARRYOVER, Carryover)
        _read[path] = Whole(history, await execution.reading(), kept)
        await execution.drop()
    return _read[path]


async def snapshot_in(history: WorkflowHistory) -> Thread:
    """The thread that the execution passed on when it continued as new."""
    last = history.events[-1].workflow_execution_continued_as_new_event_attributes
    given = await PAYLOADS.value(last.input, dict[str, Any])
    return unpack(given[names.SNAPSHOT]).thread


def said(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """What messages say, without the ids that only the workflow gives them."""
    return [(each.role, each.text, each.tool_calls, each.tool_call_id) for each in messages]


def reported(events: Sequence[HistoryEvent]) -> RawPayloads | None:
    """The result that an execution closed with: as its result, in its failure or in its memo."""
    match events[-1].event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
            return events[-1].workflow_execution_completed_event_attributes.result
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            return events[-1].workflow_execution_failed_event_attributes.failure.application_failure_info.details
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
            memo = events[-2].workflow_properties_modified_event_attributes.upserted_memo
            return RawPayloads(payloads=[memo.fields[names.MEMO_RESULT]])
        case _:
            return None


@each_thread
async def test_the_status_has_the_result_that_the_history_ends_with(whole: Whole) -> None:
    events, reading = whole.history.events, whole.reading
    if (payloads := reported(events)) is not None:
        result = await PAYLOADS.value(payloads, RunResult)
        assert (reading.status.result, reading.is_done) == (result, True)
    else:
        assert events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
        assert not reading.is_done
    assert reading.completed == last_completed_task(events)


@pytest.mark.parametrize("path", [path for path in THREADS if path.stem.endswith(".1")], ids=lambda path: path.stem)
async def test_everything_is_as_in_the_snapshot_that_the_execution_passed_on(path: Path, whole: Whole) -> None:
    # No user has written to these threads, which snapshots of the first four formats do not say.
    thread = replace(await snapshot_in(whole.history), users=Users())
    reading, kept = whole.reading, whole.carryover
    assert reading.status == status_view(thread)
    assert reading.state == thread.agent_state.view
    assert reading.messages == visible_messages(thread)
    assert reading.events[-1].seq == thread.counters.events
    assert kept == carryover(thread)


@each_thread
async def test_the_messages_are_those_that_the_models_were_given(path: Path, whole: Whole) -> None:
    """Rebuilt without a replay, from where the inputs of inferences say that history records them."""
    conversation = ConversationReader(PAYLOADS, ExecutionRef("t1", "r1"))
    for moment in moments_of(whole.history.events):
        await conversation.read(moment)
    before, entries = conversation.conversation.entries()
    assert before.length == whole.reading.messages_before
    assert said(entries) == said(whole.reading.messages[: len(entries)])
    assert entries or path.stem in ("unknown_agent", "cost_without_prices")  # their models were given nothing


async def test_a_sub_agent_that_is_read_without_a_replay_keeps_its_place_and_its_ancestors_rules() -> None:
    """B-513"""
    deny, allow = (Rule(tool="pay", behavior=behavior) for behavior in (Behavior.DENY, Behavior.ALLOW))
    request = RunRequest(
        agent_id="clerk",
        input="Pay.",
        parent_thread_id="t0",
        permissions=(deny, allow),
        subagent=SubagentContext(path=("t0",), work_id="delegate-1-1"),
    )
    reader = ConversationReader(PAYLOADS, ExecutionRef("t0/clerk", "r1"))
    input = RawPayloads(payloads=await pydantic_data_converter.encode([request]))
    await reader.read(Started(1, 0, "AgentRun", "t0/clerk", input, ""))
    kept = reader.conversation.carryover
    assert (kept.authority, kept.identity and kept.identity.path) == ((deny,), ("t0",))


@each_thread
async def test_events_are_numbered_without_a_gap(whole: Whole) -> None:
    first = whole.reading.events_before + 1
    numbers = [record.seq for record in whole.reading.events]
    assert numbers == [*range(first, whole.carryover.counters.events + 1)]


@each_thread
async def test_a_part_of_a_history_has_the_first_of_its_events(whole: Whole, replayer: ReadOnlyReplayer) -> None:
    """Also where it ends in the middle of a workflow task, or among the commands of one."""
    history = whole.history
    all_events = [record.event for record in whole.reading.events]
    for length in range(first_completed(history.events), len(history.events), max(1, len(history.events) // PARTS)):
        execution = await replayed(replayer, history, length)
        reading = await execution.reading()
        await execution.drop()
        events = [record.event for record in reading.events]
        assert events == all_events[: len(events)]
        assert reading.completed <= length


def first_completed(events: Sequence[HistoryEvent]) -> int:
    return next(event.event_id for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)


async def test_a_background_tool_has_a_status(replayer: ReadOnlyReplayer) -> None:
    (path,) = (path for path in RECORDED if is_of(path, names.WORKFLOW_TOOL_TASK))
    execution = await replayed(replayer, history_in(path))
    status = await execution.query(names.QUERY_STATUS, dict)
    await execution.drop()
    assert status == {"task_id": "bg_0", "tool": "dig", "status": "completed"}
