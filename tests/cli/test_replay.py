"""`wakeful replay`: histories that replay, those that break and where, and what could not be read."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client as TemporalClient
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter

from tests.replay.record import HISTORIES
from tests.support.app import registry
from tests.support.namespaces import empty_namespace
from tests.support.processes import Ran, wakeful
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunResult, RunStatus
from wakeful.cli.terminal.replay_lines import replayed_lines
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.history.replay import Break, HistoryReplayer, Replayed, file_source
from wakeful.worker import running_worker
from wakeful_workflows import AgentRun
from wakeful_workflows.agent_run import NO_REQUEST

RECORDED = HISTORIES / "one_tool_call.json"


def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())["events"]
    return events


def scheduled(activity: str) -> list[dict[str, Any]]:
    """The events of the recorded history that schedule such an activity."""
    key = "activityTaskScheduledEventAttributes"
    events = [event for event in events_of(RECORDED) if key in event]
    return [event for event in events if event[key]["activityType"]["name"] == activity]


def rewritten(tmp_path: Path, was: str, becomes: str, *, story: str = "one_tool_call") -> Path:
    """A recorded history, as if the code that recorded it had been another."""
    text = (HISTORIES / f"{story}.json").read_text()
    assert was in text
    path = tmp_path / "history.json"
    path.write_text(text.replace(was, becomes))
    return path


async def broken(path: Path, *workflows: type) -> Break:
    replaying = HistoryReplayer(pydantic_data_converter, workflows=workflows or (AgentRun,))
    replayed = await replaying.one(file_source(path))
    assert (replayed.outcome, replayed.workflow_id) == ("broken", "one_tool_call")
    assert replayed.broke is not None
    return replayed.broke


async def test_a_directory_of_histories_replays(tmp_path: Path) -> None:
    for path in sorted(HISTORIES.glob("*.json"))[:3]:
        shutil.copy(path, tmp_path)
    ran = await wakeful("replay", "--dir", str(tmp_path), "--json")
    assert ran.code == 0, ran.err
    replayed = [Replayed.model_validate_json(line) for line in ran.out.splitlines()]
    assert [each.source for each in replayed] == [str(path) for path in sorted(tmp_path.glob("*.json"))]
    assert [each.outcome for each in replayed] == ["ok"] * 3
    assert ran.err.splitlines()[-1] == "3 histories: 3 replay"


async def test_a_renamed_activity_is_named_with_its_event(tmp_path: Path) -> None:
    path = rewritten(tmp_path, '"name":"infer"', '"name":"think"')
    ran = await wakeful("replay", "--file", str(path), "--file", str(RECORDED))
    assert ran.code == 1
    events, event_id = len(events_of(RECORDED)), scheduled("infer")[0]["eventId"]
    assert ran.out.splitlines() == [
        f"✗ {path}  AgentRun, {events} events: breaks at event {event_id}, ActivityTaskScheduled",
        "    history  activity 'think', id 'infer-1'",
        "    code     activity type 'infer'",
        "    [TMPRL1100] Nondeterminism error: Activity type of scheduled event 'think' does not match activity type"
        " of activity command 'infer'",
        "    wake     continues with the conversation only, unless a worker of the release that ran it answers",
        f"✓ {RECORDED}  AgentRun, {events} events, closed: a wake needs nothing",
    ]
    assert ran.err.splitlines()[-1] == "2 histories: 1 replay, 1 broken"


async def test_a_thread_that_archived_everything_when_it_closed_needs_no_replay_to_wake(tmp_path: Path) -> None:
    path = rewritten(tmp_path, '"name":"infer"', '"name":"think"', story="closed_while_idle")
    ran = await wakeful("replay", "--file", str(path))
    assert (ran.code, ran.out.splitlines()[-1]) == (
        1,
        "    wake     needs nothing: the thread archived its conversation and state when it closed",
    )


async def test_an_event_that_the_sdk_does_not_name_is_found_however_late_it_is(tmp_path: Path) -> None:
    """The first activity of that name is a good one."""
    last = scheduled("infer")[-1]["eventId"]
    events = events_of(RECORDED)
    changed = next(event for event in events if event["eventId"] == last)
    changed["activityTaskScheduledEventAttributes"]["activityId"] = "infer-1"
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"events": events}))
    broke = await broken(path)
    assert (broke.event_id, broke.event_type) == (int(last), "ActivityTaskScheduled")
    assert (broke.history, broke.code) == ("activity 'infer', id 'infer-1'", "activity id 'infer-2'")


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Sleepy(AgentRun):
    """Sleeps first, which no history has."""

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        await workflow.sleep(3)
        return await super().run(request)


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Idle:
    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> None:
        await workflow.wait_condition(lambda: False)


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Hasty:
    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> None:
        return


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Faulty:
    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> None:
        raise ValueError('no "such" thing')


@pytest.mark.parametrize(
    ("code", "does"), [(Sleepy, "starts a timer"), (Idle, "nothing of the kind"), (Hasty, "ends the run")]
)
async def test_workflow_code_that_does_something_else_is_named_with_the_event(code: type, does: str) -> None:
    broke = await broken(RECORDED, code)
    assert (broke.event_id, broke.event_type) == (5, "ActivityTaskScheduled")
    assert (broke.history, broke.code) == ("activity 'resolve_agent', id 'resolve-1'", does)
    assert broke.message.startswith("[TMPRL1100] Nondeterminism error: ")


async def test_workflow_code_that_raises_is_named_with_its_line() -> None:
    broke = await broken(RECORDED, Faulty)
    assert (broke.event_id, broke.event_type) == (4, "WorkflowTaskCompleted")
    assert broke.code.startswith(f'raises ValueError: no "such" thing ({__file__}, line ')
    assert broke.message == 'no "such" thing'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read: No such file or directory"),
        ("oops", "is not a history: it is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"spans": []}', 'is not a history: it must be {"events": […]}, as Temporal writes it'),
        ('{"events": ["start"]}', 'is not a history: it must be {"events": […]}, as Temporal writes it'),
        ('{"events": []}', "is not a history: there are no events"),
    ],
)
async def test_a_file_without_a_history_is_not_a_broken_history(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "history.json"
    if text is not None:
        path.write_text(text)
    ran = await wakeful("replay", "--file", str(path))
    assert (ran.code, ran.out) == (2, f"? {path}: {says}\n")
    assert ran.err.splitlines()[-1] == "1 history: 1 could not be read"


async def test_a_part_of_a_history_is_not_replayed(tmp_path: Path) -> None:
    """The SDK would panic, or wait for ever."""
    events = events_of(RECORDED)
    parts = {
        "event 6 is missing": events[:5] + events[6:],
        "its first event is not the start of a workflow": events[3:],
    }
    for says, part in parts.items():
        path = tmp_path / "part.json"
        path.write_text(json.dumps({"events": part}))
        replayed = await HistoryReplayer(pydantic_data_converter).one(file_source(path))
        assert (replayed.outcome, replayed.unread) == ("unread", f"is not a whole history: {says}")


async def test_another_workflows_history_is_not_replayed(tmp_path: Path) -> None:
    path = rewritten(tmp_path, '"name":"AgentRun"', '"name":"Order"')
    replayed = await HistoryReplayer(pydantic_data_converter).one(file_source(path))
    ours = "AgentRun, ToolTask, ThreadArchive, ScheduledMessage, A2aPush"
    assert replayed.unread == f"is a history of the workflow 'Order'; replayed are {ours}"


async def test_a_run_that_no_worker_has_picked_up_replays(tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    path.write_text(json.dumps({"events": events_of(RECORDED)[:2]}))
    replayed = await HistoryReplayer(pydantic_data_converter).one(file_source(path))
    assert replayed_lines(replayed) == [f"✓ {path}  AgentRun, 2 events"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--file", "x.json", "--limit", "3"], "--limit: it limits what --open, --closed or --query find"),
        (["--file", "x.json", "--download", "d"], "--download: nothing is fetched: only files are named"),
        (["--dir", "nowhere"], "--dir: there is no .json file in 'nowhere'"),
        (["--address", "127.0.0.1:1"], "wakeful: cannot reach Temporal at 127.0.0.1:1"),
    ],
)
async def test_a_call_that_is_wrong_exits_with_2(args: list[str], says: str) -> None:
    ran = await wakeful("replay", *args)
    assert (ran.code, ran.out, says in ran.err) == (2, "", True), ran.err


async def test_the_command_has_help() -> None:
    assert (await wakeful("replay", "--help")).code == 0


@pytest.fixture
async def sleeping(temporal: TemporalClient) -> Client:
    """A namespace with two open runs that wait for a decision, and one that has ended; its worker has stopped."""
    client = Client(await empty_namespace(temporal))
    async with running_worker(client.temporal, registry):
        for thread in ("one", "two"):
            await client.start("tester", "approve", thread_id=thread)
            await until_status(client, thread, RunStatus.WAITING)
        await client.run("tester", "add", thread_id="ended")
    async with asyncio.timeout(BOUND_SECONDS):  # lists lag behind
        while [await counted(client, status) for status in ("Running", "Completed")] != [2, 1]:
            await asyncio.sleep(0.1)
    return client


async def counted(client: Client, status: str) -> int:
    return (await client.temporal.count_workflows(f"ExecutionStatus = '{status}'")).count


async def replay(client: Client, *args: str) -> Ran:
    where = ["--namespace", client.temporal.namespace]
    return await wakeful("replay", *args, *where, address=client.temporal.service_client.config.target_host)


def threads(ran: Ran) -> list[str]:
    return [line.split()[1] for line in ran.out.splitlines() if line.startswith("✓")]


@pytest.mark.integration
async def test_open_runs_replay_and_are_saved_for_where_there_is_no_server(sleeping: Client, tmp_path: Path) -> None:
    ran = await replay(sleeping, "--download", str(tmp_path / "saved"))
    assert (ran.code, sorted(threads(ran))) == (0, ["one", "two"]), ran.err
    again = await wakeful("replay", "--dir", str(tmp_path / "saved"), "--json")
    assert again.code == 0, again.err
    replayed = [Replayed.model_validate_json(line) for line in again.out.splitlines()]
    assert [each.workflow_id for each in replayed] == ["one", "two"]
    assert [len(list((tmp_path / "saved").glob(f"{each.workflow_id}.{each.run_id}.json"))) for each in replayed] == [
        1,
        1,
    ]


@pytest.mark.integration
async def test_threads_queries_and_limits_choose_what_is_replayed(sleeping: Client) -> None:
    assert threads(await replay(sleeping, "ended")) == ["ended"]
    assert sorted(threads(await replay(sleeping, "ended", "one", "--open"))) == ["ended", "one", "two"]
    assert threads(await replay(sleeping, "--query", "WorkflowId = 'two' OR WorkflowId = 'three'")) == ["two"]
    assert threads(await replay(sleeping, "--open", "--query", "WorkflowId = 'ended'")) == []
    assert len(threads(await replay(sleeping, "--limit", "1"))) == 1
    closed = await replay(sleeping, "--closed", "1")
    assert (closed.code, threads(closed)) == (0, ["ended"]), closed.err
    assert closed.out.endswith("closed: a wake needs nothing\n")
    assert threads(await replay(sleeping, "--closed", "0")) == []
    assert sorted(threads(await replay(sleeping, "--open", "--closed", "1"))) == ["ended", "one", "two"]


async def test_an_unknown_thread_and_a_bad_query_are_clear_and_exit_with_2(sleeping: Client) -> None:
    unknown = await replay(sleeping, "nowhere", "one")
    assert (unknown.code, unknown.out.splitlines()[0]) == (2, "? nowhere: no thread 'nowhere' in this namespace")
    assert threads(unknown) == ["one"]
    bad = await replay(sleeping, "--query", "colour is red")
    assert (bad.code, bad.out) == (2, "")
    assert bad.err.startswith("wakeful: Temporal refused the query '(colour is red)': ")
