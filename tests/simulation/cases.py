"""Defects that the simulation, or a real server, has shown: each as a directed schedule with what went wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation import people
from tests.simulation.scenario import CALM, FAIL, Call, scenario_of
from tests.simulation.server import CANCELED, FAILED
from wakeful.contract import names
from wakeful.contract.runs import ThreadMode

ASK: Call = ("ask", {"topic": "plain"})
ASK_QUICKLY: Call = ("ask", {"topic": "cancels"})
LOOK: Call = ("look", {"number": 1})
GLANCE: Call = ("glance", {"number": 1})
PAY: Call = ("pay", {"number": 1})
LATER: Call = ("later", {"number": 2})
SPAWN: Call = ("spawn_agent", {"agent": "leaf", "prompt": "do", "name": "task"})


@dataclass(frozen=True)
class Case:
    play: Callable[[], None]
    went_wrong: str
    mutant: str = ""
    """Restores the code in which it went wrong; empty if only another design could."""
    found_by: str = ""
    """How the error begins that the mutant causes."""


def decisions_for_a_continued_thread() -> None:
    """Two people decide at once on a thread that continued as new while it was suspended, and no worker has it."""
    with scenario_of("lead", [ASK, ASK], events=1) as scenario:
        scenario.go()
        scenario.move("kill", "decide t1 1-1 confirm", "decide t1 1-2 resume")
        scenario.go()
        assert {effect.call_id for effect in scenario.world.outside.effects} == {"1-1", "1-2"}
        scenario.end()


def confirmed_decision_before_the_first_task() -> None:
    """A decision is confirmed before the first task of an execution in which continue-as-new is due at once."""
    with scenario_of("plain", [ASK], events=1) as scenario:
        scenario.go()
        scenario.move("junk t1 0")
        scenario.go()
        scenario.move("wait 1", "timer t1")  # which a thread sets when it has handled nothing but signals
        scenario.go_until("report t1")
        scenario.move("report t1", "junk t1 0", "decide t1 1-1 confirm")
        scenario.go()
        scenario.move("wait 1000")
        scenario.go()
        (asked,) = [asked for asked in scenario.world.people.asked if asked.key.startswith("decide")]
        assert asked.task.result() == "applied"
        assert [effect.call_id for effect in scenario.world.outside.effects] == ["1-1"]
        scenario.end()


def query_before_a_deadline() -> None:
    """A query waits for a worker when a deadline passes: TimerFired is applied with the time of the task before."""
    with scenario_of("plain", [ASK_QUICKLY]) as scenario:
        scenario.go()
        scenario.move("evict t1", "look-at t1", "wait 6000", "timer t1", "query t1")
        scenario.go()
        scenario.end()


def query_before_continue_as_new() -> None:
    """A query applies a decision early, with a history that is too short by the event which makes continuing due."""
    with scenario_of("plain", [ASK]) as scenario:
        scenario.go()
        suspended = scenario.length
    with scenario_of(
        "plain", [ASK], events=suspended + 3
    ) as scenario:  # the signal, and its task scheduled and started
        scenario.go()
        scenario.move("evict t1", "look-at t1", "decide t1 1-1 resume", "query t1")
        scenario.go()
        scenario.end()


def decisions_after_an_empty_task() -> None:
    """After a task without commands, two decisions, one of them confirmed: core takes that task and theirs as one."""
    with scenario_of("lead", [ASK, ASK]) as scenario:
        scenario.go()
        first = [f"update t1 1-1 {name} 1" for name in people.UPDATES] or ["decide t1 1-1 confirm"]
        scenario.move("evict t1", *first, "decide t1 1-2 resume")
        scenario.go()
        scenario.end()


def granted_before_the_cancel() -> None:
    """A helper was granted an agent, and then the thread above it handles a cancel that has yet to reach the helper."""
    with scenario_of("lead", [("agent_run_helper", {"prompt": "do"})], helper=[SPAWN]) as scenario:
        scenario.go_through("transfer signal t1/helper", "budget_grant")
        scenario.move("cancel t1", f"task {scenario.name}", f"report {scenario.name}", "task t1/helper")
        scenario.go()
        scenario.end()


def worker_without_a_local_tool() -> None:
    """Two workers serve a run, and one of them was deployed without the local tool that the run has called."""
    options = replace(CALM, workers=2, lacks_local_tool=True)
    with scenario_of("plain", [GLANCE], [ASK], options=options) as scenario:
        scenario.go_through("end t1", "infer-1")
        scenario.move("unstick t1", f"task {scenario.name} on w2")
        scenario.go()
        scenario.end()


def worker_without_the_agent_and_its_tools() -> None:
    """The older of two workers, which has neither the run's agent nor its tools nor its plugin, gets all work first."""
    options = replace(CALM, workers=2, has_older_registry=True)
    with scenario_of("lead", [GLANCE], [PAY], options=options) as scenario:
        scenario.go_first_on("w2")
        assert [effect.tool for effect in scenario.world.outside.effects] == ["pay"]
        scenario.end()


def worker_of_the_release_before() -> None:
    """A thread continued as new on the newer of two releases, and its next task reaches a worker of the older one."""
    options = replace(CALM, workers=2, has_older_release=True)
    with scenario_of("plain", [ASK], events=1, options=options, mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        scenario.move("send t1 enqueue 1")
        scenario.go()
        scenario.move("wait 1", "timer t1")
        scenario.go()
        scenario.move("unstick t1", "decide t1 1-1 resume", f"task {scenario.name} on w2")
        scenario.go()
        scenario.end()


def woken_in_the_middle_of_calls() -> None:
    """A thread that was terminated in the middle of a tool call is woken: its model has to see a result."""
    with scenario_of("plain", [ASK]) as scenario:
        scenario.go()
        scenario.move("terminate t1", "send t1 enqueue 1")
        scenario.go()
        scenario.end()


def task_ends_while_its_thread_is_closed() -> None:
    """A task ends while its thread is terminated; the thread is woken, and has to learn of the end."""
    with scenario_of("lead", [SPAWN]) as scenario:
        scenario.go_until("task t1/leaf")
        scenario.move("terminate t1", "terminate t1/")
        scenario.go()
        scenario.move("send t1 enqueue 1")
        scenario.go()
        scenario.end()


def task_outlives_a_failed_run() -> None:
    """A run fails its workflow while its task runs; workers sweep, the task ends, and wakes the thread."""
    with scenario_of("lead", [SPAWN], FAIL, mode=ThreadMode.RUN) as scenario:
        scenario.go_without(children=False)
        failed = scenario.world.server.current["t1"]
        assert failed.status == FAILED
        scenario.move("sweep w1")
        scenario.go()
        woken = scenario.world.server.current["t1"]
        assert woken is not failed, "the end of the task did not wake its thread"
        scenario.end()


def cancelled_while_its_task_stops() -> None:
    """An idle thread is cancelled in Temporal, and its history is full before its task has stopped."""
    with scenario_of("lead", [SPAWN], FAIL, events=60, mode=ThreadMode.THREAD) as scenario:
        scenario.go_without(children=False)
        scenario.move("temporal-cancel t1", *(f"junk t1 {number}" for number in range(8)))
        scenario.go_without(children=False)
        scenario.go()
        scenario.end()
        assert scenario.world.server.current["t1"].status == CANCELED


def cancelled_by_a_flood_of_signals() -> None:
    """A thread is cancelled in Temporal together with so many signals that its history is twice as long as allowed."""
    with scenario_of("lead", [SPAWN], FAIL, events=60, mode=ThreadMode.THREAD) as scenario:
        scenario.go_without(children=False)
        scenario.move("temporal-cancel t1", *(f"junk t1 {number % 8}" for number in range(40)))
        scenario.go_without(children=False)
        scenario.go()
        scenario.end()
        assert scenario.world.server.current["t1"].status == CANCELED


def flooded_with_signals() -> None:
    """An idle thread handles nothing but signals, until its history is twice as long as allowed."""
    with scenario_of("plain", [], events=60, mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        first = scenario.name
        scenario.move(*(f"junk t1 {number % 8}" for number in range(40)))
        scenario.go()
        scenario.move("wait 1")
        scenario.go()
        assert scenario.name != first, "the thread did not continue as new"
        scenario.end()


def terminated_delegate_is_woken() -> None:
    """A sub-agent is terminated after its parent has continued as new, and a person wakes it with a message."""
    with scenario_of("lead", [("agent_run_helper", {"prompt": "do"})], events=1) as scenario:
        scenario.go_until("task t1/helper")
        scenario.move("transfer started", "task t1", "report t1", "junk t1 0", "task t1", "report t1")
        scenario.move("wait 1", "timer t1", "task t1", "report t1")
        (helper,) = (id for id in scenario.world.server.current if id.startswith("t1/helper"))
        scenario.move(f"task {helper}", f"report {helper}", f"terminate {helper}", f"send {helper} enqueue 1")
        scenario.go()
        scenario.end()


def terminated_in_a_workflow_task() -> None:
    """A thread is terminated while a worker has the task that starts a background task: it was never started."""
    with scenario_of("plain", [LATER]) as scenario:
        scenario.go_through("end t1", "infer-1")
        scenario.move("task t1", "terminate t1", "send t1 enqueue 1")
        scenario.go()
        scenario.end()


def reset_during_an_inference() -> None:
    """Someone resets a thread to a workflow task during an inference: its activity runs again with the old input."""
    with scenario_of("plain", [PAY], [], [GLANCE], mode=ThreadMode.THREAD) as scenario:
        scenario.go_without("infer-1")
        scenario.move("junk t1 0", "task t1", "report t1")
        execution = scenario.world.server.current["t1"]
        reset_point = len(execution.history)
        scenario.go()
        scenario.move("decide t1 1-1 resume")
        scenario.go()
        scenario.reset_to(execution, reset_point)
        scenario.go()
        scenario.end()


def terminated_after_a_reset() -> None:
    """Someone resets a thread, and terminates it before a workflow task has noticed the reset; then it is woken."""
    with scenario_of("plain", [PAY], [], [GLANCE], mode=ThreadMode.THREAD) as scenario:
        scenario.go_without("infer-1")
        execution = scenario.world.server.current["t1"]
        scenario.go()
        scenario.move("decide t1 1-1 resume")
        scenario.go()
        scenario.reset_to(execution, 10)
        scenario.move("terminate t1", "send t1 enqueue 1")
        scenario.go()
        scenario.end()


def terminated_before_it_continued() -> None:
    """A thread is terminated before the first task of a continued execution, after retention deleted the one before."""
    with scenario_of("plain", [LOOK], [ASK], events=1, mode=ThreadMode.THREAD) as scenario:
        scenario.stop_before("awaiting_decisions")
        earlier = scenario.world.server.executions[:-1]
        scenario.move(*["delete t1"] * len(earlier), "terminate t1", "send t1 enqueue 1")
        scenario.go()
        thread = scenario.world.people.thread_of(scenario.world.server.current["t1"])
        texts = [message.text for message in thread.transcript.messages] if thread else []
        assert texts == ["hello t1", "", "2", "", names.TOOL_INTERRUPTED, "message 1", "done"]
        scenario.end()


def predecessor_deleted_after_the_wake() -> None:
    """The same, but retention deletes the execution before only after the thread was woken."""
    with scenario_of("plain", [LOOK], [ASK], events=1, mode=ThreadMode.THREAD) as scenario:
        scenario.stop_before("awaiting_decisions")
        earlier = scenario.world.server.executions[:-1]
        scenario.move("terminate t1", "send t1 enqueue 1", *["delete t1"] * len(earlier))
        scenario.go()
        thread = scenario.world.people.thread_of(scenario.world.server.current["t1"])
        texts = [message.text for message in thread.transcript.messages] if thread else []
        assert texts == ["hello t1", "", "2", "", names.TOOL_INTERRUPTED, "message 1", "done"]
        scenario.end()


def messages_without_ids() -> None:
    """Two executions of a thread are each sent a message without an id: the thread has to tell them apart."""
    with scenario_of("plain", events=1, mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        for number in (1, 2):
            scenario.move(f"submit t1 enqueue {number}")
            scenario.go()
        scenario.end()


def decision_before_its_call() -> None:
    """A decision comes before its call has started, and the thread continues as new before the call suspends."""
    with scenario_of("plain", [LOOK, ASK], events=1) as scenario:
        scenario.go_without("tool-1-1")
        scenario.move("decide t1 1-2 early")
        scenario.go()
        scenario.end()


def worker_lost_after_an_effect() -> None:
    """A worker is lost after a tool has acted and before it has reported: the tool, which may repeat, runs again."""
    with scenario_of("plain", [ASK]) as scenario:
        scenario.go()
        scenario.move("decide t1 1-1 resume", "task t1", "report t1", f"activity {scenario.name}")
        scenario.move("activity-lost t1")
        scenario.go()
        scenario.end()


def worker_lost_after_a_payment() -> None:
    """The same with a tool that must not run twice: what came of the call is unknown, and the model reads that."""
    with scenario_of("lead", [PAY]) as scenario:
        scenario.go_without("tool-1-1")
        scenario.move(f"activity {scenario.name} tool-1-1", "activity-lost t1")
        scenario.go()
        scenario.end()


def allowed_always() -> None:
    """A person allows a tool for ever, and the thread continues as new before the tool is called again."""
    with scenario_of("plain", [PAY], [PAY], events=1, mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        scenario.move("decide t1 1-1 always")
        scenario.go()
        scenario.end()


def task_terminated_after_its_thread_continued() -> None:
    """A task is terminated, and the execution that started it has continued as new: only a sweep can notice."""
    with scenario_of("lead", [SPAWN], events=1) as scenario:
        scenario.go_until("task t1/leaf")
        scenario.move("transfer started", "task t1", "report t1", "junk t1 0", "task t1", "report t1")
        scenario.move("wait 1", "timer t1", "task t1", "report t1")
        (task,) = (id for id in scenario.world.server.current if id.startswith("t1/leaf"))
        scenario.move(f"terminate {task}")
        scenario.go()
        scenario.end()


def tasks_of_two_executions() -> None:
    """A thread starts a task in each of two executions: the second must not have the id of the first."""
    with scenario_of("lead", [LATER], [ASK], [LATER], events=1) as scenario:
        scenario.go()
        scenario.move("decide t1 2-1 resume")
        scenario.go()
        scenario.end()


def deadline_between_two_executions() -> None:
    """A deadline passes after a thread has continued as new, and before the first task of the next execution."""
    with scenario_of("plain", [ASK_QUICKLY], events=1) as scenario:
        scenario.stop_before("awaiting_decisions")
        scenario.move("wait 6000")
        scenario.go()
        scenario.end()


def mail_of_another_tenant() -> None:
    """An agent of another tenant writes to a thread."""
    with scenario_of("plain", mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        scenario.move("stray t1 mail 9")
        scenario.go()
        scenario.end()


def mail_that_cannot_be_returned() -> None:
    """A sub-agent that has ended and was woken returns mail, and its sender cannot be reached."""
    with scenario_of("lead", [("agent_run_helper", {"prompt": "do"})], mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        (helper,) = (id for id in scenario.world.server.current if id.startswith("t1/helper"))
        scenario.move(f"send {helper} enqueue 1")
        scenario.go()
        scenario.move(f"stray {helper} mail 2")
        scenario.go()
        scenario.end()


CASES = (
    Case(
        decisions_for_a_continued_thread,
        "The run was stuck: the update was accepted in another order than in the replay.",
    ),
    Case(
        confirmed_decision_before_the_first_task,
        "The decision was answered 'applied' by a handler that judged it after the run had continued as new, and lost.",
    ),
    Case(
        query_before_a_deadline,
        "The run was stuck: the early activation saw no deadline, and set another timer.",
        "alarm by the clock",
        "Nondeterminism: the workflow issued activity",
    ),
    Case(
        query_before_continue_as_new,
        "The run was stuck: the early activation did what the next execution should have done.",
    ),
    Case(
        decisions_after_an_empty_task,
        "The run was stuck: cold, the signal came before the tool's result; in the replay, after it.",
        "decisions by update",
        "Nondeterminism: the workflow issued activity",
    ),
    Case(
        worker_without_a_local_tool,
        "The run was stuck: on one worker the tool had failed, on the other it had not.",
        "unregistered is a fact",
        "Nondeterminism: history has event",
    ),
    Case(
        worker_without_the_agent_and_its_tools,
        "In a rolling deploy, runs ended because an older worker did not know their agent.",
        "older workers end runs",
        "AssertionError",
    ),
    Case(
        worker_of_the_release_before,
        "The older release dropped what it did not know, and the thread continued without it.",
        "newer state accepted",
        "Violated",
    ),
    Case(
        woken_in_the_middle_of_calls,
        "The model was shown calls without results, which no provider accepts.",
        "interrupted calls left open",
        "Violated: t1 stores an invalid conversation",
    ),
    Case(
        task_ends_while_its_thread_is_closed,
        "The woken thread waited for its task for ever.",
        "woken threads not swept",
        "Stuck: t1 waits for something that never comes",
    ),
    Case(
        task_outlives_a_failed_run,
        "The sweep cancelled the task of a run that had ended in an error, and its end did not wake the thread.",
        "failed is terminated",
        "AssertionError: the end of the task did not wake its thread",
    ),
    Case(
        cancelled_while_its_task_stops,
        "The thread continued as new with the signals that came with the cancel, and stayed open.",
        "cancel left behind",
        "Violated: t1 has continued as new without its cancel",
    ),
    Case(
        cancelled_by_a_flood_of_signals,
        "The thread continued as new with the signals that came with the cancel, and stayed open.",
        "cancel left behind in a long history",
        "Violated: t1 has continued as new without its cancel",
    ),
    Case(
        flooded_with_signals,
        "The thread waited for something else than a signal before it continued as new, and its history grew for ever.",
        "signals never settle",
        "AssertionError: the thread did not continue as new",
    ),
    Case(
        terminated_delegate_is_woken,
        "The sweep took the woken execution for a reset one, and the parent waited for its end for ever.",
        "woken is reset",
        "Stuck: t1 waits for something that never comes",
    ),
    Case(
        terminated_in_a_workflow_task,
        "The carryover had a task that was never started, and the woken thread waited for it for ever.",
        "reader looks ahead",
        "Stuck: t1 waits for something that never comes",
    ),
    Case(
        reset_during_an_inference,
        "A call had the id and the idempotency key of another call, which the reset had undone.",
        "answer keeps its lineage",
        "Violated: t1 has two calls with the id 1-1",
    ),
    Case(
        terminated_after_a_reset,
        "A call of the woken thread had the id and the idempotency key of another call, which the reset had undone.",
        "reset not noticed by a wake",
        "Violated: t1 has two calls with the id 1-1",
    ),
    Case(
        terminated_before_it_continued,
        "The woken thread waited for ever for an execution that the server had deleted.",
        "snapshot not read",
        "AssertionError: there is no end",
    ),
    Case(
        predecessor_deleted_after_the_wake,
        "The woken thread waited for ever for an execution that the server had deleted.",
        "wake names what started",
        "AssertionError: there is no end",
    ),
    Case(
        messages_without_ids,
        "Two messages had the same id, and the second was taken for a repeated one.",
        "submissions restart",
        "Violated: t1: 2 messages without an id, but 1 outcomes",
    ),
    Case(
        decision_before_its_call,
        "The decision was lost, and the call waited for another one.",
        "held forgotten",
        "Violated: t1 has continued as new without its run",
    ),
    Case(
        worker_lost_after_an_effect,
        "The other system could not tell that the second attempt was the same call.",
        "key of the attempt",
        "Violated: one call has several idempotency keys",
    ),
    Case(
        worker_lost_after_a_payment,
        "The tool ran twice.",
        "effects retried",
        "Violated: t1 paid twice for 1-1",
    ),
    Case(
        allowed_always,
        "The tool asked again.",
        "permissions forgotten",
        "Violated: t1 has continued as new without its permissions",
    ),
    Case(
        task_terminated_after_its_thread_continued,
        "The thread waited for its task for ever.",
        "no sweep",
        "Stuck: t1 waits for something that never comes",
    ),
    Case(
        tasks_of_two_executions,
        "The end of one task was taken for the end of the other.",
        "tasks restart",
        "Violated: t1 has several tasks with the id bg_0",
    ),
    Case(
        deadline_between_two_executions,
        "The call waited for a decision for ever.",
        "overdue alarm dropped",
        "Violated: t1 has missed an alarm",
    ),
    Case(
        granted_before_the_cancel,
        "The helper started another agent after the cancel, and so the tree outgrew it.",
        "ancestors not looked at",
        "Violated: t1/helper",
    ),
    Case(
        mail_of_another_tenant,
        "The model was shown the message.",
        "mail of other tenants read",
        "Violated: t1 has read a message of another tenant",
    ),
    Case(
        mail_that_cannot_be_returned,
        "The mail began a run whose commands were dropped: the thread waited for ever.",
        "unreturned mail begins a run",
        "Stuck: t1/helper",
    ),
)
