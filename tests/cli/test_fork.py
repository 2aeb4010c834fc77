"""`wakeful fork` and `wakeful diff`, as a person and as a program use them."""

import json
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.app.walking import STEPS
from tests.support.processes import Ran, wakeful
from wakeful.cli.terminal.colours import PLAIN
from wakeful.cli.terminal.diff_lines import Difference, Side, diff_lines
from wakeful.cli.terminal.screen import display_width
from wakeful.client.branching.steps import Comparison, StepPair, compare
from wakeful.client.client import Client
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, ToolCall
from wakeful.contract.runs import RunIdentity, RunStatus, Usage
from wakeful.contract.views import StatusView
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        yield Client(temporal, task_queue=thread_id)


@pytest.fixture
def address(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


async def test_a_fork_is_followed_and_compared(client: Client, address: str, thread_id: str) -> None:
    """The fork uses the origin's task queue."""
    await client.run("walker", "walk", thread_id=thread_id)
    new = f"{thread_id}-fork"
    forked = await wakeful("fork", thread_id, "--at", "12", "-m", "turn back", "--as", new, address=address)
    assert (forked.code, forked.out) == (0, "back: went to 0\n"), forked.err
    first, *events, last = forked.err.splitlines()
    assert (first, last) == (f"thread {new}", f"compare: wakeful diff {thread_id} {new}")
    assert "→ pace(n=0)" in events
    shown = (await wakeful("show", new, address=address)).out.splitlines()
    assert shown[:2] == ["user: walk", "assistant, step 1: → pace(n=1)"]
    assert shown[25:27] == ["user: turn back", "assistant, step 13: → pace(n=0)"]
    assert f"forked   from {thread_id} after step 12" in shown
    assert (
        f"forked   from {thread_id} after step 12" in (await wakeful("status", new, address=address)).out.splitlines()
    )
    compared = (await wakeful("diff", thread_id, new, address=address)).out.splitlines()
    assert compared[0] == "the same up to step 12 (25 messages)"
    assert max(map(len, compared)) <= 100
    assert compared[-3].split("│")[0].split() == ["steps", f"{STEPS}"]
    assert [line.split("│")[1].split() for line in compared[-3:]] == [
        ["steps", "14"],
        ["tokens", "85", "in", "its", "last", "run"],
        ["ended", "natural"],
    ]


async def test_a_fork_that_is_left_to_itself_is_only_named(client: Client, address: str, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    forked = await wakeful("fork", thread_id, "--at", "1", "--agent", "guide", "--detach", address=address)
    new = forked.out.strip()
    assert (new.startswith("guide-"), forked.err) == (True, f"compare: wakeful diff {thread_id} {new}\n")
    assert (await client.result(new)).agent_id == "guide"
    printed = json.loads((await wakeful("fork", thread_id, "--at", "0", "--detach", "--json", address=address)).out)
    assert printed == {"thread_id": printed["thread_id"], "forked_from": {"thread_id": thread_id, "step": 0}}


async def test_two_forks_are_compared_for_programs(client: Client, address: str, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    a = await client.fork(thread_id, at=1, message="turn back")
    b = await client.fork(thread_id, at=2, message="hello")
    assert ((await client.result(a)).response, (await client.result(b)).response) == ("back: went to 0", "hello, hello")
    ran = await wakeful("fork", a, "--at", "1", "--json", address=address)
    assert json.loads(ran.out.splitlines()[-1])["response"] == "strolled"
    found = json.loads((await wakeful("diff", a, b, "--json", address=address)).out)
    assert (found["a"]["thread_id"], found["a"]["steps"], found["b"]["status"]["steps"]) == (a, 3, 1)
    assert (found["compared"]["same_steps"], found["compared"]["same_messages"]) == (1, 3)
    assert [pair["step"] for pair in found["compared"]["pairs"]] == [2, 3]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere", "--at", "1"], "no thread 'nowhere' in this namespace"),
        (["{thread}", "--at", "9"], "thread '{thread}' has 3 steps, so there is no step 9 to fork it after"),
        (["{thread}", "--at", "3"], "step 3 of thread '{thread}' is an answer, so the model has nothing to continue"),
        (["{thread}", "--at", "1", "--as", "{thread}"], "there is a thread '{thread}' already: choose another id"),
    ],
)
async def test_a_mistake_is_one_clear_line(
    client: Client, address: str, thread_id: str, args: list[str], says: str
) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    ran: Ran = await wakeful("fork", *(arg.format(thread=thread_id) for arg in args), address=address)
    assert (ran.code, ran.out) == (1, "")
    (line,) = ran.err.splitlines()
    assert line.startswith(f"wakeful: {says.format(thread=thread_id)}")


def said(text: str, *, role: Role = Role.USER, step: int = 0, calls: tuple[ToolCall, ...] = ()) -> Message:
    metadata = MessageMetadata(run_id="r1", step_index=step) if step else None
    return Message(id="", role=role, content=(TextBlock(text=text),), tool_calls=calls, metadata=metadata)


def answered(step: int, text: str, id: str = "c1") -> list[Message]:
    """A step that calls a tool, which returns the text."""
    call = ToolCall(id=id, name="look", arguments={"at": step})
    return [said("", role=Role.ASSISTANT, step=step, calls=(call,)), said(text, role=Role.TOOL, step=step)]


HELLO, THERE = said("hello"), said("there")


def test_what_is_the_same_is_counted_in_steps() -> None:
    a = [HELLO, *answered(1, "one"), *answered(2, "two")]
    b = [HELLO, *answered(1, "one", id="other"), THERE, *answered(2, "two"), *answered(3, "three")]
    assert compare(a, b) == Comparison(
        same_messages=3,
        same_steps=1,
        steps_a=2,
        steps_b=3,
        pairs=(StepPair(step=2, a=tuple(a[3:]), b=tuple(b[3:6])), StepPair(step=3, b=tuple(b[6:]))),
    )


def test_a_call_with_another_result_is_shown_with_its_answer() -> None:
    compared = compare([HELLO, *answered(1, "one")], [HELLO, *answered(1, "uno")])
    (pair,) = compared.pairs
    assert (compared.same_messages, compared.same_steps, len(pair.a), len(pair.b)) == (1, 0, 2, 2)


def test_messages_without_an_answer_come_last() -> None:
    compared = compare([HELLO, *answered(1, "one")], [HELLO, *answered(1, "one"), THERE])
    assert (compared.same_steps, compared.pairs) == (1, (StepPair(step=2, b=(THERE,)),))
    assert lines_of(compared)[3].startswith("─ not answered yet ─")


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ([HELLO], [HELLO], "the same from beginning to end (0 steps, 1 message)"),
        ([HELLO], [THERE], "different from the beginning"),
        ([HELLO, said("a", role=Role.ASSISTANT, step=1)], [HELLO], "the same before the first step (1 message)"),
        ([HELLO, *answered(1, "one"), HELLO], [HELLO, *answered(1, "one")], "the same up to step 1 (3 messages)"),
    ],
)
def test_how_far_they_are_the_same_is_one_line(a: list[Message], b: list[Message], says: str) -> None:
    assert lines_of(compare(a, b))[0] == says


def test_answers_stand_side_by_side_whatever_was_said_before_them() -> None:
    a = [HELLO, said("good day", role=Role.ASSISTANT, step=1)]
    b = [HELLO, THERE, said("good night", role=Role.ASSISTANT, step=1)]
    assert lines_of(compare(a, b), columns=43)[3:6] == [
        "─ step 1 ────────────┼─────────────────────",
        "                     │ user: there",
        "assistant: good day  │ assistant: good",
    ]


@pytest.mark.parametrize("columns", [20, 43, 100])
def test_columns_keep_their_width_whatever_is_in_them(columns: int) -> None:
    """Wide characters, words that are too long, control characters, many lines."""
    odd = "漢字" * 60 + " " + "x" * 150 + "\n\n\tindented\x1b[2J " + "word " * 40
    lines = lines_of(compare([said(odd)], [said("short"), said(odd)]), columns=columns)[2:]
    assert max(map(display_width, lines)) <= max(columns, 43)
    assert {display_width(line.partition("│")[0]) for line in lines if "│" in line} == {max(20, (columns - 3) // 2) + 1}
    assert not any("\x1b" in line for line in lines)


def lines_of(compared: Comparison, *, columns: int = 100) -> list[str]:
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    view = StatusView(identity=identity, status=RunStatus.RUNNING, doing="calling m", steps=1, usage=Usage())
    sides = [Side(thread_id=name, steps=steps, status=view) for name, steps in (("a", 1), ("b", 2))]
    return diff_lines(Difference(a=sides[0], b=sides[1], compared=compared), columns=columns, colours=PLAIN)
