"""Trees of agents and threads that write to each other, under a worker that is killed with -9 again and again.

WAKEFUL_FAULT_KILLS=5 make faults is a short run.
"""

import asyncio
import json
import os
import re
import time
from collections import Counter
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

from tests.faults.subagent_worker import BOUND_SECONDS, MortalWorker
from tests.support.journal import Journal
from tests.support.subagent_app import Plan, delegate, events_in, plan, send, spawn, written
from tests.support.subagents import answer_of, calls_in, ends_in_tree, until_closed
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.messages import Message
from wakeful.contract.runs import RunStatus, ThreadMode
from wakeful_workflows import AgentRun, ToolTask

KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "20"))
FEW_KILLS = min(KILLS, 5)
LETTERS = 50
MAIL = re.compile(r"<agent-message [^>]*>\n(.*)\n</agent-message>")
PARENT: dict[str, Any] = {"relation": "parent"}
CONTINUING = pytest.mark.parametrize("events", [2000, 1], ids=["usual", "restless"])


def busy(who: str, turns: int) -> list[list[tuple[str, dict[str, Any]]]]:
    return [[("work", {"what": f"{who} {turn}", "seconds": 0.4})] for turn in range(turns)]


def dig(where: str) -> tuple[str, dict[str, Any]]:
    return "dig", {"where": where, "seconds": 0.5}


def to_child(name: str, text: str) -> tuple[str, dict[str, Any]]:
    return send({"relation": "child", "name": name}, text)


def family(turns: int) -> Plan:
    """Three levels of every kind of node. Whoever is written to works on until it has read all of it."""
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
    gamma = plan(*busy("gamma", turns), [delegate(plan(*busy("below gamma", turns), say="below gamma"))], say="gamma")
    delta = plan([send(PARENT, "delta to root")], [spawn(plan(*busy("below delta", turns)))], say="delta")
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


def letters_in(messages: list[Message]) -> list[str]:
    """What other agents wrote, in the order in which it was read."""
    found = []
    for message in messages:
        if mail := MAIL.search(message.text):
            found.append(mail.group(1))
        found += [str(event["payload"]["content"]) for event in _events([message]) if _is_letter(event)]
    return found


def _is_letter(event: dict[str, Any]) -> bool:
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


def without_steps(told: JsonValue) -> JsonValue:
    """What was said; how many steps a sub-agent took for it depends on what came while it was waiting."""
    match told:
        case dict():
            return {name: without_steps(value) for name, value in told.items() if name != "steps"}
        case list():
            return [without_steps(value) for value in told]
        case _:
            return told


async def executions_of(client: Client, query: str) -> list[WorkflowExecution]:
    return [execution async for execution in client.temporal.list_workflows(query)]


async def replay_all(client: Client, query: str) -> str:
    """Every execution replays. Workflow tasks were done again only where that is meant to be; how often is told."""
    replayer = Replayer(workflows=[AgentRun, ToolTask], data_converter=pydantic_data_converter)
    again: Counter[str] = Counter()
    for execution in await executions_of(client, query):
        history = await client.temporal.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        await replayer.replay_workflow(history)
        for event in history.events:
            if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                continue
            failed = event.workflow_task_failed_event_attributes
            # A signal came while the task ended its execution: the server wants it to be read first.
            is_late = failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
            assert is_late or "a query made this run" in failed.failure.message
            again["late signal" if is_late else "query"] += 1
    return f"workflow tasks done again: {dict(again)}"


async def check_once(client: Client, root: str, plans: Plan) -> None:
    """I-09, I-11: every letter and every event of a task was read once, and every task has ended."""
    undelivered: list[str] = []
    for thread in [id for id, end in (await ends_in_tree(client, root)).items() if end == "natural"]:
        transcript, view = await client.transcript(thread), await client.status(thread)
        undelivered += [*letters_in(transcript), *(dead.message.content for dead in view.undelivered)]
        told = [(e["task_id"], e.get("event_type") or "end") for e in _events(transcript) if not _is_letter(e)]
        assert [pair for pair, count in Counter(told).items() if count > 1] == []
        assert {id for id, kind in told if kind == "end"} == {task.task_id for task in view.tasks}
        dug = {task.task_id for task in view.tasks if task.agent_id is None}
        assert {pair for pair in told if pair[1] != "end"} == {(id, kind) for id in dug for kind in ("started", "half")}
    assert sorted(undelivered) == sorted(sent_in(plans))


@pytest.mark.faults
@CONTINUING
async def test_a_tree_comes_to_the_same_end_however_often_its_worker_dies(
    temporal: TemporalClient, tmp_path: Path, events: int
) -> None:
    """I-09, I-10, I-11"""
    queue, journal = f"family-{events}", Journal(tmp_path / "journal.jsonl")
    in_calm, in_loss = f"{queue}-calm", f"{queue}-lost"
    client, plans = Client(temporal, task_queue=queue), family(turns=max(2, KILLS // 3))
    work = list(calls_in(plans)).count("work")
    async with MortalWorker(temporal, queue, journal, events=events) as worker:
        began = time.monotonic()
        calm = await client.run("node", written(plans), thread_id=in_calm)
        calm_took = time.monotonic() - began
        await client.start("node", written(plans), thread_id=in_loss)
        await worker.die(KILLS, during=work)
        async with asyncio.timeout(BOUND_SECONDS):
            lost = await client.result(in_loss)
        await until_closed(client, in_loss)
        for root in (in_calm, in_loss):
            assert set((await ends_in_tree(client, root)).values()) == {"natural", "completed"}
            await check_once(client, root, plans)
    repeated = sum(line["attempt"] > 1 for line in journal.lines("work"))
    again = await replay_all(client, f"RootWorkflowId = '{in_loss}'")
    print(
        f"{KILLS} kills, {time.monotonic() - began - calm_took:.0f} s in place of {calm_took:.0f} s; "
        f"{repeated} of {2 * work} calls were begun again, {again}"
    )
    assert without_steps(answer_of(lost)) == without_steps(answer_of(calm))


@pytest.mark.faults
@CONTINUING
async def test_two_threads_write_to_each_other_under_a_worker_that_dies(
    temporal: TemporalClient, tmp_path: Path, events: int
) -> None:
    """I-11: none is lost, none is doubled, and each sender's come in their order."""
    queue, journal = f"letters-{events}", Journal(tmp_path / "journal.jsonl")
    client = Client(temporal, task_queue=queue)
    pair, turns = (f"{queue}-one", f"{queue}-two"), LETTERS // 2

    def written_to(other: str, me: str) -> str:
        to: dict[str, JsonValue] = {"relation": "agent", "thread_id": other}
        texts = [f"{me} {number}" for number in range(LETTERS)]
        brake = ("work", {"what": me, "seconds": 0.2})
        steps = [[send(to, texts[2 * n]), send(to, texts[2 * n + 1]), brake] for n in range(turns)]
        return written(plan(*steps, mail=LETTERS))

    for me, other in (pair, pair[::-1]):
        await client.start("node", written_to(other, me), thread_id=me, mode=ThreadMode.THREAD)
    async with MortalWorker(temporal, queue, journal, events=events) as worker:
        await worker.die(FEW_KILLS, during=2 * turns)
        for me, other in (pair, pair[::-1]):
            async with asyncio.timeout(BOUND_SECONDS):
                while (await client.status(me)).status is not RunStatus.DONE:
                    await asyncio.sleep(0.2)
            assert letters_in(await client.transcript(me)) == [f"{other} {number}" for number in range(LETTERS)]
            view = await client.status(me)
            assert (view.undelivered, view.refusals) == ((), ())
            await client.handle(me).cancel()
            await client.result(me)
    again = await replay_all(client, f"WorkflowId STARTS_WITH '{queue}-'")
    print(f"{LETTERS} letters each way, {FEW_KILLS} kills, {again}")


@pytest.mark.faults
async def test_a_parent_that_continues_as_new_hears_of_all_its_children_under_a_worker_that_dies(
    temporal: TemporalClient, tmp_path: Path
) -> None:
    """I-09: it continues as new at every step, and so do its ten background children."""
    queue, root, journal = "restless-loss", "restless-parent", Journal(tmp_path / "journal.jsonl")
    client = Client(temporal, task_queue=queue)
    children = [spawn(plan(*busy(f"child {n}", 4), say=f"child {n}")) for n in range(10)]
    plans = plan(children, *busy("parent", 6))
    async with MortalWorker(temporal, queue, journal, events=1) as worker:
        await client.start("node", written(plans), thread_id=root)
        await worker.die(FEW_KILLS, during=list(calls_in(plans)).count("work"))
        async with asyncio.timeout(BOUND_SECONDS):
            result = await client.result(root)
        events = _events(await client.transcript(root))
        await until(client, root, lambda view: all(task.status.is_terminal for task in view.tasks))
    assert sorted(event["result"]["response"]["say"] for event in answer_of(result)["events"]) == sorted(
        f"child {n}" for n in range(10)
    )
    assert Counter(event["task_id"] for event in events) == {f"bg_{n}": 1 for n in range(10)}
    below = await executions_of(client, f"WorkflowId STARTS_WITH '{root}/'")
    last_end = max(execution.close_time for execution in below if execution.close_time)
    parents = await executions_of(client, f"WorkflowId = '{root}'")
    meanwhile = sum(execution.start_time < last_end for execution in parents)
    again = await replay_all(client, f"WorkflowId STARTS_WITH '{root}'")
    print(
        f"{FEW_KILLS} kills; {meanwhile} executions of the parent while its children ran, {len(below)} of theirs; "
        f"{again}"
    )
    assert meanwhile > 3
