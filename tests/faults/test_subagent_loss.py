"""Trees of agents, and threads that send each other messages, on a worker that is killed with -9 again and again.

WAKEFUL_FAULT_KILLS=5 make faults is a short run.
"""

import asyncio
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecution
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.faults.subagent_worker import BOUND_SECONDS, KilledWorker
from tests.support.journal import Journal
from tests.support.subagent_app import Plan, delegate, events_in, plan, send, spawn, written
from tests.support.subagents import answer_of, calls_in, ends_in_tree, until_closed
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.messages import Message
from wakeful.contract.runs import RunStatus, ThreadMode
from wakeful_workflows import AgentRun, ThreadArchive, ToolTask

KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "20"))
FEW_KILLS = min(KILLS, 5)
MESSAGES = 50
MAIL = re.compile(r"<agent-message [^>]*>\n(.*)\n</agent-message>")
PARENT: dict[str, Any] = {"relation": "parent"}
CONTINUING = pytest.mark.parametrize("events", [2000, 1], ids=["usual", "restless"])


def busy(who: str, turns: int) -> list[list[tuple[str, dict[str, Any]]]]:
    return [[("work", {"what": f"{who} {turn}", "seconds": 0.4})] for turn in range(turns)]


def dig(where: str) -> tuple[str, dict[str, Any]]:
    return "dig", {"where": where, "seconds": 0.5}


def to_child(name: str, text: str) -> tuple[str, dict[str, Any]]:
    return send({"relation": "child", "name": name}, text)


def tree(turns: int) -> Plan:
    """Three levels with every kind of child. An agent that gets mail keeps working until it has read all of it."""
    grandchild = plan(*busy("grandchild", turns), [send(PARENT, "grandchild to alpha")], say="grandchild")
    alpha = plan(
        [send(PARENT, "alpha to root, first")],
        *busy("alpha", turns),
        [spawn(grandchild, name="grandchild"), dig("attic")],
        [to_child("grandchild", "alpha to grandchild")],
        *busy("alpha again", turns),
        [send(PARENT, "alpha to root, second")],
        say="alpha",
        mail=3,
    )
    grandchild["mail"] = 1
    beta = plan([dig("cellar"), dig("well")], *busy("beta", turns), [dig("garden")], say="beta", mail=1)
    gamma = plan(*busy("gamma", turns), [delegate(plan(*busy("gamma child", turns), say="gamma child"))], say="gamma")
    delta = plan([send(PARENT, "delta to root")], [spawn(plan(*busy("delta child", turns)))], say="delta")
    return plan(
        [spawn(alpha, name="alpha"), spawn(beta, name="beta"), dig("yard")],
        [to_child("alpha", "root to alpha, first"), to_child("beta", "root to beta")],
        *busy("root", turns),
        [delegate(gamma), delegate(delta), dig("field")],
        [to_child("alpha", "root to alpha, second")],
        *busy("root again", turns),
        say="root",
        mail=3,
    )


def mail_in(messages: list[Message]) -> list[str]:
    """The messages of other agents, in the order in which the model read them."""
    found = []
    for message in messages:
        if mail := MAIL.search(message.text):
            found.append(mail.group(1))
        found += [str(event["payload"]["content"]) for event in _events([message]) if _is_mail(event)]
    return found


def _is_mail(event: dict[str, Any]) -> bool:
    return event.get("event_type") == "agent_message"


def _events(messages: list[Message]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in events_in(messages)]


def sent_in(plan: Plan) -> Iterator[str]:
    for turn in plan["turns"]:
        for tool, arguments in turn:
            if tool == "send_message":
                yield arguments["message"]
            if "plan" in arguments:
                yield from sent_in(arguments["plan"])


def comparable(answer: JsonValue) -> JsonValue:
    """The answer without what depends on timing and kills.

    How many steps a sub-agent takes depends on when its mail arrives; a tool that is retried emits its events again.
    """
    match answer:
        case dict():
            return {name: comparable(value) for name, value in answer.items() if name != "steps"}
        case list():
            values = [comparable(value) for value in answer]
            return [value for n, value in enumerate(values) if not (_is_emitted(value) and value in values[:n])]
        case _:
            return answer


def _is_emitted(value: JsonValue) -> bool:
    return isinstance(value, dict) and value.get("kind") == "custom" and not _is_mail(value)


async def executions_of(client: Client, query: str) -> list[WorkflowExecution]:
    return [execution async for execution in client.temporal.list_workflows(query)]


async def replay_all(client: Client, query: str) -> str:
    """Check that every execution replays and that workflow tasks failed only for known reasons; returns how often."""
    replayer = Replayer(workflows=[AgentRun, ToolTask, ThreadArchive], data_converter=pydantic_data_converter)
    retried: Counter[str] = Counter()
    for execution in await executions_of(client, query):
        history = await client.temporal.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        await replayer.replay_workflow(history)
        for event in history.events:
            if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                continue
            failed = event.workflow_task_failed_event_attributes
            # A signal arrived while the task completed its execution: the server has the workflow handle it first.
            is_late = failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
            assert is_late or "a query made this run" in failed.failure.message
            retried["late signal" if is_late else "query"] += 1
    return f"workflow tasks retried: {dict(retried)}"


async def check_once(client: Client, root: str, plans: Plan, *, is_killed: bool) -> None:
    """I-09, I-11: the models have read every message, every emitted event and every end of a task once."""
    messages: list[str] = []
    for thread in [id for id, end in (await ends_in_tree(client, root)).items() if end == "natural"]:
        transcript, view = await client.transcript(thread), await client.status(thread)
        messages += [*mail_in(transcript), *(each.message.content for each in view.undelivered)]
        assert Counter(message.id for message in transcript).most_common(1)[0][1] == 1
        ends = Counter(event["task_id"] for event in _events(transcript) if event["kind"] != "custom")
        assert ends == {task.task_id: 1 for task in view.tasks}
        emitted = emitted_in(transcript)
        assert emitted.keys() == {task.task_id for task in view.tasks if task.agent_id is None}
        for attempts in emitted.values():
            assert len(attempts) == 1 or is_killed
            assert attempts[-1] == ["started", "half"]
            assert all(attempt in (["started"], ["started", "half"]) for attempt in attempts)
    assert sorted(messages) == sorted(sent_in(plans))


def emitted_in(messages: list[Message]) -> dict[str, list[list[str]]]:
    """The types of the events that each task has emitted, in order, for each attempt of its tool."""
    emitted: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for message in messages:
        for event in filter(_is_emitted, _events([message])):
            emitter, _, _number = message.id.rpartition(":")
            emitted[event["task_id"]][emitter].append(event["event_type"])
    return {task_id: list(attempts.values()) for task_id, attempts in emitted.items()}


@pytest.mark.faults
@CONTINUING
async def test_a_tree_has_the_same_result_however_often_its_worker_is_killed(
    temporal: TemporalClient, tmp_path: Path, events: int
) -> None:
    """I-09, I-10, I-11"""
    queue, journal = f"tree-{events}", Journal(tmp_path / "journal.jsonl")
    undisturbed, killed = f"{queue}-undisturbed", f"{queue}-killed"
    client, plans = Client(temporal, task_queue=queue), tree(turns=max(2, KILLS // 3))
    work = list(calls_in(plans)).count("work")
    async with KilledWorker(temporal, queue, journal, events=events) as worker:
        began = time.monotonic()
        expected = await client.run("node", written(plans), thread_id=undisturbed)
        usual = time.monotonic() - began
        await client.start("node", written(plans), thread_id=killed)
        await worker.kill_during(work, kills=KILLS)
        async with asyncio.timeout(BOUND_SECONDS):
            result = await client.result(killed)
        await until_closed(client, killed)
        for root in (undisturbed, killed):
            assert set((await ends_in_tree(client, root)).values()) == {"natural", "completed"}
            await check_once(client, root, plans, is_killed=root == killed)
    repeated = sum(line["attempt"] > 1 for line in journal.lines("work"))
    retried = await replay_all(client, f"RootWorkflowId = '{killed}'")
    print(
        f"{KILLS} kills, {time.monotonic() - began - usual:.0f} s instead of {usual:.0f} s; "
        f"{repeated} of {2 * work} calls were retried, {retried}"
    )
    assert comparable(answer_of(result)) == comparable(answer_of(expected))


@pytest.mark.faults
@CONTINUING
async def test_two_threads_send_each_other_messages_while_their_worker_is_killed(
    temporal: TemporalClient, tmp_path: Path, events: int
) -> None:
    """I-11: no message is lost or duplicated, and each thread reads them in the order in which they were sent."""
    queue, journal = f"mail-{events}", Journal(tmp_path / "journal.jsonl")
    client = Client(temporal, task_queue=queue)
    pair, turns = (f"{queue}-one", f"{queue}-two"), MESSAGES // 2

    def plan_for(me: str, other: str) -> str:
        to: dict[str, JsonValue] = {"relation": "agent", "thread_id": other}
        texts = [f"{me} {number}" for number in range(MESSAGES)]
        pause = ("work", {"what": me, "seconds": 0.2})
        steps = [[send(to, texts[2 * n]), send(to, texts[2 * n + 1]), pause] for n in range(turns)]
        return written(plan(*steps, mail=MESSAGES))

    for me, other in (pair, pair[::-1]):
        await client.start("node", plan_for(me, other), thread_id=me, mode=ThreadMode.THREAD)
    async with KilledWorker(temporal, queue, journal, events=events) as worker:
        await worker.kill_during(2 * turns, kills=FEW_KILLS)
        for me, other in (pair, pair[::-1]):
            async with asyncio.timeout(BOUND_SECONDS):
                while (await client.status(me)).status is not RunStatus.DONE:
                    await asyncio.sleep(0.2)
            assert mail_in(await client.transcript(me)) == [f"{other} {number}" for number in range(MESSAGES)]
            view = await client.status(me)
            assert (view.undelivered, view.refusals) == ((), ())
            await client.close(me)
            await client.result(me)
    retried = await replay_all(client, f"WorkflowId STARTS_WITH '{queue}-'")
    print(f"{MESSAGES} messages each way, {FEW_KILLS} kills, {retried}")


@pytest.mark.faults
async def test_a_parent_that_continues_as_new_gets_every_childs_end_once_while_its_worker_is_killed(
    temporal: TemporalClient, tmp_path: Path
) -> None:
    """I-09: the parent continues as new at every step, and so do its ten background children."""
    queue, root, journal = "restless-loss", "restless-parent", Journal(tmp_path / "journal.jsonl")
    client = Client(temporal, task_queue=queue)
    children = [spawn(plan(*busy(f"child {n}", 4), say=f"child {n}")) for n in range(10)]
    plans = plan(children, *busy("parent", 6))
    async with KilledWorker(temporal, queue, journal, events=1) as worker:
        await client.start("node", written(plans), thread_id=root)
        await worker.kill_during(list(calls_in(plans)).count("work"), kills=FEW_KILLS)
        async with asyncio.timeout(BOUND_SECONDS):
            result = await client.result(root)
        events = _events(await client.transcript(root))
        await until(client, root, lambda view: all(task.status.is_terminal for task in view.tasks))
    assert sorted(event["result"]["response"]["say"] for event in answer_of(result)["events"]) == sorted(
        f"child {n}" for n in range(10)
    )
    assert Counter(event["task_id"] for event in events) == {f"bg_{n}": 1 for n in range(10)}
    descendants = await executions_of(client, f"WorkflowId STARTS_WITH '{root}/'")
    last_end = max(execution.close_time for execution in descendants if execution.close_time)
    parents = await executions_of(client, f"WorkflowId = '{root}'")
    meanwhile = sum(execution.start_time < last_end for execution in parents)
    retried = await replay_all(client, f"WorkflowId STARTS_WITH '{root}'")
    print(
        f"{FEW_KILLS} kills; {meanwhile} executions of the parent while its children ran, "
        f"{len(descendants)} of theirs; {retried}"
    )
    assert meanwhile > 3
