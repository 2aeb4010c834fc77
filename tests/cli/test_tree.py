"""`wakeful tree` and `wakeful undelivered`: what is drawn, and what programs read."""

import asyncio
import json
import shlex
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.processes import running, wakeful
from tests.support.stand_ins import Part, asking_call, delegate_call, stand, stand_ins, view_of
from tests.support.waiting import BOUND_SECONDS
from wakeful.cli.terminal.render import event_lines
from wakeful.cli.terminal.result_lines import ending_text, result_lines
from wakeful.cli.terminal.screen import fit_window, height
from wakeful.cli.terminal.status_lines import related_lines
from wakeful.cli.terminal.tree_lines import tree_lines
from wakeful.cli.terminal.undelivered_lines import undelivered_json, undelivered_lines
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.client.tree import NodeKind, RemoteTask, TreeNode
from wakeful.client.undelivered import ThreadUndelivered
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.events import AgentEvent, Handoff, MailArrived, TaskChanged
from wakeful.contract.mail import AgentMessage, Sender, UndeliveredMessage
from wakeful.contract.remote import RemoteState
from wakeful.contract.runs import CancelReceipt, RunResult, RunStatus, StopDetail, Stopped, Usage
from wakeful.contract.tasks import Task, TaskStatus, TaskType


@pytest.fixture
def address(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    """Runs of this client are stand-ins."""
    async with stand_ins(temporal, thread_id):
        yield Client(temporal, task_queue=thread_id)


def node(kind: NodeKind, status: RunStatus, agent_id: str = "", **more: Any) -> TreeNode:
    return TreeNode(kind=kind, status=status, agent_id=agent_id, **more)


def test_the_task_of_a_remote_agent_is_drawn_with_its_state() -> None:
    task = RemoteTask(
        service="https://x.example.com", task_id="k1", state=RemoteState.WORKING, since=1_000, next_poll=9_000
    )
    at_work = node(NodeKind.RUN, RunStatus.RUNNING, "weather", remote=task, doing="calling remote agent weather")
    [line, *_] = tree_lines(at_work, now=6_000, ids=False, colours=False)
    assert "remote task k1 at https://x.example.com: working for 5s; asks again in 3s" in line
    sending = at_work.model_copy(update={"remote": RemoteTask(service="https://x.example.com")})
    assert "calling remote agent weather" in tree_lines(sending, now=6_000, ids=False, colours=False)[0]


TREE = node(
    *(NodeKind.RUN, RunStatus.RUNNING, "support"),
    thread_id="t",
    waiting_for="agent_run_researcher",
    steps=2,
    tokens=1204,
    cost=0.0121,
    spent=Spent(tokens=2104, cost=0.0121, turns=5),
    budget=Budget(tokens=50_000, turns=20),
    children=(
        node(
            *(NodeKind.DELEGATE, RunStatus.WAITING, "researcher"),
            thread_id="t/researcher-1",
            waiting_for="a decision on pay (t/researcher-1/call_2_1)",
            pending=("t/researcher-1/call_2_1",),
            since=1000,
            steps=1,
            tokens=900,
            children=(
                node(
                    NodeKind.DELEGATE, RunStatus.DONE, "reader", thread_id="t/researcher-1/reader-2", reason="natural"
                ),
            ),
        ),
        node(
            *(NodeKind.TASK, RunStatus.DONE, "writer"),
            thread_id="t/writer-3",
            task_id="task-1",
            name="draft",
            reason="error:no such \x1b[1Amodel",
        ),
        node(NodeKind.TASK, RunStatus.WAITING, "lost", thread_id="t/lost-4", task_id="task-2", unknown="no worker"),
        node(NodeKind.TOOL, RunStatus.RUNNING, thread_id="t/copy-5", task_id="task-3", doing="copy it"),
    ),
)


def test_a_tree_is_drawn_with_a_line_a_node_and_the_commands_that_answer_it() -> None:
    assert tree_lines(TREE, now=91_000) == [
        "▶ running  support                   2 steps  1,204 tokens  cost 0.0121  waits for agent_run_researcher",
        "├─ ‖ waiting  researcher              1 step    900 tokens               waits for a decision on pay, for 1m",
        "│  │     wakeful approve t/researcher-1/call_2_1",
        "│  └─ ✓ done  reader                 0 steps      0 tokens",
        "├─ ✗ error  writer · task-1 (draft)  0 steps      0 tokens               no such \\u001b[1Amodel",
        "├─ ? waiting  lost · task-2                                              no worker",
        "└─ ▶ running  tool · task-3                                              copy it",
        "6 in all: 2 running, 2 waiting, 1 done, 1 error · 3 steps · 2,104 tokens · cost 0.0121"
        " · budget: 2,104 of 50,000 tokens, 5 of 20 turns",
    ]


def test_ids_and_colours_are_optional() -> None:
    leaf = node(NodeKind.RUN, RunStatus.RUNNING, "a", thread_id="t", doing="asking default")
    assert tree_lines(leaf, now=0, ids=True, colours=True) == [
        "\x1b[36m▶ running\x1b[0m  a  0 steps  0 tokens  asking default",
        "\x1b[2m      t\x1b[0m",
        "1 in all: 1 running · 0 steps · 0 tokens",
    ]


def test_a_tree_that_is_higher_than_the_window_is_cut_above_its_last_line() -> None:
    lines = ["x" * 10, "x" * 11, "x", "sums"]
    assert [height(line, 10) for line in lines] == [1, 2, 1, 1]
    assert height("\x1b[36mabc\x1b[0m", 3) == 1
    assert fit_window(lines, columns=10, rows=5) == lines
    assert fit_window(lines, columns=10, rows=4) == ["x" * 10, "… 2 more lines: the window is too small", "sums"]


def asking_tree(root: str) -> Part:
    """A run whose sub-agent waits for a decision."""
    child = f"{root}/researcher-1"
    view = view_of(child, "researcher", RunStatus.WAITING, path=(root,), calls=(asking_call("pay"),))
    own = view_of(root, "support", calls=(delegate_call("researcher", child),), undelivered=(undelivered(root),))
    return Part(id=root, view=own, children=(Part(id=child, view=view),))


def undelivered(thread_id: str) -> UndeliveredMessage:
    message = AgentMessage(
        message_id="m1",
        sender=Sender(agent_id="support", thread_id=thread_id),
        content="hello\n" + "again " * 20,
        relation="agent",
        recipient_thread_id="gone",
        recipient_agent_id="helper",
    )
    return UndeliveredMessage(message=message, error="recipient_not_found", at=1000)


async def test_a_tree_is_printed_and_a_status_has_the_decisions_of_sub_agents(
    client: Client, address: str, thread_id: str
) -> None:
    root = await stand(client.temporal, thread_id, asking_tree(thread_id))
    ticket = f"{thread_id}/researcher-1/call_2_1"
    drawn = await wakeful("tree", thread_id, address=address)
    assert drawn.out.splitlines() == [
        "▶ running  support        1 step  100 tokens  waits for agent_run_researcher",
        "└─ ‖ waiting  researcher  1 step  100 tokens  waits for a decision on pay",
        f"         wakeful approve {ticket}",
        "2 in all: 1 running, 1 waiting · 2 steps · 200 tokens",
    ]
    printed = json.loads((await wakeful("tree", thread_id, "--json", address=address)).out)
    assert [child["pending"] for child in printed["children"]] == [[ticket]]
    status = (await wakeful("status", thread_id, address=address)).out.splitlines()
    assert status[4:] == [
        f"call     call_1_1  agent_run_researcher  running  in thread {thread_id}/researcher-1",
        f"mail     1 undelivered message: wakeful undelivered {thread_id}",
        f"subagent {thread_id} > {thread_id}/researcher-1",
        "waits for a decision: May I pay?",
        "  pay(amount=5)",
        f"  approve:  wakeful approve {ticket}",
        f"  deny:     wakeful deny {ticket}",
    ]
    inbox = (await wakeful("inbox", "--thread", thread_id, address=address)).out
    assert f"      wakeful approve {ticket}" in inbox.splitlines()
    await root.terminate()


async def test_a_watched_tree_is_a_json_line_a_change_until_the_root_has_ended(
    client: Client, address: str, thread_id: str
) -> None:
    root = await stand(client.temporal, thread_id, Part(id=thread_id, view=view_of(thread_id, "support")))
    command = ("tree", thread_id, "--watch", "--json")
    async with running(*command, address=address) as program, asyncio.timeout(BOUND_SECONDS):
        assert program.stdout is not None
        assert json.loads(await program.stdout.readline())["status"] == "running"
        await root.signal("say", view_of(thread_id, "support", RunStatus.DONE))
        assert json.loads(await program.stdout.readline())["status"] == "done"
        assert await program.wait() == 0
    await root.terminate()


async def test_ctrl_c_leaves_a_watched_tree_quietly(client: Client, address: str, thread_id: str) -> None:
    root = await stand(client.temporal, thread_id, Part(id=thread_id, view=view_of(thread_id, "support")))
    async with (
        running("tree", thread_id, "--watch", address=address, errors=asyncio.subprocess.PIPE) as program,
        asyncio.timeout(BOUND_SECONDS),
    ):
        assert program.stdout is not None
        assert "running  support" in (await program.stdout.readline()).decode()
        program.send_signal(signal.SIGINT)
        _, err = await program.communicate()
    assert (program.returncode, err) == (130, b"")
    await root.terminate()


async def test_undelivered_messages_are_shown_sent_again_and_dropped(
    client: Client, address: str, thread_id: str
) -> None:
    root = await stand(client.temporal, thread_id, asking_tree(thread_id))
    everything = (await wakeful("undelivered", address=address)).out.splitlines()
    assert f"thread {thread_id}" in everything
    shown = (await wakeful("undelivered", thread_id, address=address)).out.splitlines()
    for command, says in zip(
        shown[-2:], ["sends 1 undelivered message again", "drops 1 undelivered message"], strict=True
    ):
        ran = await wakeful(*shlex.split(command)[1:], address=address)
        assert (ran.code, ran.out) == (0, f"thread {thread_id} {says}\n"), ran.err
    assert await root.query("heard") == [{"action": "replay"}, {"action": "clear"}]
    none = await wakeful("undelivered", f"{thread_id}/researcher-1", "--replay", address=address)
    assert none.out == f"thread {thread_id}/researcher-1 has no undelivered messages\n"
    shown_none = await wakeful("undelivered", f"{thread_id}/researcher-1", address=address)
    assert shown_none.out == none.out
    await root.terminate()
    for flag in ("--replay", "--clear"):
        closed = await wakeful("undelivered", thread_id, flag, address=address)
        wake = f"wakeful: thread {thread_id!r} is closed: wake it first with `wakeful send {thread_id} …`\n"
        assert (closed.code, closed.out, closed.err) == (1, "", wake)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["tree", "nowhere"], "wakeful: no thread 'nowhere' in this namespace"),
        (["inbox", "--thread", "nowhere"], "wakeful: no thread 'nowhere' in this namespace"),
        (["undelivered", "nowhere"], "wakeful: no thread 'nowhere' in this namespace"),
        (["undelivered", "nowhere", "--clear"], "wakeful: no thread 'nowhere' in this namespace"),
        (["undelivered", "--replay"], "wakeful: name the thread: wakeful undelivered THREAD --replay"),
        (
            ["undelivered", "t", "--replay", "--clear"],
            "wakeful: --replay sends messages again and --clear drops them: ",
        ),
    ],
)
async def test_a_mistake_is_one_clear_line_on_stderr(address: str, args: list[str], says: str) -> None:
    ran = await wakeful(*args, address=address)
    (line,) = ran.err.splitlines()
    assert (ran.code, ran.out, line[: len(says)]) == (1, "", says)


def test_undelivered_messages_are_a_table_of_each_thread() -> None:
    found = [
        ThreadUndelivered(thread_id="-t", undelivered=(undelivered("-t"),)),
        ThreadUndelivered(thread_id="u", unknown="no worker"),
    ]
    assert undelivered_lines(found, now=61_000) == [
        "thread -t",
        "  AGE  MESSAGE  TO             ERROR                TEXT",
        f"  1m   m1       gone (helper)  recipient_not_found  hello {'again ' * 8}again…",
        "      wakeful undelivered --replay -- -t",
        "      wakeful undelivered --clear -- -t",
        "thread u does not answer: no worker",
    ]
    assert [sorted(json.loads(line)) for line in undelivered_json(found)] == [
        ["thread_id", "undelivered"],
        ["thread_id", "unknown"],
    ]


def test_a_status_has_nothing_more_for_a_thread_without_others() -> None:
    assert related_lines("t", view_of("t", "a")) == []
    assert result_lines(ended(StopDetail(code="max_rounds"))) == []


def test_a_status_has_tasks_mail_and_what_the_tree_spends() -> None:
    running = Task(task_id="task-1", owner_thread_id="t", task_type=TaskType.SUB_AGENT, name="draft", agent_id="w")
    failed = Task(
        task_id="task-2", owner_thread_id="t", task_type=TaskType.TOOL, status=TaskStatus.FAILED, error="no disk"
    )
    view = view_of(
        "t", "a", tasks=(running, failed), undelivered=(undelivered("t"),), spent=Spent(tokens=5000, turns=3)
    )
    child = view_of("t/b", "b", RunStatus.WAITING, path=("t",), calls=(asking_call("pay"),))
    assert related_lines("t", view, pending_of(child)) == [
        "spent    5,000 tokens, 3 turns, 0 tool calls, with sub-agents that have ended",
        "task     task-1 (draft) w running",
        "task     task-2 tool failed: no disk",
        "mail     1 undelivered message: wakeful undelivered t",
        "subagent t > t/b",
        "waits for a decision: May I pay?",
        "  pay(amount=5)",
        "  approve:  wakeful approve t/b/call_2_1",
        "  deny:     wakeful deny t/b/call_2_1",
    ]
    limited = view.model_copy(
        update={"budget": Budget(tokens=9000, cost=0.5, seconds=90), "tasks": (), "undelivered": ()}
    )
    assert related_lines("t", limited) == ["budget   5,000 of 9,000 tokens, cost 0.0000 of 0.5, at most 1m"]


def ended(stop: StopDetail, **more: Any) -> RunResult:
    return RunResult(
        thread_id="t",
        run_id="r",
        agent_id="a",
        status_reason=f"stopped:{stop.code}",
        termination=Stopped(value=stop),
        steps=2,
        usage=Usage(total_tokens=100),
        **more,
    )


def test_the_end_of_a_run_has_what_its_tree_spent_and_which_sub_agents_were_stopped() -> None:
    receipt = CancelReceipt(cancelled=("t/b-1",), ended=("t/c-2",))
    stop = StopDetail(code="budget", detail="tokens budget is spent: 5000 of 4000")
    result = ended(stop, receipt=receipt, spent=Spent(tokens=5000, cost=0.25, turns=7, tool_calls=3))
    assert result_lines(result) == [
        "spent, with all sub-agents: 5,000 tokens, cost 0.2500, 7 turns, 3 tool calls",
        "cancelled: t/b-1",
        "already ended: t/c-2",
    ]
    assert ending_text(result) == "the run was stopped: tokens budget is spent: 5000 of 4000"
    assert ending_text(ended(StopDetail(code="max_rounds"))) == "the run ended as stopped:max_rounds"
    enough = ended(StopDetail(code="enough", detail="three\nare enough"))
    assert ending_text(enough) == "the run ended as stopped:enough: three are enough"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('<agent-message from="writer" thread_id="t/1" name="a &gt; b">\nDone.\n</agent-message>', "← writer: Done."),
        ('<agent-message from="writer" thread_id="t/1">\nOne,\ntwo\x1b[2J', "← writer: One, two\\u001b[2J"),
        (
            '<background-task-event kind="failed" task_id="bg_1">\n{"error":"no"}\n</background-task-event>',
            '← bg_1: {"error":"no"}',
        ),
        ("Hurry!", "← Hurry!"),
        ('<agent-message from="writer" thread_id="t/1">\n' + "x" * 400, "← writer: " + "x" * 151 + "…"),
    ],
    ids=["a message", "cut off", "a task", "without tags", "long"],
)
def test_mail_is_one_line_while_a_run_is_watched(text: str, line: str) -> None:
    assert event_lines(MailArrived(message_id="msg_1", text=text)) == [line]


def test_handoffs_and_tasks_are_a_line_each_while_a_run_is_watched() -> None:
    task = Task(task_id="task-1", owner_thread_id="t", task_type=TaskType.SUB_AGENT, name="draft", agent_id="writer")
    tasks = [task.model_copy(update={"status": status}) for status in TaskStatus]
    events: list[AgentEvent] = [Handoff(from_agent="a", to_agent="b"), *(TaskChanged(task=each) for each in tasks)]
    assert [line for event in events for line in event_lines(event)] == [
        "⇒ a hands off to b",
        "+ writer task-1 (draft) runs in the background",
        "✓ writer task-1 (draft) has ended",
        "✗ writer task-1 (draft) failed: no reason was reported",
        "✗ writer task-1 (draft) was cancelled",
    ]
