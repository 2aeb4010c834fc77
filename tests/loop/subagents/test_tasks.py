"""Background tasks: how they are started, named and listed, and that the end of each reaches the model once."""

import pytest
from pydantic import JsonValue

from tests.loop.children import (
    DIG,
    PARALLEL_PARENT,
    PARENT,
    awaiting_tasks,
    background_call,
    child_settled,
    idle_with_task,
    make_parent,
    spawn_call,
    start_without_ids,
    task_event,
    task_event_text,
    task_events_read,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import (
    NO_INPUT,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    make_ticket,
    ok,
    pending,
    resume,
    says,
    thread_id_of,
)
from wakeful.contract.budgets import Budget
from wakeful.contract.events import ChildStarted, MailArrived, TaskChanged
from wakeful.contract.gates import Suspend
from wakeful.contract.mail import TaskEvent
from wakeful.contract.messages import Message, Role, TextBlock, Visibility
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled, Errored, OnBusy, Origin, TaskRef
from wakeful.contract.subagents import ChildResult, SubagentContext
from wakeful.contract.tasks import Task, TaskContext, TaskStatus, TaskType
from wakeful.loop.machine.commands import Infer, StartChild, StartTask
from wakeful.loop.machine.facts import ChildClosed, ChildSettled, LoopFailed, MailReceived, WorkCancelled
from wakeful.loop.machine.stages import AwaitingDecisions, Done, Idle, Inferring, Resolving
from wakeful.loop.machine.state import Advance
from wakeful.loop.subagents.tasks import KEPT_ENDED, KEPT_RESULT, MAX_RUNNING
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.views import carryover


def answer_of(driver: Driver, call_id: str = "c1") -> str:
    return dict(driver.tool_results)[call_id]


def expected_task(driver: Driver, **changed: object) -> Task:
    """The expected task `bg_0` of a run whose call `c1` has started it."""
    known = Task(
        task_id="bg_0",
        owner_thread_id="t1",
        task_type=TaskType.SUB_AGENT,
        description="Look into it.",
        created_at_ms=driver.now,
        parent_context=TaskContext(run_id="r1", call_id="c1", agent_id="assistant"),
        thread_id=thread_id_of("bg_0"),
        agent_id="researcher",
    )
    return known.model_copy(update=changed)


def test_a_spawned_agent_runs_in_the_background_and_the_model_continues() -> None:
    """B-530, B-531, B-533, B-534"""
    driver = with_tasks()
    assert answer_of(driver) == '{"task_id":"bg_0","status":"running","agent_id":"researcher"}'
    request = RunRequest(
        agent_id="researcher",
        input="Look into it.",
        parent_thread_id="t1",
        parent_run_id="r1",
        parent_tool_call_id="c1",
        origin=Origin.SUBAGENT,
        subagent=SubagentContext(path=("t1",), work_id="bg_0", task_id="bg_0"),
    )
    assert driver.commands_of(StartChild) == [StartChild("bg_0", request, "researcher", counted=True)]
    assert driver.thread.children.tasks == (expected_task(driver),)
    assert driver.events_of("task_changed") == [TaskChanged(task=expected_task(driver, thread_id=None))]
    started = ChildStarted(
        work_id="bg_0", thread_id=driver.thread.children.tasks[0].thread_id or "", agent_id="researcher"
    )
    assert driver.events_of("child_started") == [started]
    assert isinstance(driver.thread.stage, Inferring)


def test_a_spawned_agent_knows_that_it_is_a_task() -> None:
    """B-511"""
    (started,) = with_tasks().commands_of(StartChild)
    identity = begin(started.request, thread_id="t1/x", run_id="t1/x").thread.identity
    assert identity.task == TaskRef(task_id="bg_0", thread_id="t1/x", owner_thread_id="t1")


def test_a_task_within_a_task_knows_its_parent_task() -> None:
    """B-534"""
    parent = SubagentContext(path=("t0",), work_id="bg_4", task_id="bg_4")
    request = RunRequest(agent_id="assistant", input="Hello", parent_thread_id="t0", subagent=parent)
    driver = with_tasks(driver=Driver(PARENT, request=request))
    context = TaskContext(task_id="bg_4", run_id="r1", call_id="c1", agent_id="assistant")
    assert driver.thread.children.tasks[0].parent_context == context


def test_a_background_tool_is_a_task_too() -> None:
    driver = with_tasks(background_call("c1"))
    assert answer_of(driver) == '{"task_id":"bg_0","status":"running"}'
    assert driver.commands_of(StartTask) == [StartTask("bg_0", DIG, background_call("c1"))]
    (task,) = driver.thread.children.tasks
    assert (task.task_type, task.description) == (TaskType.TOOL, 'dig {"at": "the garden"}')


def test_a_background_tool_that_a_gate_suspended_runs_with_the_arguments_of_the_decision() -> None:
    driver = Driver(PARENT)
    driver.model(asks_gated(background_call("c1"), c1=Suspend(ticket=make_ticket("s1"))))
    driver.decide(resume("s1").model_copy(update={"arguments": {"at": "the wood"}}))
    (started,) = driver.commands_of(StartTask)
    assert started.call.arguments == {"at": "the wood"}
    assert driver.event_types.count("tool_call_resumed") == 1


def test_a_long_description_is_cut() -> None:
    driver = with_tasks(spawn_call("c1", prompt="long  words\n" * 50))
    (task,) = driver.thread.children.tasks
    assert (len(task.description), task.description[:12], task.description[-1]) == (100, "long words l", "…")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (None, "agent must be one of: researcher, writer"),
        ({"prompt": "Go"}, "agent must be one of: researcher, writer"),
        ({"agent": "unknown", "prompt": "Go"}, "agent must be one of: researcher, writer"),
        ({"agent": ["writer"], "prompt": "Go"}, "agent must be one of: researcher, writer"),
        ({"agent": "writer"}, 'missing required field "prompt"'),
        ({"agent": "writer", "prompt": " "}, "prompt must not be empty"),
        ({"agent": "writer", "prompt": "Go", "name": 5}, "name must be a string"),
        ({"agent": "writer", "prompt": "Go", "name": "parent"}, "'parent' is a reserved name"),
        ({"agent": "writer", "prompt": "Go", "name": "self"}, "'self' is a reserved name"),
        ({"agent": "writer", "prompt": "Go", "name": "all"}, "'all' is a reserved name"),
        ({"agent": "writer", "prompt": "Go", "name": "broadcast"}, "'broadcast' is a reserved name"),
        ({"agent": "writer", "prompt": "Go", "name": "taken"}, "a running task named 'taken' already exists"),
    ],
)
def test_an_invalid_spawn_starts_nothing(arguments: JsonValue, error: str) -> None:
    """B-531, B-532"""
    driver = with_tasks(spawn_call("c1", "taken"), call("c2", "spawn_agent", arguments))
    assert answer_of(driver, "c2") == f"Invalid arguments: {error}"
    assert (len(driver.thread.children.tasks), len(driver.commands_of(StartChild))) == (1, 1)


def test_a_task_name_can_be_reused_after_the_task_has_ended() -> None:
    """B-532"""
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.feed(child_settled("bg_0"))
    driver.model(asks(spawn_call("c2", "scout")))
    assert [(task.task_id, task.name, task.status.value) for task in driver.thread.children.tasks] == [
        ("bg_0", "scout", "completed"),
        ("bg_1", "scout", "running"),
    ]
    assert answer_of(driver, "c2") == ('{"task_id":"bg_1","status":"running","name":"scout","agent_id":"researcher"}')


@pytest.mark.parametrize(("revision", "name"), [(1, "scout"), (2, "researcher")])
def test_the_name_that_a_model_gives_a_task_is_no_part_of_its_thread_id(revision: int, name: str) -> None:
    """Ids are in the clear where a codec encrypts the rest; a run of revision 1 replays with the ids that it has."""
    driver = with_tasks(spawn_call("c1", "scout"), driver=Driver(PARENT, revision=revision))
    assert [started.name for started in driver.commands_of(StartChild)] == [name]


def test_a_task_with_an_empty_name_has_no_name() -> None:
    assert with_tasks(spawn_call("c1", "")).thread.children.tasks[0].name is None


def test_task_ids_are_never_reused() -> None:
    """B-530, H-09"""
    driver = with_tasks(spawn_call("c1"), spawn_call("c2"))
    driver.feed(child_settled("bg_0"), child_settled("bg_1"))
    driver.last = Advance(after_continue_as_new(driver.thread))
    driver.model(asks(spawn_call("c3")))
    assert driver.thread.children.tasks[-1].task_id == "bg_2"
    restored = Driver(PARENT, request=THREAD, carryover=carryover(driver.thread))
    restored.model(asks(spawn_call("c4")))
    assert restored.thread.children.tasks[-1].task_id == "bg_3"


def test_a_thread_has_a_limit_of_running_tasks() -> None:
    driver = with_tasks(*(spawn_call(f"c{number}") for number in range(MAX_RUNNING + 1)))
    assert answer_of(driver, f"c{MAX_RUNNING}").startswith("Execution failed: 100 tasks are running")
    assert len(driver.thread.children.running) == MAX_RUNNING
    driver.feed(child_settled("bg_0"))
    driver.model(asks(spawn_call("again")))
    assert driver.thread.children.tasks[-1].task_id == "bg_100"


def test_a_task_has_a_share_of_the_budget_as_its_allowance() -> None:
    request = RunRequest(agent_id="assistant", input="Hello", budget=Budget(turns=9))
    driver = with_tasks(driver=Driver(PARENT, request=request))
    (started,) = driver.commands_of(StartChild)
    assert started.request.subagent is not None
    assert started.request.subagent.allowance == Budget(turns=4)


def test_tasks_are_listed() -> None:
    driver = with_tasks(spawn_call("c1", "scout"), background_call("c2"))
    driver.feed(ChildClosed("bg_1", "it was terminated"))
    driver.model(asks(call("c3", "list_tasks")))
    assert answer_of(driver, "c3") == (
        '{"tasks":[{"task_id":"bg_0","task_type":"sub_agent","name":"scout","description":"Look into it.",'
        '"status":"running","agent_id":"researcher"},{"task_id":"bg_1","task_type":"tool",'
        '"description":"dig {\\"at\\": \\"the garden\\"}","status":"failed","error":"it was terminated"}]}'
    )


@pytest.mark.parametrize("name", ["bg_0", "scout"])
def test_the_result_of_a_task_can_be_read_again(name: str) -> None:
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.feed(tool_settled("bg_0", {"gold": 3}))
    driver.model(asks(call("c2", "task_result", {"task": name})))
    assert '"status":"completed"' in answer_of(driver, "c2")
    assert '"result":{"gold":3}' in answer_of(driver, "c2")


def test_a_task_name_means_the_running_task_or_else_the_newest() -> None:
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.feed(child_settled("bg_0"))
    driver.model(asks(spawn_call("c2", "scout"), call("c3", "task_result", {"task": "scout"})))
    assert '"task_id":"bg_1"' in answer_of(driver, "c3")
    driver.feed(child_settled("bg_1"))
    driver.model(asks(call("c4", "task_result", {"task": "scout"})))
    assert '"task_id":"bg_1"' in answer_of(driver, "c4")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "Invalid arguments: missing 'task'"),
        ({"task": 3}, "Invalid arguments: missing 'task'"),
        ({"task": "bg_9"}, "Execution failed: task_not_found: bg_9"),
    ],
)
def test_the_result_of_an_unknown_task_is_an_error(arguments: JsonValue, error: str) -> None:
    driver = with_tasks(spawn_call("c1"), call("c2", "task_result", arguments))
    assert answer_of(driver, "c2") == error


def test_a_long_result_is_stored_shortened_and_read_whole() -> None:
    driver = with_tasks(background_call("c1"))
    driver.feed(tool_settled("bg_0", "x" * (2 * KEPT_RESULT)))
    kept = driver.thread.children.tasks[0].result
    assert isinstance(kept, dict)
    assert kept == {"cut": '"' + "x" * (KEPT_RESULT - 1) + "…", "note": "the task's event had the whole result"}
    driver.model(says("I wait."))
    assert "x" * 2 * KEPT_RESULT in driver.texts[-1]


def test_a_long_error_is_stored_shortened_and_read_whole() -> None:
    error = "x" * (2 * KEPT_RESULT)
    driver = with_tasks(background_call("c1"))
    driver.feed(
        ChildSettled(ChildResult(work_id="bg_0", thread_id=thread_id_of("bg_0"), status=TaskStatus.FAILED, error=error))
    )
    driver.model(says("Oh."))
    assert driver.thread.children.tasks[0].error == "x" * (KEPT_RESULT - 1) + "…"
    assert error in "".join(driver.texts)
    assert driver.inference().appended[-1] == "child:bg_0"


def test_the_oldest_ended_tasks_are_dropped() -> None:
    driver = with_tasks(*(spawn_call(f"c{number}") for number in range(KEPT_ENDED + 3)))
    driver.feed(*(child_settled(f"bg_{number}") for number in range(1, KEPT_ENDED + 3)))
    ids = [task.task_id for task in driver.thread.children.tasks]
    assert ids == ["bg_0", *(f"bg_{number}" for number in range(3, KEPT_ENDED + 3))]
    assert driver.thread.children.running[0].task_id == "bg_0"


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (tool_settled("bg_0"), task_event_text("bg_0", "completed", result="gold")),
        (child_settled("bg_0", termination=Errored(value="boom")), task_event_text("bg_0", "failed", error="boom")),
        (child_settled("bg_0", termination=Cancelled()), task_event_text("bg_0", "cancelled")),
        (ChildClosed("bg_0", "it was terminated"), task_event_text("bg_0", "failed", error="it was terminated")),
        (
            ChildSettled(ChildResult(work_id="bg_0", thread_id="t1/bg_0", status=TaskStatus.FAILED)),
            task_event_text("bg_0", "failed", error="no reason was reported"),
        ),
    ],
    ids=["completed", "failed", "cancelled", "closed", "without text"],
)
def test_the_model_reads_how_a_task_ended(fact: ChildSettled, text: str) -> None:
    """B-535, B-537"""
    driver = awaiting_tasks()
    driver.feed(fact)
    message = driver.thread.transcript.messages[-1]
    assert (message.id, message.text, message.visibility) == ("child_settled:t1/bg_0", text, Visibility.INTERNAL)


def test_the_end_of_a_task_is_recorded_and_emitted() -> None:
    """B-533, B-535"""
    driver = awaiting_tasks()
    began = driver.thread.children.tasks[0]
    driver.feed(child_settled("bg_0", termination=Errored(value="boom")))
    ended = driver.thread.children.tasks[0]
    assert (ended.status, ended.error, ended.completed_at_ms) == (TaskStatus.FAILED, "boom", driver.now)
    assert driver.last.events[0] == TaskChanged(task=ended)
    assert began.status is TaskStatus.RUNNING


@pytest.mark.parametrize(
    "fact",
    [
        ChildSettled(ChildResult(work_id="bg_0", thread_id="t9/another", status=TaskStatus.COMPLETED)),
        ChildSettled(ChildResult(work_id="bg_9", thread_id=thread_id_of("bg_9"), status=TaskStatus.COMPLETED)),
        ChildClosed("bg_9", "it was terminated"),
    ],
)
def test_a_result_from_another_thread_does_not_end_a_task(fact: ChildSettled) -> None:
    driver = with_tasks()
    before = driver.thread
    assert driver.feed(fact) == Advance(before)


def test_a_task_ends_once() -> None:
    """I-09"""
    driver = awaiting_tasks()
    driver.feed(tool_settled("bg_0"))
    before = driver.thread
    assert driver.feed(tool_settled("bg_0"), ChildClosed("bg_0", "it has ended")) == Advance(before)


def test_an_event_that_arrives_during_an_inference_is_read_in_the_next_step() -> None:
    """B-538, I-09"""
    driver = with_tasks()
    driver.feed(tool_settled("bg_0"))
    assert (task_events_read(driver), len(driver.commands_of(Infer))) == ([], 2)
    driver.model(says("I wait."))
    assert task_events_read(driver) == [("completed", "bg_0")]
    driver.model(says("Gold!"))
    assert driver.result.response == "Gold!"
    assert task_events_read(driver) == [("completed", "bg_0")]


def test_an_event_that_arrives_while_tools_run_is_read_after_their_results() -> None:
    """B-538, I-09"""
    driver = with_tasks()
    driver.model(asks(call("c2")))
    driver.feed(tool_settled("bg_0"))
    assert task_events_read(driver) == []
    driver.tool("c2", ok("sunny"))
    assert driver.texts[-2:] == ["sunny", task_event_text("bg_0", "completed", result="gold")]


def test_an_event_that_arrives_while_the_run_is_suspended_is_kept_until_the_decision() -> None:
    """B-538, I-06, H-21"""
    driver = with_tasks()
    driver.model(asks(call("c2")))
    driver.tool("c2", pending("s1"))
    driver.feed(task_event("bg_0"), tool_settled("bg_0"))
    assert isinstance(driver.thread.stage, AwaitingDecisions)
    assert (task_events_read(driver), driver.last.commands) == ([], ())
    driver.last = Advance(after_continue_as_new(driver.thread))
    driver.decide(resume("s1"))
    driver.tool("c2", ok("sunny"))
    assert task_events_read(driver) == [("custom", "bg_0"), ("completed", "bg_0")]


def test_an_event_for_an_idle_thread_starts_a_run_of_internal_origin() -> None:
    """B-540, I-09"""
    driver = idle_with_task()
    driver.feed(tool_settled("bg_0"))
    identity = driver.thread.identity
    assert (identity.run_id, identity.origin) == ("r1.2", Origin.INTERNAL)
    assert isinstance(driver.thread.stage, Resolving)
    driver.resolve(PARENT)
    assert task_events_read(driver) == [("completed", "bg_0")]
    driver.model(says("Gold!"))
    driver.submit("m1")
    assert driver.thread.identity.origin is Origin.USER


def test_an_event_that_arrives_before_the_agent_is_resolved_is_read_in_the_first_step() -> None:
    driver = idle_with_task()
    driver.submit("m1")
    driver.feed(tool_settled("bg_0"))
    driver.resolve(PARENT)
    assert driver.texts[-2:] == ["And then?", task_event_text("bg_0", "completed", result="gold")]


def test_a_done_thread_keeps_late_events_of_its_tasks_in_the_carryover() -> None:
    """B-541, H-07, I-09"""
    driver = with_tasks(spawn_call("c1"), spawn_call("c2"), agent=make_parent(max_rounds=1))
    assert isinstance(driver.thread.stage, Done)
    driver.feed(task_event("bg_0"), tool_settled("bg_0"), ChildClosed("bg_1", "it was terminated"))
    assert (driver.last.commands, driver.last.events) == ((), ())
    kept = carryover(driver.thread)
    assert [message.id for message in kept.mail] == ["event_1", "child_settled:t1/bg_0", "child_settled:t1/bg_1"]
    assert [task.status.value for task in kept.tasks] == ["completed", "failed"]
    woken = Driver(PARENT, request=THREAD, carryover=kept)
    assert task_events_read(woken) == [("custom", "bg_0"), ("completed", "bg_0"), ("failed", "bg_1")]
    before = woken.thread
    assert woken.feed(tool_settled("bg_0")) == Advance(before)


def test_mail_in_the_carryover_starts_no_run() -> None:
    driver = with_tasks(agent=make_parent(max_rounds=1))
    driver.feed(tool_settled("bg_0"))
    woken = Driver(None, request=NO_INPUT, carryover=carryover(driver.thread))
    assert (woken.thread.stage, woken.commands) == (Idle(), [])
    woken.submit()
    assert (woken.thread.stage, woken.commands) == (Idle(), [])
    woken.submit("m1")
    woken.resolve(PARENT)
    assert woken.texts == ["And then?", task_event_text("bg_0", "completed", result="gold")]
    assert woken.thread.identity.origin is Origin.USER


def test_a_steering_message_starts_a_run_with_its_overrides_despite_mail_in_the_carryover() -> None:
    driver = with_tasks(agent=make_parent(max_rounds=1))
    driver.feed(tool_settled("bg_0"))
    woken = Driver(None, request=NO_INPUT, carryover=carryover(driver.thread))
    wanted = RunRequest.model_validate({"agent_id": "a", "input": "b", "overrides": {"max_tokens": 9}}).overrides
    woken.submit("m1", on_busy=OnBusy.STEER, overrides=wanted)
    assert woken.thread.current.settings.overrides == wanted
    woken.resolve(PARENT)
    assert woken.texts == [task_event_text("bg_0", "completed", result="gold"), "And then?"]


def test_a_woken_thread_waits_for_the_tasks_in_its_carryover() -> None:
    """H-08"""
    old = with_tasks(spawn_call("c1", "scout"), agent=make_parent(max_rounds=1))
    driver = Driver(PARENT, request=THREAD, carryover=carryover(old.thread))
    driver.model(says("Hello again!"))
    assert driver.thread.status.value == "waiting"
    driver.feed(tool_settled("bg_0"))
    driver.model(says("Gold!"))
    assert (driver.result.response, task_events_read(driver)) == ("Gold!", [("completed", "bg_0")])


def test_the_events_of_a_task_are_read_in_order() -> None:
    """B-536"""
    driver = with_tasks(spawn_call("c1"), spawn_call("c2"))
    driver.feed(
        task_event("bg_0", "w1"),
        task_event("bg_1", "w2"),
        task_event("bg_0", "w1"),
        tool_settled("bg_0"),
        task_event("bg_1", "w3"),
    )
    driver.model(says("I wait."))
    assert task_events_read(driver) == [
        ("custom", "bg_0"),
        ("custom", "bg_1"),
        ("completed", "bg_0"),
        ("custom", "bg_1"),
    ]


def test_an_event_of_a_task_is_formatted_like_its_end() -> None:
    """B-535, B-537; awaken: inbox_events_wrapped_in_background_task_event_tag"""
    driver = awaiting_tasks()
    driver.feed(task_event("bg_0", payload={"done": 0.5}))
    assert driver.texts[-1] == (
        '<background-task-event kind="custom" task_id="bg_0">\n'
        '{"kind":"custom","task_id":"bg_0","event_type":"progress","payload":{"done":0.5}}\n'
        "</background-task-event>"
    )


@pytest.mark.parametrize("text", ["Look at row 7.", '<agent-message from="boss">', "x" * 3000])
def test_a_message_of_a_task_is_read_as_it_is(text: str) -> None:
    """B-537"""
    driver = awaiting_tasks()
    driver.feed(MailReceived(TaskEvent(message_id="event_1", task_id="bg_0", event_type="message", message=text)))
    message = Message(id="event_1", role=Role.USER, content=(TextBlock(text=text),), visibility=Visibility.INTERNAL)
    assert driver.thread.transcript.messages[-1] == message
    assert driver.inference().appended[-1] == (message if len(text) < 3000 else "mail:event_1")
    assert driver.events_of("mail_received")[-1] == MailArrived(message_id="event_1", text=text)
    assert not message.is_mail, "what looks like a tag of Wakeful's is escaped"


def test_a_long_task_event_is_appended_by_reference() -> None:
    driver = awaiting_tasks()
    driver.feed(task_event("bg_0", payload="x" * 3000))
    assert driver.inference().appended[-1] == "mail:event_1"


def test_a_run_that_stops_does_not_cancel_its_tasks() -> None:
    """B-539"""
    driver = with_tasks(agent=make_parent(max_rounds=1))
    assert (driver.result.status_reason, len(driver.thread.children.running)) == ("stopped:max_rounds", 1)


@pytest.mark.parametrize("thread", [False, True])
def test_a_run_that_fails_does_not_cancel_its_tasks(thread: bool) -> None:
    driver = awaiting_tasks(thread=thread)
    driver.feed(LoopFailed("boom"))
    assert (driver.result.termination, len(driver.thread.children.running)) == (
        Errored(value="boom", code="internal_error"),
        1,
    )
    assert driver.last.commands == ()
    assert [event.event_type for event in driver.last.events] == ["run_start", "run_finish"]


def test_every_task_that_is_cancelled_before_it_starts_has_an_end() -> None:
    """I-09"""
    driver = Driver(PARALLEL_PARENT, request=THREAD)
    start_without_ids(driver, spawn_call("c1"), spawn_call("c2"))
    driver.cancel()
    driver.feed(*(WorkCancelled(id) for id in sorted(driver.thread.in_flight)))
    assert [task.status.value for task in driver.thread.children.tasks] == ["cancelled", "cancelled"]
    assert driver.result.termination == Cancelled()
    driver.submit("m1")
    driver.resolve(PARENT)
    assert task_events_read(driver) == [("cancelled", "bg_0"), ("cancelled", "bg_1")]


def test_a_task_is_not_started_again_after_continue_as_new() -> None:
    driver = with_tasks(spawn_call("c1"), background_call("c2"))
    after = after_continue_as_new(driver.thread)
    assert [command.id for command in pending_commands(after)] == ["infer-2"]
    assert (after.children.tasks, after.counters.tasks) == (driver.thread.children.tasks, 2)


def test_a_task_that_a_rewind_undid_is_ignored_although_its_id_is_in_use_again() -> None:
    driver = awaiting_tasks()
    before = driver.thread
    assert driver.feed(task_event("bg_0", thread_id="t1/undone")) == Advance(before)
    assert driver.feed(task_event("bg_0", thread_id="t1/bg_0")) != Advance(before)
