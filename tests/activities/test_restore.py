"""Reading a closed execution of a thread: what it said and what it kept, in one piece that fits."""

import asyncio
import uuid
from dataclasses import replace

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker
from wakeful.loop.thread.carryover import json_bytes

from wakeful.contract.carryover import Carryover
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.names import QUERY_CARRYOVER, QUERY_TRANSCRIPT
from wakeful.contract.views import TranscriptPage
from wakeful.loop.thread.continue_as_new import TAIL_BYTES
from wakeful_activities.restore import RESTORED_BYTES, RestoreActivity


def message(id: str, length: int) -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text="漢" * length),))


class _Ended:
    """An execution that has ended with the conversation of an older worker."""

    @workflow.query(name=QUERY_TRANSCRIPT)
    def transcript(self, page: dict[str, int]) -> TranscriptPage:
        messages = tuple(message(f"m{number}", 10_000) for number in range(40))
        after = page["after"]
        return TranscriptPage(messages=messages[after : after + 10], next=after + 10 if after < 30 else None)


@workflow.defn(name="Old", sandboxed=False)
class Old(_Ended):
    @workflow.run
    async def run(self, length: int) -> None:
        pass


@workflow.defn(name="Keeping", sandboxed=False)
class Keeping(_Ended):
    """Keeps a state of that many bytes, and more mail than anybody could hand on; without any, it is broken."""

    @workflow.init
    def __init__(self, length: int) -> None:
        self._length = length

    @workflow.run
    async def run(self, length: int) -> None:
        pass

    @workflow.query(name=QUERY_CARRYOVER)
    def carryover(self) -> Carryover:
        if not self._length:
            raise RuntimeError("not now")
        mail = tuple(message(f"k{number}", 100_000) for number in range(4))
        return Carryover(spawned=3, state={"notes": "x" * self._length}, mail=mail)


async def read_back(temporal: Client, kind: str, length: int) -> TranscriptTail:
    queue = id = f"restoring-{uuid.uuid4().hex}"
    async with Worker(temporal, task_queue=queue, workflows=[Old, Keeping]):
        ended = await temporal.start_workflow(kind, length, id=id, task_queue=queue)
        await ended.result()
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, workflow_id=id)
        assert ended.result_run_id is not None
        return await environment.run(RestoreActivity(temporal).restore_thread, RestoreInput(run_id=ended.result_run_id))


async def test_of_a_worker_that_does_not_know_the_question_only_the_conversation_is_read(temporal: Client) -> None:
    tail = await read_back(temporal, "Old", 0)
    assert (tail.length + len(tail.messages), tail.carryover) == (40, None)
    assert sum(len(each.model_dump_json()) for each in tail.messages) > TAIL_BYTES - 11_000


async def test_what_cannot_be_told_for_now_is_not_taken_for_nothing(temporal: Client) -> None:
    with pytest.raises(WorkflowQueryFailedError, match="not now"):
        await read_back(temporal, "Keeping", 0)


async def test_all_that_is_read_back_fits_and_the_conversation_gives_way(temporal: Client) -> None:
    tail = await read_back(temporal, "Keeping", 600_000)
    assert tail.carryover is not None
    assert (tail.carryover.spawned, [each.id for each in tail.carryover.mail]) == (3, ["k0", "k1"])
    assert json_bytes(tail) < RESTORED_BYTES
    assert 0 < len(tail.messages) < 10
    assert tail.length + len(tail.messages) == 40


async def test_a_worker_that_stops_leaves_the_reading_to_another(temporal: Client, thread_id: str) -> None:
    """Nobody else may be there to answer: it would wait for itself until it is stopped by force."""
    handle = await temporal.start_workflow("Old", 0, id=thread_id, task_queue=f"{thread_id}-nobody")
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_id=thread_id)
    reading = asyncio.create_task(
        environment.run(
            RestoreActivity(temporal).restore_thread, RestoreInput(run_id=handle.first_execution_run_id or "")
        )
    )
    await asyncio.sleep(0)
    environment.worker_shutdown()
    with pytest.raises(ApplicationError, match="the worker stops") as stopped:
        await reading
    assert not stopped.value.non_retryable
    await handle.terminate()
