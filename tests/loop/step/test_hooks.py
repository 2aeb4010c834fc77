"""Lifecycle hooks: each runs once, at the start and end of runs, steps and the activation of agents."""

from collections.abc import Callable

import pytest

from tests.loop.children import BILLING, PARENT, child_settled, mail_received, make_parent, spawn_call
from tests.loop.driving import (
    AGENT,
    PARALLEL,
    REQUEST,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    make_agent,
    merge_op,
    ok,
    pending,
    says,
    set_op,
    snapshot_of,
    state_effects,
    thread_id_of,
    with_hooks,
)
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.budgets import Budget
from wakeful.contract.events import HookFailed
from wakeful.contract.hooks import HookEffects, LifecyclePhase, Phase, PluginBinding
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import (
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    OnBusy,
    Origin,
    StopDetail,
    Stopped,
    Termination,
)
from wakeful.contract.state import StateView
from wakeful.contract.subagents import SubagentContext
from wakeful.loop.machine.commands import CancelChild, CancelWork, Infer, NotifyParent, ResolveAgent, RunHooks
from wakeful.loop.machine.facts import HooksReturned, LoopFailed, TimerFired, WorkCancelled, WorkFailed
from wakeful.loop.machine.stages import Cancelling, Done, Idle, Inferring, RunningHooks
from wakeful.loop.thread.continue_as_new import pack, pending_commands, unpack
from wakeful.loop.thread.views import doing

ALL = tuple(LifecyclePhase)
BEGIN = (LifecyclePhase.ACTIVATE, LifecyclePhase.RUN_START)
LAST = (LifecyclePhase.RUN_END, LifecyclePhase.DEACTIVATE)
LEAVING = (LifecyclePhase.STEP_END, LifecyclePhase.DEACTIVATE)
ENOUGH = StopDetail(code="enough", detail="that will do")


def started(agent: ResolvedAgent | None = None, *, request: RunRequest = REQUEST) -> Driver:
    """A run whose `run_start` hooks have run."""
    driver = Driver(agent or with_hooks(*ALL), request=request)
    driver.hooks()
    return driver


def ending(*, request: RunRequest = REQUEST) -> Driver:
    """A run whose `run_end` hooks are running."""
    driver = started(request=request)
    driver.model(says("Hello!"))
    return driver


def moments(driver: Driver) -> list[tuple[LifecyclePhase, ...]]:
    return [command.phases for command in driver.commands_of(RunHooks)]


def test_no_hooks_run_for_an_agent_without_hooks() -> None:
    driver = Driver(with_hooks(phases=(Phase.AFTER_INFERENCE,)))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1))
    driver.model(says("Done."))
    assert (moments(driver), driver.result.termination) == ([], NaturalEnd())
    assert driver.thread.counters.hooks == 0


def test_only_the_phases_for_which_an_agent_has_hooks_are_run() -> None:
    driver = Driver(with_hooks(LifecyclePhase.RUN_START, LifecyclePhase.RUN_END))
    driver.hooks()
    driver.model(says("Done."))
    assert moments(driver) == [(LifecyclePhase.RUN_START,), (LifecyclePhase.RUN_END,)]


def test_the_first_step_starts_after_the_run_start_hooks() -> None:
    """B-030"""
    driver = Driver(with_hooks(*ALL))
    (command,) = driver.commands_of(RunHooks)
    assert (command.id, command.phases, command.step, command.state) == ("hooks-1", BEGIN, 0, StateView())
    assert driver.commands_of(Infer) == []
    assert doing(driver.thread) == "running hooks (activate, run_start)"
    driver.hooks(state_effects(set_op("draft", "a")))
    assert isinstance(driver.thread.stage, Inferring)


def test_step_end_hooks_run_once_per_step_with_the_next_inference_or_at_the_end() -> None:
    """B-037"""
    driver = started()
    assert driver.inference().ended_step == 0
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1))
    assert (driver.inference().ended_step, driver.inference().state) == (1, StateView())
    driver.model(asks(call("c2")))
    driver.tool("c2", ok(1))
    assert driver.inference().ended_step == 2
    driver.model(says("Done."))
    assert moments(driver) == [BEGIN, (LifecyclePhase.STEP_END, *LAST)]
    assert driver.commands_of(RunHooks)[-1].step == 3


def test_step_end_hooks_of_a_suspended_step_run_when_the_step_is_over() -> None:
    driver = started()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    assert moments(driver) == [BEGIN]
    driver.cancel("enough")
    assert moments(driver) == [BEGIN, (LifecyclePhase.STEP_END, *LAST)]


def test_an_agent_without_step_end_hooks_runs_none() -> None:
    driver = started(with_hooks(LifecyclePhase.RUN_START))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1))
    assert (driver.inference().ended_step, driver.inference().state) == (0, None)


def test_run_end_hooks_receive_the_termination_before_the_run_ends() -> None:
    """B-039"""
    driver = ending()
    last = driver.commands_of(RunHooks)[-1]
    assert last.result is not None
    assert (last.response, last.result.response, last.result.termination) == ("Hello!", "Hello!", NaturalEnd())
    assert "run_finish" not in driver.event_types
    driver.hooks(state_effects(merge_op("count", 1)))
    assert (driver.result, driver.event_types[-2:]) == (last.result, ["state_snapshot", "run_finish"])


def natural(driver: Driver) -> None:
    driver.model(says("Done."))


def cancelled(driver: Driver) -> None:
    driver.cancel("enough")
    driver.feed(WorkCancelled(driver.inference().id))


def stopped(driver: Driver) -> None:
    driver.model(says("Done."), HookEffects(stop=ENOUGH))


def blocked(driver: Driver) -> None:
    driver.model(asks(call("c1")))
    driver.block("c1", "locked")


def errored(driver: Driver) -> None:
    driver.feed(WorkFailed(driver.inference().id, "no model"))


@pytest.mark.parametrize(
    ("end", "termination"),
    [
        (natural, NaturalEnd()),
        (cancelled, Cancelled()),
        (stopped, Stopped(value=ENOUGH)),
        (blocked, Blocked(value="locked")),
        (errored, Errored(value="no model")),
    ],
)
def test_run_end_hooks_run_once_before_every_end(end: Callable[[Driver], None], termination: Termination) -> None:
    driver = started()
    end(driver)
    assert moments(driver) == [BEGIN, (LifecyclePhase.STEP_END, *LAST)]
    assert isinstance(driver.thread.stage, RunningHooks)
    driver.hooks()
    assert driver.result.termination == termination
    assert moments(driver) == [BEGIN, (LifecyclePhase.STEP_END, *LAST)]
    assert driver.event_types.count("step_end") == 1


def test_a_run_whose_loop_failed_ends_without_hooks() -> None:
    driver = started()
    driver.feed(LoopFailed("boom"))
    assert (driver.result.termination, moments(driver)) == (Errored(value="boom", code="internal_error"), [BEGIN])


@pytest.mark.parametrize("make", [lambda: Driver(with_hooks(*ALL)), ending])
def test_a_failure_of_the_loop_while_hooks_run_ends_the_run(make: Callable[[], Driver]) -> None:
    driver = make()
    running = driver.commands_of(RunHooks)[-1].id
    driver.feed(LoopFailed("boom"))
    assert driver.result.termination == Errored(value="boom", code="internal_error")
    assert CancelWork(running) in driver.commands


def test_a_run_whose_agent_could_not_be_resolved_has_no_hooks() -> None:
    driver = Driver(agent=None)
    driver.feed(WorkFailed("resolve-1", "no such agent"))
    assert (driver.result.termination, moments(driver)) == (Errored(value="no such agent"), [])


@pytest.mark.parametrize(
    ("fact", "error"),
    [(WorkFailed("hooks-1", "no worker"), "no worker"), (WorkCancelled("hooks-1"), "it was cancelled from outside")],
)
def test_hooks_that_fail_are_skipped(fact: WorkFailed | WorkCancelled, error: str) -> None:
    driver = Driver(with_hooks(*ALL))
    driver.feed(fact)
    assert driver.events_of("hook_failed") == [HookFailed(plugin="*", phase="activate+run_start", error=error)]
    assert isinstance(driver.thread.stage, Inferring)


def test_a_run_ends_even_if_its_run_end_hooks_fail() -> None:
    driver = ending()
    driver.feed(WorkFailed("hooks-2", "no worker"))
    assert (driver.result.termination, driver.event_types[-2:]) == (NaturalEnd(), ["hook_failed", "run_finish"])


def test_an_end_that_run_end_hooks_request_is_ignored() -> None:
    driver = ending(request=THREAD)
    driver.hooks(HookEffects(fail="too late"))
    assert (driver.result.termination, driver.thread.current.requested_end) == (NaturalEnd(), None)


def test_run_start_hooks_can_end_the_run_before_its_first_step() -> None:
    driver = Driver(with_hooks(*ALL))
    driver.hooks(HookEffects(block="not today"))
    assert moments(driver) == [BEGIN, LAST]
    driver.hooks()
    assert (driver.result.termination, driver.result.steps) == (Blocked(value="not today", code="plugin"), 0)


def test_a_cancel_cancels_running_hooks_and_keeps_their_effects() -> None:
    """B-060"""
    driver = Driver(with_hooks(*ALL))
    driver.cancel("enough")
    assert isinstance(driver.thread.stage, Cancelling)
    assert CancelWork("hooks-1") in driver.commands
    driver.feed(HooksReturned("hooks-1", state_effects(merge_op("visits", 1))))
    assert moments(driver) == [BEGIN, LAST]
    driver.hooks()
    assert (driver.result.status_reason, driver.thread.agent_state.thread) == ("cancelled", {"visits": 1})


def test_a_cancel_while_run_end_hooks_run_does_not_change_the_end() -> None:
    driver = ending(request=THREAD)
    moved = driver.cancel("enough")
    assert (moved.commands, moved.events) == ((), ())
    driver.hooks()
    assert driver.result.termination == NaturalEnd()
    assert isinstance(driver.thread.stage, Idle)


def test_a_thread_that_is_closed_while_run_end_hooks_run_ends_after_them() -> None:
    driver = ending(request=THREAD)
    driver.cancel(close=True)
    driver.cancel()
    driver.submit("m2", on_busy=OnBusy.INTERRUPT)
    driver.hooks()
    assert isinstance(driver.thread.stage, Done)
    assert (driver.result.termination, driver.thread.has_late) == (NaturalEnd(), True)


def test_a_thread_that_is_closed_while_run_end_hooks_run_cancels_its_tasks_first() -> None:
    driver = started(with_hooks(*ALL, agent=make_parent(max_rounds=1)), request=THREAD)
    driver.model(asks(spawn_call("c1")))
    assert isinstance(driver.thread.stage, RunningHooks)
    driver.cancel(close=True)
    driver.hooks()
    assert isinstance(driver.thread.stage, Idle)
    assert driver.commands_of(CancelChild) == [CancelChild("bg_0", thread_id_of("bg_0"), None)]
    driver.feed(child_settled("bg_0", termination=Cancelled()))
    assert isinstance(driver.thread.stage, Done)
    assert driver.result.status_reason == "stopped:max_rounds"


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.STEER, OnBusy.INTERRUPT])
def test_a_message_that_arrives_while_run_end_hooks_run_starts_the_next_run(on_busy: OnBusy) -> None:
    driver = ending(request=THREAD)
    driver.submit("m2", on_busy=on_busy)
    assert driver.thread.counters.runs == 1
    driver.hooks()
    assert (driver.thread.counters.runs, driver.texts) == (2, ["Hello", "Hello!", "And then?"])


def test_a_rollback_while_run_end_hooks_run_undoes_the_run() -> None:
    driver = ending(request=THREAD)
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.submit("m3", on_busy=OnBusy.INTERRUPT)
    driver.hooks()
    assert (driver.thread.counters.runs, driver.texts) == (2, ["And then?"])


def test_mail_that_arrives_while_hooks_run_is_read_in_the_next_step() -> None:
    driver = Driver(with_hooks(*ALL))
    driver.feed(mail_received("msg_1", "Hurry!"))
    driver.hooks()
    assert "Hurry!" in driver.texts[-1]


def test_the_deadline_cancels_hooks_but_not_run_end_hooks() -> None:
    agent = with_hooks(*ALL).model_copy(update={"budget": Budget(seconds=1)})
    driver = Driver(agent)
    driver.wait(2000)
    assert CancelWork("hooks-1") in driver.commands
    driver.feed(WorkCancelled("hooks-1"))
    assert moments(driver) == [BEGIN, LAST]
    assert driver.thread.next_alarm is None
    before = driver.thread
    assert driver.feed(TimerFired(driver.now)).thread == before
    driver.hooks()
    assert driver.result.status_reason == "stopped:budget"


def test_each_run_of_a_thread_has_its_hooks() -> None:
    driver = ending(request=THREAD)
    driver.hooks()
    driver.submit("m2")
    driver.resolve(with_hooks(*ALL))
    driver.hooks()
    driver.model(says("Hello again!"))
    driver.hooks()
    assert moments(driver) == [BEGIN, (LifecyclePhase.STEP_END, *LAST)] * 2
    assert [command.id for command in driver.commands_of(RunHooks)] == ["hooks-1", "hooks-2", "hooks-3", "hooks-4"]


@pytest.mark.parametrize("make", [lambda: Driver(with_hooks(*ALL)), ending])
def test_hooks_in_flight_run_again_after_continue_as_new(make: Callable[[], Driver]) -> None:
    driver = make()
    after = unpack(pack(snapshot_of(driver.thread))).thread
    assert (after.stage, after.counters.hooks, after.current.step.hooks_ran) == (
        driver.thread.stage,
        driver.thread.counters.hooks,
        driver.thread.current.step.hooks_ran,
    )
    assert pending_commands(after) == (driver.commands_of(RunHooks)[-1],)
    driver.last = type(driver.last)(after_continue_as_new(driver.thread))
    driver.hooks()
    assert isinstance(driver.thread.stage, Inferring | Done)


def handing_over() -> Driver:
    """A run that is about to hand off, with the hooks for it in flight."""
    driver = started()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1), HookEffects(handoff="billing"))
    return driver


def test_a_handoff_runs_step_end_and_deactivate_hooks_and_then_activate_hooks() -> None:
    driver = handing_over()
    leaving = driver.commands_of(RunHooks)[-1]
    assert (leaving.agent.agent_id, leaving.phases, leaving.step) == ("assistant", LEAVING, 1)
    assert len(driver.commands_of(ResolveAgent)) == 1
    driver.hooks()
    next_agent = with_hooks(*ALL, agent=BILLING)
    driver.resolve(next_agent)
    taking = driver.commands_of(RunHooks)[-1]
    assert (taking.agent, taking.phases) == (next_agent, (LifecyclePhase.ACTIVATE,))
    driver.hooks()
    assert (driver.inference().agent, driver.inference().ended_step) == (next_agent, 0)
    driver.model(says("Done."), HookEffects(handoff="assistant"))
    assert moments(driver) == [BEGIN, LEAVING, (LifecyclePhase.ACTIVATE,), (LifecyclePhase.STEP_END, *LAST)]


def test_deactivate_hooks_run_once_per_agent_of_a_run() -> None:
    driver = handing_over()
    driver.hooks()
    driver.resolve(with_hooks(*ALL, agent=BILLING))
    driver.hooks()
    driver.model(asks(call("c2")))
    driver.tool("c2", ok(1), HookEffects(handoff="assistant"))
    assert moments(driver) == [BEGIN, LEAVING, (LifecyclePhase.ACTIVATE,), LEAVING]


def test_a_run_that_ends_after_its_deactivate_hooks_does_not_run_them_again() -> None:
    stopped, cancelled, failed = handing_over(), handing_over(), handing_over()
    stopped.hooks(HookEffects(stop=ENOUGH))
    cancelled.cancel()
    cancelled.hooks()
    failed.hooks()
    failed.feed(WorkFailed(failed.commands_of(ResolveAgent)[-1].id, "no such agent"))
    assert [moments(driver) for driver in (stopped, cancelled, failed)] == [
        [BEGIN, LEAVING, (LifecyclePhase.RUN_END,)]
    ] * 3
    failed.hooks()
    assert failed.result.termination == Blocked(value="handoff resolve failed: no such agent", code="handoff")


def test_the_next_run_of_a_thread_runs_deactivate_hooks_again() -> None:
    driver = started(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1), HookEffects(handoff="billing"))
    driver.hooks(HookEffects(stop=ENOUGH))
    driver.hooks()
    driver.submit("m2")
    driver.resolve(with_hooks(*ALL))
    driver.hooks()
    driver.model(says("Done."))
    assert moments(driver)[-1] == (LifecyclePhase.STEP_END, *LAST)


def test_an_agent_that_takes_over_runs_no_hooks_for_earlier_steps() -> None:
    driver = Driver(PARENT)
    driver.model(asks(call("c1", "handoff_to_billing")))
    driver.resolve(with_hooks(LifecyclePhase.STEP_END, agent=BILLING))
    assert (driver.inference().ended_step, moments(driver)) == (0, [])
    driver.model(says("Done."))
    assert moments(driver) == [(LifecyclePhase.STEP_END,)]


def test_a_sub_agent_notifies_its_parent_after_its_run_end_hooks() -> None:
    context = SubagentContext(path=("t0",), work_id="bg_0", task_id="bg_0")
    request = RunRequest(
        agent_id="assistant", input="Hello", parent_thread_id="t0", origin=Origin.SUBAGENT, subagent=context
    )
    driver = ending(request=request)
    assert driver.commands_of(NotifyParent) == []
    driver.hooks()
    assert len(driver.commands_of(NotifyParent)) == 1


def test_a_run_that_stops_at_max_rounds_runs_its_run_end_hooks() -> None:
    driver = started(with_hooks(*ALL, agent=make_agent(PARALLEL.tool_mode, max_rounds=1)))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1))
    driver.hooks()
    assert driver.result.status_reason == "stopped:max_rounds"
    assert moments(driver) == [BEGIN, (LifecyclePhase.STEP_END, *LAST)]


def test_a_run_ends_if_required_hooks_fail() -> None:
    """A guard whose activity fails as a whole must not be skipped."""
    guard = PluginBinding(id="guard", lifecycle=(LifecyclePhase.RUN_START,), on_error="fail")
    driver = Driver(AGENT.model_copy(update={"plugins": (guard,)}))
    driver.feed(WorkFailed("hooks-1", "no worker"))
    assert driver.result.status_reason == "error:plugin 'guard' failed at run_start: no worker"
