"""A tree of agents from outside: found by Temporal's visibility, described by the threads themselves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.stand_ins import Part, asking_call, delegate_call, stand, stand_ins, view_of
from tests.support.waiting import BOUND_SECONDS
from wakeful.client import statuses
from wakeful.client.client import Client
from wakeful.client.tree import KnownThread, NodeKind, TreeNode, build_tree, waiting_phrase
from wakeful.client.undelivered import read_undelivered
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.errors import ThreadNotFound
from wakeful.contract.mail import AgentMessage, Sender, UndeliveredMessage
from wakeful.contract.runs import NaturalEnd, RunResult, RunStatus, TaskRef, ToolCallStatus, Usage
from wakeful.contract.tasks import Task, TaskStatus, TaskType
from wakeful.contract.views import StatusView, ToolCallView, WaitingFor


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    """Runs of this client are stand-ins."""
    async with stand_ins(temporal, thread_id):
        yield Client(temporal, task_queue=thread_id)


def ended(thread_id: str, agent_id: str) -> RunResult:
    return RunResult(
        thread_id=thread_id,
        run_id=f"run-{agent_id}",
        agent_id=agent_id,
        status_reason="natural",
        termination=NaturalEnd(),
        response="done",
        steps=4,
        usage=Usage(total_tokens=40),
        spent=Spent(tokens=50, turns=5),
    )


def sample_tree(root: str) -> Part:
    """A run with a delegate that waits for a decision, a background sub-agent that has ended and a background tool."""
    waits, writes, copies = f"{root}/researcher-1", f"{root}/writer-2", f"{root}/copy-3"
    tasks = (
        Task(
            task_id="task-1",
            owner_thread_id=root,
            task_type=TaskType.SUB_AGENT,
            name="draft",
            status=TaskStatus.COMPLETED,
            thread_id=writes,
            agent_id="writer",
        ),
        Task(task_id="task-2", owner_thread_id=root, task_type=TaskType.TOOL, description="copy it", thread_id=copies),
    )
    result = ended(writes, "writer")
    done = view_of(writes, "writer", RunStatus.DONE, path=(root,), steps=4, result=result, doing="ended: natural")
    waiting = view_of(
        waits,
        "researcher",
        RunStatus.WAITING,
        path=(root,),
        calls=(asking_call("pay", since=1000),),
        spent=Spent(tokens=100, turns=1),
    )
    view = view_of(
        root,
        "support",
        calls=(delegate_call("researcher", waits),),
        tasks=tasks,
        spent=Spent(tokens=150, turns=6),
        budget=Budget(tokens=1000),
    )
    children = (Part(id=waits, view=waiting), Part(id=writes, view=done, result=result), Part(id=copies))
    return Part(id=root, view=view, children=children)


async def read(client: Client, thread_id: str, met: Callable[[TreeNode], bool]) -> TreeNode:
    """The tree, once `met` is true: Temporal's lists are eventually consistent."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not met(tree := await client.tree(thread_id)):
            await asyncio.sleep(0.05)
    return tree


def comparable(node: TreeNode) -> TreeNode:
    """Without times and ids that Temporal chooses."""
    update = {"started_at": None, "children": tuple(comparable(child) for child in node.children)}
    return node.model_copy(update=update | ({"run_id": ""} if node.kind is NodeKind.TOOL else {}))


async def test_a_tree_has_every_run_and_task_with_what_it_waits_for(client: Client, thread_id: str) -> None:
    root = await stand(client.temporal, thread_id, sample_tree(thread_id))
    tree = await read(client, thread_id, lambda tree: len(list(tree.walk())) == 4)
    nodes = {node.thread_id.removeprefix(thread_id): comparable(node) for node in tree.walk()}
    assert nodes["/researcher-1"] == TreeNode(
        thread_id=f"{thread_id}/researcher-1",
        run_id="run-researcher",
        agent_id="researcher",
        kind=NodeKind.DELEGATE,
        status=RunStatus.WAITING,
        waiting_for=f"a decision on pay ({thread_id}/researcher-1/call_2_1)",
        doing="calling default",
        steps=1,
        tokens=100,
        spent=Spent(tokens=100, turns=1),
        pending=(f"{thread_id}/researcher-1/call_2_1",),
        since=1000,
    )
    writer = nodes["/writer-2"]
    assert (writer.kind, writer.task_id, writer.name, writer.status, writer.reason) == (
        *(NodeKind.TASK, "task-1", "draft", RunStatus.DONE, "natural"),
    )
    assert nodes["/copy-3"] == TreeNode(
        thread_id=f"{thread_id}/copy-3",
        kind=NodeKind.TOOL,
        task_id="task-2",
        status=RunStatus.RUNNING,
        doing="copy it",
    )
    assert (tree.kind, tree.waiting_for, tree.budget) == (NodeKind.RUN, "agent_run_researcher", Budget(tokens=1000))
    assert tree.spent == Spent(tokens=250, turns=7)  # it includes the descendants that have ended already
    await root.terminate()


async def test_a_tree_can_be_read_from_any_thread_of_it(client: Client, thread_id: str) -> None:
    root = await stand(client.temporal, thread_id, sample_tree(thread_id))
    tree = await client.tree(f"{thread_id}/researcher-1")
    assert [(node.agent_id, node.kind) for node in tree.walk()] == [("researcher", NodeKind.DELEGATE)]
    await root.terminate()


async def test_a_child_that_is_not_listed_yet_is_in_the_tree(client: Client, thread_id: str) -> None:
    view = view_of(thread_id, "support", calls=(delegate_call("late", f"{thread_id}/late-1"),))
    root = await stand(client.temporal, thread_id, Part(id=thread_id, view=view))
    (child,) = (await client.tree(thread_id)).children
    assert (child.thread_id, child.kind, child.status) == (f"{thread_id}/late-1", NodeKind.DELEGATE, RunStatus.CREATED)
    await root.terminate()


async def test_a_sub_agent_that_was_woken_is_still_in_its_tree(client: Client, thread_id: str) -> None:
    """Temporal counts it as a root of its own then."""
    root = await stand(client.temporal, thread_id, sample_tree(thread_id))
    woken, below = f"{thread_id}/writer-2", f"{thread_id}/writer-2/checker-9"
    view = view_of(woken, "writer", path=(thread_id,), calls=(delegate_call("checker", below),))
    checker = Part(id=below, view=view_of(below, "checker", path=(thread_id, woken)))
    async with asyncio.timeout(BOUND_SECONDS):
        await client.temporal.get_workflow_handle(woken).result()  # it has closed, so it can be woken
    again = await stand(client.temporal, thread_id, Part(id=woken, view=view, children=(checker,)))
    tree = await read(client, thread_id, lambda tree: len(list(tree.walk())) == 5)
    (writer,) = [node for node in tree.children if node.thread_id == woken]
    assert (writer.status, [child.agent_id for child in writer.children]) == (RunStatus.RUNNING, ["checker"])
    await again.terminate()
    await root.terminate()


async def test_a_thread_whose_id_only_has_the_same_prefix_is_not_in_the_tree(client: Client, thread_id: str) -> None:
    root = await stand(client.temporal, thread_id, sample_tree(thread_id))
    other = f"{thread_id}/other"
    view = view_of(other, "other", RunStatus.WAITING, calls=(asking_call("pay"),))
    stranger = await stand(client.temporal, thread_id, Part(id=other, view=view))
    tree = await read(client, thread_id, lambda tree: len(list(tree.walk())) >= 4)
    assert other not in [node.thread_id for node in tree.walk()]
    assert other not in [entry.thread_id async for entry in client.inbox(thread_id=thread_id)]
    await stranger.terminate()
    await root.terminate()


async def test_a_run_that_was_terminated_waits_for_nothing(client: Client, thread_id: str) -> None:
    root = await stand(client.temporal, thread_id, sample_tree(thread_id))
    child = f"{thread_id}/researcher-1"
    await client.handle(child).terminate()

    def is_known(tree: TreeNode) -> bool:
        return any(node.thread_id == child and node.status is RunStatus.DONE for node in tree.walk())

    tree = await read(client, thread_id, is_known)
    (node,) = [node for node in tree.walk() if node.thread_id == child]
    assert (node.reason, node.waiting_for, node.pending) == ("terminated", "", ())
    await root.terminate()


async def test_without_a_worker_a_tree_has_what_temporal_lists(
    temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with stand_ins(temporal, thread_id):
        root = await stand(temporal, thread_id, sample_tree(thread_id))
        await client.handle(f"{thread_id}/writer-2").result()
        await read(client, thread_id, lambda tree: sum(node.status is RunStatus.DONE for node in tree.walk()) == 1)
    monkeypatch.setattr(statuses, "QUERY_TIMEOUT", timedelta(seconds=0.5))
    tree = await client.tree(thread_id)
    reason = f"no worker answers on task queue {thread_id!r}, and its history does not replay here, at event 5"
    assert {node.thread_id.removeprefix(thread_id): (node.status, node.unknown) for node in tree.walk()} == {
        "": (RunStatus.RUNNING, reason),
        "/researcher-1": (RunStatus.RUNNING, reason),
        "/writer-2": (RunStatus.DONE, None),
        "/copy-3": (RunStatus.RUNNING, None),
    }
    (writer,) = [node for node in tree.children if node.status is RunStatus.DONE]
    assert (writer.agent_id, writer.steps, writer.tokens, writer.spent) == ("writer", 4, 40, Spent(tokens=50, turns=5))
    await root.terminate()


async def test_the_tree_of_a_thread_that_does_not_exist_is_an_error(client: Client) -> None:
    with pytest.raises(ThreadNotFound):
        await client.tree("nowhere")
    with pytest.raises(ThreadNotFound):
        [entry async for entry in client.inbox(thread_id="nowhere")]


async def test_a_watched_tree_is_yielded_when_it_changes_until_its_root_ends(client: Client, thread_id: str) -> None:
    root = await stand(client.temporal, thread_id, Part(id=thread_id, view=view_of(thread_id, "support")))
    seen: list[tuple[RunStatus, int]] = []
    async with asyncio.timeout(BOUND_SECONDS):
        async for tree in client.watch_tree(thread_id, every=0.05):
            seen.append((tree.status, tree.steps))
            if tree.steps == 1:
                await root.signal("say", view_of(thread_id, "support", steps=2))
            elif tree.steps == 2:
                await root.signal("say", view_of(thread_id, "support", RunStatus.DONE, steps=3))
    assert seen == [(RunStatus.RUNNING, 1), (RunStatus.RUNNING, 2), (RunStatus.DONE, 3)]
    await root.terminate()


async def test_decisions_of_descendants_are_listed_at_the_root_with_their_path(client: Client, thread_id: str) -> None:
    middle, leaf = f"{thread_id}/a-1", f"{thread_id}/a-1/b-2"
    asking = view_of(leaf, "b", RunStatus.WAITING, path=(thread_id, middle), calls=(asking_call("pay", since=1),))
    middle_view = view_of(middle, "a", path=(thread_id,), calls=(delegate_call("b", leaf),))
    own = view_of(thread_id, "support", calls=(delegate_call("a", middle), asking_call("refund", since=2)))
    part = Part(id=middle, view=middle_view, children=(Part(id=leaf, view=asking),))
    root = await stand(client.temporal, thread_id, Part(id=thread_id, view=own, children=(part,)))

    async def listed(thread: str) -> list[tuple[str, tuple[str, ...]]]:
        return [(entry.tool_name, entry.path) async for entry in client.inbox(thread_id=thread)]

    at_leaf = ("pay", (thread_id, middle, leaf))
    async with asyncio.timeout(BOUND_SECONDS):
        while await listed(thread_id) != [at_leaf, ("refund", (thread_id,))]:
            await asyncio.sleep(0.05)
    assert await listed(middle) == [at_leaf]
    assert await listed(leaf) == [at_leaf]
    await root.terminate()


async def test_undelivered_messages_are_read_and_recovered(client: Client, thread_id: str) -> None:
    message = AgentMessage(
        message_id="m1",
        sender=Sender(agent_id="support", thread_id=thread_id),
        content="hello",
        relation="agent",
        recipient_thread_id="gone",
    )
    undelivered = UndeliveredMessage(message=message, error="recipient_not_found", at=5)
    view = view_of(thread_id, "support", undelivered=(undelivered,))
    root = await stand(client.temporal, thread_id, Part(id=thread_id, view=view))
    assert await client.undelivered(thread_id) == (undelivered,)
    asked: list[int] = []
    found: list[tuple[UndeliveredMessage, ...]] = []
    async with asyncio.timeout(BOUND_SECONDS):
        while not found:
            everything = await read_undelivered(client.reader, on_listed=asked.append)
            found = [each.undelivered for each in everything if each.thread_id == thread_id]
    assert found == [(undelivered,)]
    assert asked[-1] >= 1
    await client.recover_undelivered(thread_id, "replay")
    assert await root.query("heard") == [{"action": "replay"}]
    await root.terminate()


def running(name: str) -> ToolCallView:
    return ToolCallView(call_id=f"call_{name}", tool_name=name, status=ToolCallStatus.RUNNING)


def a_task(number: int, status: TaskStatus = TaskStatus.RUNNING, error: str | None = None) -> Task:
    return Task(task_id=f"task-{number}", owner_thread_id="t", task_type=TaskType.TOOL, status=status, error=error)


def awaiting(what: WaitingFor, *tasks: Task) -> StatusView:
    return view_of("t", "a", RunStatus.WAITING, waiting_for=what, tasks=tasks)


@pytest.mark.parametrize(
    ("view", "phrase"),
    [
        (view_of("t", "a"), ""),
        (view_of("t", "a", calls=(running("look"),)), "tool look"),
        (view_of("t", "a", calls=(running("look"), running("pay"))), "tools look, pay"),
        (view_of("t", "a", calls=(delegate_call("b", "t/b"), running("pay"))), "agent_run_b and tool pay"),
        (view_of("t", "a", RunStatus.WAITING, calls=(asking_call("pay", "c1"),)), "a decision on pay (t/c1)"),
        (
            view_of("t", "a", RunStatus.WAITING, calls=(asking_call("pay", "c1"), asking_call("buy", "c2"))),
            "decisions on pay (t/c1), buy (t/c2)",
        ),
        (awaiting(WaitingFor.TASKS, a_task(1), a_task(2, TaskStatus.FAILED)), "a task"),
        (awaiting(WaitingFor.TASKS, a_task(1), a_task(2)), "2 tasks"),
        (awaiting(WaitingFor.BUDGET, a_task(1)), "more budget"),
        (awaiting(WaitingFor.BUDGET), "more budget"),
        (view_of("t", "a", RunStatus.DONE, tasks=(a_task(1),)), ""),
    ],
)
def test_what_a_run_waits_for_is_a_phrase(view: StatusView, phrase: str) -> None:
    assert waiting_phrase(view) == phrase


def test_tasks_that_only_their_parents_status_shows_are_in_the_tree() -> None:
    tasks = (a_task(1), a_task(2, TaskStatus.COMPLETED), a_task(3, TaskStatus.FAILED, "no disk"))
    tree = build_tree(
        "t", {"t": KnownThread("t", view=view_of("t", "a", tasks=(*tasks, a_task(4, TaskStatus.CANCELLED))))}
    )
    assert [(node.task_id, node.status, node.reason) for node in tree.children] == [
        ("task-1", RunStatus.CREATED, ""),
        ("task-2", RunStatus.DONE, "natural"),
        ("task-3", RunStatus.DONE, "error:no disk"),
        ("task-4", RunStatus.DONE, "cancelled"),
    ]


def test_a_background_sub_agent_shows_its_own_task_id() -> None:
    ref = TaskRef(task_id="task-7", thread_id="t/b", owner_thread_id="t")
    own = KnownThread("t/b", parent_id="t", view=view_of("t/b", "b", path=("t",), task=ref))
    within = KnownThread("t/b/c", parent_id="t/b", view=view_of("t/b/c", "c", path=("t", "t/b"), task=ref))
    tree = build_tree("t", {"t": KnownThread("t", view=view_of("t", "a")), "t/b": own, "t/b/c": within})
    assert [(node.agent_id, node.kind, node.task_id) for node in tree.walk()] == [
        ("a", NodeKind.RUN, None),
        ("b", NodeKind.TASK, "task-7"),
        ("c", NodeKind.DELEGATE, None),
    ]
