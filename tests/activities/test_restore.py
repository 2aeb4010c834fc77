"""Read a closed execution of a thread: its conversation and its carryover, in one activity result that fits."""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from wakeful.contract.base import json_bytes
from wakeful.contract.carryover import Carryover, Counters
from wakeful.contract.errors import ReplayTooSlow, WakefulError
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.names import QUERY_CARRYOVER, QUERY_EVENTS, QUERY_TRANSCRIPT, WORKFLOW
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.views import EventsPage, TranscriptPage
from wakeful.history.reader import HistoryReader
from wakeful.loop.thread.continue_as_new import TAIL_BYTES
from wakeful_activities.restore import RESTORED_BYTES, RestoreActivity


def message(id: str, length: int) -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text="漢" * length),))


@workflow.defn(name=WORKFLOW, sandboxed=False)
class Closed:
    """A closed thread with 40 messages, this much mail and this many bytes of state; without state, it is broken."""

    @workflow.init
    def __init__(self, request: dict[str, Any]) -> None:
        self._state_bytes, self._mail = map(int, request["title"].split())

    @workflow.run
    async def run(self, _request: dict[str, Any]) -> None:
        pass

    @workflow.query(name=QUERY_TRANSCRIPT)
    def transcript(self, page: dict[str, int]) -> TranscriptPage:
        messages = tuple(message(f"m{number}", 10_000) for number in range(40))
        after = page["after"]
        return TranscriptPage(messages=messages[after : after + 10], next=after + 10 if after < 30 else None)

    @workflow.query(name=QUERY_EVENTS)
    def events(self, _page: dict[str, int]) -> EventsPage:
        return EventsPage(events=(), last=0, done=True)

    @workflow.query(name=QUERY_CARRYOVER)
    def carryover(self) -> Carryover:
        if not self._state_bytes:
            raise RuntimeError("not now")
        mail = tuple(message(f"k{number}", 100_000) for number in range(self._mail))
        return Carryover(counters=Counters(tasks=3), state={"notes": "x" * self._state_bytes}, mail=mail)


@workflow.defn(name=WORKFLOW, sandboxed=False)
class Slow(Closed):
    """The same on a machine on which a workflow task takes longer than the SDK allows."""

    @workflow.init
    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        threading.Event().wait(2.2)

    @workflow.run
    async def run(self, request: dict[str, Any]) -> None:
        await super().run(request)


@workflow.defn(name=WORKFLOW, sandboxed=False)
class SubAgent(Closed):
    """A sub-agent whose carryover an earlier release has written: it does not say what ancestors deny or ask about."""

    @workflow.init
    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)

    @workflow.run
    async def run(self, request: dict[str, Any]) -> None:
        await super().run(request)

    @workflow.query(name=QUERY_CARRYOVER)
    def carryover(self) -> Carryover:
        return Carryover(identity=RunIdentity(thread_id="t0/a", run_id="t0/a", agent_id="a", path=("t0",)))


DENY_PAY = {"tool": "pay", "behavior": "deny"}
OF_PARENT: Mapping[str, object] = {
    "parent_thread_id": "t0",
    "subagent": {"path": ["t0"], "work_id": "delegate-1-1"},
    "permissions": [DENY_PAY, {"tool": "look", "behavior": "allow"}],
}


async def restore(
    temporal: Client,
    *,
    state_bytes: int,
    mail: int = 0,
    replayed: type[Closed] = Closed,
    requested: Mapping[str, object] = {},
) -> TranscriptTail:
    queue = id = f"restoring-{uuid.uuid4().hex}"
    async with Worker(temporal, task_queue=queue, workflows=[replayed if replayed is not Slow else Closed]):
        request = {"agent_id": "a", "input": "hello", "title": f"{state_bytes} {mail}", **requested}
        closed = await temporal.start_workflow(WORKFLOW, request, id=id, task_queue=queue)
        await closed.result()
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, workflow_id=id)
        assert closed.result_run_id is not None
        input = RestoreInput(run_id=closed.result_run_id)
        return await environment.run(
            RestoreActivity(temporal, HistoryReader(temporal, workflows=[replayed])).restore_thread, input
        )


async def test_the_newest_messages_are_restored_up_to_a_limit(temporal: Client) -> None:
    tail = await restore(temporal, state_bytes=1)
    assert tail.length + len(tail.messages) == 40
    assert TAIL_BYTES - 31_000 < sum(map(json_bytes, tail.messages)) <= TAIL_BYTES


async def test_a_carryover_that_cannot_be_queried_now_is_not_taken_for_an_empty_one(temporal: Client) -> None:
    with pytest.raises(WakefulError, match="not now"):
        await restore(temporal, state_bytes=0)


async def test_a_thread_does_not_lose_its_state_because_a_worker_is_busy(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK fails a workflow task that takes more than two seconds: Temporal repeats the activity."""
    monkeypatch.setattr("wakeful.history.read_only_replayer.REPLAYS", 1)
    with pytest.raises(ReplayTooSlow, match="Potential deadlock detected"):
        await restore(temporal, state_bytes=1, replayed=Slow)


async def test_a_sub_agent_that_an_earlier_release_closed_has_its_ancestors_rules_of_its_request(
    temporal: Client,
) -> None:
    """B-513"""
    tail = await restore(temporal, state_bytes=1, replayed=SubAgent, requested=OF_PARENT)
    assert tail.carryover is not None
    assert tail.carryover.authority == (Rule.model_validate(DENY_PAY),)


async def test_everything_that_is_restored_fits_and_the_conversation_gives_way(temporal: Client) -> None:
    tail = await restore(temporal, state_bytes=600_000, mail=4)
    assert tail.carryover is not None
    assert (tail.carryover.counters.tasks, [each.id for each in tail.carryover.mail]) == (3, ["k0", "k1"])
    assert json_bytes(tail) < RESTORED_BYTES
    assert 0 < len(tail.messages) < 10
    assert tail.length + len(tail.messages) == 40
