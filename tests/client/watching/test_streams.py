"""What a live watcher shows of an answer, and of a tool, before it is in history."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.models import continuing
from tests.support.fake_provider.script import Answer, Call, Hold, Reset
from tests.support.fake_provider.server import FakeProvider
from tests.support.folding import Answered, Folding, folded
from tests.support.processes import kill, worker_process
from tests.support.provider_app import DIGGING, PORT, registry_for
from tests.support.watched import Watched
from wakeful.client.client import Client
from wakeful.client.watching.live import REWRITTEN
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.events import ActivityDelta, ActivitySnapshot, EventRecord, ToolCallDelta, ToolCallStreamDelta
from wakeful.worker import WorkerSettings, running_worker

TEXT = "".join(f"token{number} " for number in range(40))


async def durable(client: Client, thread_id: str) -> list[EventRecord]:
    return [record async for record in client.watch(thread_id)]


async def check(client: Client, thread_id: str, records: list[EventRecord]) -> Folding:
    """A live watcher ends with what a later reader gets, and gets nothing twice."""
    fold, stored = folded(records), await durable(client, thread_id)
    assert fold.answers == folded(stored).answers
    assert records[-1] == stored[-1]
    seqs = [record.seq for record in records if not record.provisional]
    assert seqs == sorted(set(seqs))
    deltas = {"text_delta", "reasoning_delta", "tool_call_start", "tool_call_delta"}
    assert [record for record in stored if record.event.event_type not in deltas] == [
        record for record in fold.durable if record.event.event_type not in deltas
    ]
    return fold


@pytest.mark.parametrize("live", [True, False])
async def test_text_is_shown_before_an_answer_is_complete_whether_its_sender_watches_or_not(
    client: Client, provider: FakeProvider, thread_id: str, live: bool
) -> None:
    rest = asyncio.Event()
    provider.will(Answer(TEXT, reasoning="Let me think.", faults=(Hold(20, rest),)))
    await client.start("chat", "go", thread_id=thread_id, live=live)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        early = await watched.until_type("text_delta", provisional=True)
        assert (early.seq, early.thread_id, early.agent_id) == (3, thread_id, "chat")
        assert (await client.events(thread_id)).last == 3
        rest.set()
        fold = await check(client, thread_id, await watched.to_the_end())
    assert (fold.answers, fold.resets) == ([Answered("Let me think.", TEXT)], [])


def _arguments(records: list[EventRecord]) -> str:
    return "".join(record.event.args_delta for record in records if isinstance(record.event, ToolCallDelta))


async def test_the_arguments_of_a_call_are_shown_while_the_model_writes_them(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    rest = asyncio.Event()
    call = Call("c1", "add", '{"a": 1234,   "b": 5678}')
    provider.will(Answer(calls=(call,), chunk=2, faults=(Hold(8, rest),)), Answer("Done."))
    await client.start("chat", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        await watched.until_type("tool_call_start", provisional=True)
        await watched.until(lambda _: _arguments(watched.records) == '{"a":')  # a slow machine shows it in parts
        rest.set()
        fold = await check(client, thread_id, await watched.to_the_end())
    assert fold.resets == []
    assert fold.answers == [Answered(calls=(("1-1", "add", '{"a":1234,"b":5678}'),)), Answered(text="Done.")]


async def test_calls_to_which_a_provider_gives_the_same_id_have_different_ones_from_the_start(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    rest = asyncio.Event()
    call = Call("c1", "add", '{"a": 1, "b": 2}')
    held = Answer("Again.", calls=(call,), chunk=4, faults=(Hold("content", rest),))
    provider.will(Answer(calls=(call,)), held, Answer("Done."))
    await client.start("chat", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        await watched.until_type("tool_call_start", provisional=True)
        rest.set()
        fold = await check(client, thread_id, await watched.to_the_end())
    assert fold.resets == []
    assert [answer.calls[0][0] for answer in fold.answers[:2]] == ["1-1", "2-1"]
    assert fold.answers[1] == Answered("", "Again.", (("2-1", "add", '{"a":1,"b":2}'),))


async def test_what_a_retry_discards_is_reset(client: Client, provider: FakeProvider, thread_id: str) -> None:
    """Reasoning without text: a model cannot continue from it."""
    rest = asyncio.Event()
    broken = Answer("Never.", reasoning="In vain, all of it.", faults=(Hold(2, rest), Reset(2)))
    provider.will(broken, Answer("Said.", reasoning="Now for good.", chunk=3, pause=0.1))
    await client.start("chat", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        await watched.until_type("reasoning_delta", provisional=True)
        rest.set()
        fold = await check(client, thread_id, await watched.to_the_end())
    assert fold.answers == [Answered("Now for good.", "Said.")]
    assert "connection reset" in fold.resets


async def test_an_answer_that_a_hook_rewrites_is_reset(client: Client, provider: FakeProvider, thread_id: str) -> None:
    rest = asyncio.Event()
    provider.will(Answer(TEXT, faults=(Hold(20, rest),)))
    await client.start("rewritten", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        await watched.until_type("text_delta", provisional=True)
        rest.set()
        fold = await check(client, thread_id, await watched.to_the_end())
    assert (fold.answers, fold.resets) == ([Answered(text="Rewritten.")], [REWRITTEN])


async def test_an_answer_that_is_cancelled_ends_with_the_part_that_is_recorded(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer(TEXT, faults=(Hold(20, asyncio.Event()),)))
    await client.start("chat", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        await watched.until_type("text_delta", provisional=True)
        await client.cancel(thread_id)
        await check(client, thread_id, await watched.to_the_end())


def progress_of(record: EventRecord) -> dict[str, Any]:
    assert isinstance(record.event, ActivitySnapshot)
    assert isinstance(record.event.content, dict)
    return record.event.content


async def test_the_progress_of_a_tool_is_shown_while_it_runs(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    """B-241, B-242: and its output and its activities; nothing of it is in history."""
    calls = (Call("c1", "dig", '{"depth": 2}'),)
    provider.will(Answer(calls=calls), Answer("Done."))
    await client.start("digger", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        for metre in ("metre 1", "metre 2"):
            await watched.until(partial(_says, metre))
            DIGGING.seen()
        records = await watched.to_the_end()
        await check(client, thread_id, records)
    live = [record for record in records if isinstance(record.event, LIVE)]
    shown = [progress_of(record) for record in live if is_progress(record)]
    assert [(each["tool_name"], each["call_id"], each["progress"], each["status"]) for each in shown] == [
        ("dig", "1-1", 0.5, "running"),
        ("dig", "1-1", 1.0, "running"),
        ("dig", "1-1", 1.0, "done"),
    ]
    assert [record.event for record in live if not is_progress(record)] == [
        ToolCallStreamDelta(id="1-1", name="dig", delta="metre 1 "),
        ActivitySnapshot(message_id="1-1", activity_type="hole", content={"depth": 1}, replace=True),
        ToolCallStreamDelta(id="1-1", name="dig", delta="metre 2 "),
        ActivityDelta(message_id="1-1", activity_type="hole", patch=({"op": "replace", "path": "/depth", "value": 2},)),
    ]
    assert {record.provisional for record in live} == {True}
    assert "hole" not in (await client.handle(thread_id).fetch_history()).to_json()


LIVE = (ActivitySnapshot, ActivityDelta, ToolCallStreamDelta)


def is_progress(record: EventRecord) -> bool:
    return isinstance(record.event, ActivitySnapshot) and record.event.activity_type == "tool-call-progress"


def _says(message: str, record: EventRecord) -> bool:
    return is_progress(record) and progress_of(record).get("message") == message


async def test_a_tool_in_a_thread_reports_progress_too(client: Client, provider: FakeProvider, thread_id: str) -> None:
    provider.will(Answer(calls=(Call("c1", "dig_in_a_thread", '{"depth": 1}'),)), Answer("Done."))
    await client.start("digger", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        await watched.until(partial(_says, "digging"))
        DIGGING.seen()
        await watched.to_the_end()


async def test_a_watcher_that_reconnects_after_every_record_gets_the_whole_answer_once(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    calls = (Call("c1", "add", '{"a": 1, "b": 2}'), Call("c2", "add", '{"a": 3, "b": 4}'))
    slow = Answer(TEXT, reasoning="Slowly. " * 6, chunk=6, pause=0.02)
    provider.will(replace(slow, calls=calls), Answer(TEXT, chunk=6, pause=0.02))
    await client.start("chat", "go", thread_id=thread_id, live=True)
    folding, is_over = Folding(), False
    while not is_over:
        is_over, folding_before = True, folding.after
        async for record in client.watch(thread_id, after=folding.after, live=True):
            folding.take(record)
            is_over = record.event.event_type == "run_finish"
            if record.provisional or record.seq % 3 == 0:
                break
        folding.reconnecting()
        assert folding.after >= folding_before
    assert folding.answers == folded(await durable(client, thread_id)).answers


async def test_a_run_that_continues_as_new_folds_live_to_what_is_recorded(
    temporal: TemporalClient, provider: FakeProvider, thread_id: str
) -> None:
    calls = [Answer(TEXT, calls=(Call(f"c{n}", "add", '{"a": 1, "b": 2}'),), pause=0.01) for n in range(4)]
    provider.will(*calls, Answer(TEXT, reasoning="Done with it.", pause=0.01))
    client = Client(temporal, task_queue=thread_id)
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=20))
    async with running_worker(temporal, registry_for(provider.port), settings):
        await client.start("chat", "go", thread_id=thread_id, live=True)
        async with Watched(client.watch(thread_id)) as plain, Watched(client.watch(thread_id, live=True)) as live:
            fold = await check(client, thread_id, await live.to_the_end())
            assert await plain.to_the_end() == await durable(client, thread_id)
        executions = [each async for each in temporal.list_workflows(f"WorkflowId = '{thread_id}'")]
    assert len(executions) >= 3
    assert fold.resets == []
    assert any(record.provisional for record in live.records)


@pytest.mark.faults
async def test_an_answer_whose_worker_is_killed_continues(
    temporal: TemporalClient, provider: FakeProvider, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORT, str(provider.port))
    provider.always(continuing(Answer(TEXT * 4, chunk=8, pause=0.02)))
    client = Client(temporal, task_queue=thread_id)
    address, journal = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    app = "tests.support.provider_app:registry"
    await client.start("chat", "go", thread_id=thread_id, live=True)
    async with Watched(client.watch(thread_id, live=True)) as watched:
        async with worker_process(address, thread_id, journal, app=app) as first:
            await watched.until_type("text_delta", provisional=True)
            await kill(first)
        async with worker_process(address, thread_id, journal, app=app):
            fold = await check(client, thread_id, await watched.to_the_end())
    assert [answer.text for answer in fold.answers] == [TEXT * 4]
