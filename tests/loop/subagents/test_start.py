"""Delegates: a call that waits for a sub-agent, the request that starts the sub-agent, and its end."""

import pytest
from pydantic import JsonValue

from tests.loop.children import PARALLEL_PARENT, PARENT, child_settled, delegate_call, make_parent, start_without_ids
from tests.loop.driving import (
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    make_ticket,
    ok,
    resume,
    says,
    thread_id_of,
)
from wakeful.contract.agents import ToolMode
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.decisions import ResumeMode
from wakeful.contract.events import ActivitySnapshot, ChildStarted, ToolCallDone, ToolCallOutcome, ToolCallResumed
from wakeful.contract.gates import Suspend
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    Origin,
    StopDetail,
    Stopped,
    TaskRef,
    Termination,
    ToolCallStatus,
)
from wakeful.contract.subagents import ChildResult, SubagentContext
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop.machine.commands import CancelChild, CancelWork, StartChild
from wakeful.loop.machine.facts import (
    ChildClosed,
    ChildIdAssigned,
    ChildSettled,
    LoopFailed,
    TimerFired,
    WorkCancelled,
)
from wakeful.loop.machine.stages import CallingTools, Cancelling
from wakeful.loop.machine.state import Advance, Children, Mail
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.opening import begin
from wakeful.registry.runtime_tools import delegate_tool

CHILD = "delegate-c1"
FOUND: JsonValue = {
    "agent_id": "researcher",
    "status": "completed",
    "response": "Found.",
    "steps": 2,
    "output": {"text": "Found."},
}
READ = '{"agent_id":"researcher","status":"completed","response":"Found.","steps":2}'


def delegating(**changed: object) -> Driver:
    """A run whose call `c1` waits for a sub-agent."""
    driver = Driver(make_parent(**changed))  # type: ignore[arg-type]  # as make_parent's
    driver.model(asks(delegate_call("c1")))
    return driver


def progress(driver: Driver) -> list[tuple[JsonValue, JsonValue]]:
    shown = [event.content for event in driver.events if isinstance(event, ActivitySnapshot)]
    return [(content["status"], content["message"]) for content in shown if isinstance(content, dict)]


def result_of(driver: Driver) -> ToolResult:
    (done,) = [event for event in driver.events if isinstance(event, ToolCallDone)]
    return done.result


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (None, 'missing required field "prompt"'),
        ("find", 'missing required field "prompt"'),
        ({}, 'missing required field "prompt"'),
        ({"prompt": 5}, 'missing required field "prompt"'),
        ({"prompt": ""}, "prompt must not be empty"),
        ({"prompt": " \n"}, "prompt must not be empty"),
    ],
)
def test_a_delegate_without_a_prompt_is_an_error_and_starts_no_child(arguments: JsonValue, error: str) -> None:
    """B-501"""
    driver = Driver(PARENT)
    driver.model(asks(call("c1", "agent_run_researcher", arguments)))
    assert driver.tool_results == [("c1", f"Invalid arguments: {error}")]
    assert driver.commands_of(StartChild) == []


def test_a_delegate_receives_its_prompt_and_its_subagent_context_and_nothing_else() -> None:
    """B-502, B-503, B-504, I-13"""
    driver = Driver(PARENT, request=RunRequest(agent_id="assistant", input="Hello", session_id="s9"))
    driver.model(asks(delegate_call("c1", "  Look into it. \n")))
    request = RunRequest(
        agent_id="researcher",
        input="Look into it.",
        parent_thread_id="t1",
        parent_run_id="r1",
        parent_tool_call_id="c1",
        session_id="s9",
        origin=Origin.SUBAGENT,
        subagent=SubagentContext(path=("t1",), work_id=CHILD),
    )
    assert driver.last.commands == (StartChild(CHILD, request, "researcher", counted=True),)
    child = begin(request, thread_id="t1/x", run_id="t1/x").thread
    assert [message.text for message in child.transcript.messages] == ["Look into it."]
    identity = child.identity
    assert (identity.parent_thread_id, identity.parent_run_id, identity.parent_tool_call_id) == ("t1", "r1", "c1")
    assert (identity.origin, identity.path, identity.task) == (Origin.SUBAGENT, ("t1",), None)
    assert child.parent is not None
    assert child.parent.work_id == CHILD
    assert (child.agent_state, child.mail, child.children) == (AgentState(), Mail(), Children())


def test_a_delegate_within_a_task_knows_the_task() -> None:
    """B-511"""
    task = TaskRef(task_id="bg_0", thread_id="t0/bg_0", owner_thread_id="t0")
    context = SubagentContext(path=("t0",), work_id="delegate-c0", within=task)
    driver = Driver(PARENT, request=RunRequest(agent_id="assistant", input="Hello", subagent=context))
    driver.model(asks(delegate_call("c1")))
    (started,) = driver.commands_of(StartChild)
    assert started.request.subagent == SubagentContext(path=("t0", "t1"), work_id=CHILD, within=task)


@pytest.mark.parametrize(
    ("termination", "status", "text"),
    [
        (NaturalEnd(), "completed", None),
        (BehaviorRequested(), "completed", None),
        (Cancelled(), "cancelled", "delegation to researcher cancelled"),
        (Errored(value="no model"), "failed: no model", "delegation to researcher failed: no model"),
        (Blocked(value="locked"), "failed: blocked: locked", "delegation to researcher failed: blocked: locked"),
        (
            Stopped(value=StopDetail(code="max_rounds", detail="16 rounds")),
            "failed: stopped: max_rounds (16 rounds)",
            "delegation to researcher failed: stopped: max_rounds (16 rounds)",
        ),
        (
            Stopped(value=StopDetail(code="budget")),
            "failed: stopped: budget",
            "delegation to researcher failed: stopped: budget",
        ),
    ],
)
def test_the_model_reads_how_its_delegate_ended(termination: Termination, status: str, text: str | None) -> None:
    """B-022, B-505"""
    driver = delegating()
    driver.feed(child_settled(CHILD, termination=termination))
    data = {**FOUND, "status": status} if isinstance(FOUND, dict) else FOUND
    metadata: dict[str, JsonValue] = {"child_thread_id": thread_id_of(CHILD), "child_run_id": thread_id_of(CHILD)}
    assert result_of(driver) == ToolResult(
        tool_name="agent_run_researcher",
        status=ToolStatus.SUCCESS if text is None else ToolStatus.ERROR,
        data=data,
        message=text or READ,
        metadata=metadata,
    )
    assert len(driver.tool_results) == 1
    assert driver.inference().id == "infer-2"


def test_a_delegate_without_a_text_has_an_empty_response() -> None:
    driver = delegating()
    driver.feed(child_settled(CHILD, response=""))
    read = {"agent_id": "researcher", "status": "completed", "response": "", "steps": 2}
    assert result_of(driver).data == {**read, "output": {"text": ""}}
    assert driver.json_result("c1") == read


def test_the_typed_output_of_a_delegate_is_read_as_data() -> None:
    """B-505"""
    driver = delegating()
    driver.feed(child_settled(CHILD, response='{"sky":"blue"}', output={"sky": "blue"}))
    assert result_of(driver).data == {
        "agent_id": "researcher",
        "status": "completed",
        "response": '{"sky":"blue"}',
        "output": {"text": '{"sky":"blue"}', "raw": {"sky": "blue"}},
        "steps": 2,
    }


def test_watchers_see_a_delegate_start_and_end() -> None:
    """B-241, B-506"""
    driver = delegating()
    driver.feed(child_settled(CHILD))
    assert progress(driver) == [("running", "delegating to researcher"), ("done", "researcher is done")]
    assert driver.events_of("activity_snapshot")[0].model_dump()["content"] == {
        "schema": "tool-call-progress.v1",
        "node_id": "tool_call:c1",
        "parent_node_id": "run:r1",
        "call_id": "c1",
        "tool_name": "agent_run_researcher",
        "run_id": "r1",
        "thread_id": "t1",
        "status": "running",
        "message": "delegating to researcher",
    }


def test_watchers_see_the_thread_id_of_a_delegate() -> None:
    driver = delegating()
    thread = thread_id_of(CHILD)
    started = ChildStarted(work_id=CHILD, thread_id=thread, call_id="c1", agent_id="researcher")
    assert driver.events_of("child_started") == [started]


def test_watchers_see_the_id_of_a_delegate_of_another_service_as_its_request_has_it() -> None:
    """B-626: the name of its tool cannot have a slash."""
    remote = delegate_tool("partner/weather", "")
    driver = Driver(make_parent(tools=(remote,)))
    driver.model(asks(call("c1", remote.id, {"prompt": "Look into it."})))
    assert remote.id == "agent_run_partner__weather"
    started = ChildStarted(work_id=CHILD, thread_id=thread_id_of(CHILD), call_id="c1", agent_id="partner/weather")
    assert driver.events_of("child_started") == [started]


def test_a_thread_id_that_is_assigned_after_the_end_emits_no_event() -> None:
    """B-042"""
    driver = Driver(PARENT)
    start_without_ids(driver, delegate_call("c1"))
    driver.feed(LoopFailed("boom"))
    driver.feed(ChildIdAssigned(CHILD, "t1/late"))
    assert driver.events[-1].event_type == "run_finish"


@pytest.mark.parametrize(
    ("termination", "status"), [(Cancelled(), "cancelled"), (Errored(value="boom"), "failed"), (NaturalEnd(), "done")]
)
def test_the_last_progress_of_a_delegate_says_how_it_ended(termination: Termination, status: str) -> None:
    """B-506"""
    driver = delegating()
    driver.feed(child_settled(CHILD, termination=termination))
    assert progress(driver)[-1][0] == status


def test_a_delegate_that_times_out_is_cancelled_and_waited_for() -> None:
    """B-505, H-10"""
    driver = delegating(delegate_timeout_seconds=60)
    assert driver.thread.next_alarm == driver.now + 60_000
    driver.wait(60_000)
    assert driver.last.commands == (CancelChild(CHILD, thread_id_of(CHILD), "it timed out"),)
    assert driver.call_statuses == [ToolCallStatus.RUNNING]
    before = driver.thread
    assert driver.wait(1000) == Advance(before), "it is cancelled once"
    driver.feed(child_settled(CHILD, termination=Cancelled()))
    assert driver.tool_results == [("c1", "delegation to researcher timed out")]
    assert progress(driver)[-1] == ("cancelled", "delegation to researcher timed out")


def test_a_delegate_that_ends_before_its_cancel_reaches_it_has_its_result() -> None:
    driver = delegating(delegate_timeout_seconds=60)
    driver.wait(60_000)
    driver.feed(child_settled(CHILD))
    assert result_of(driver).status is ToolStatus.SUCCESS


def test_a_delegate_is_waited_for_until_its_timeout() -> None:
    driver = delegating(delegate_timeout_seconds=60)
    before = driver.thread
    assert driver.wait(59_000) == Advance(before)


def test_a_timer_does_not_cancel_a_delegate_without_a_thread_id() -> None:
    driver = Driver(make_parent(delegate_timeout_seconds=0.001))
    start_without_ids(driver, delegate_call("c1"))
    before = driver.thread
    assert driver.wait(1000) == Advance(before.with_run(replace(before.current, alarmed_at=driver.now)))


def test_sub_agents_have_a_depth_limit() -> None:
    """B-510"""
    context = SubagentContext(path=("t0", "t0/a"), work_id="delegate-c0")
    deep = Driver(make_parent(max_depth=2), request=RunRequest(agent_id="assistant", input="Hello", subagent=context))
    deep.model(asks(delegate_call("c1")))
    assert deep.tool_results == [
        ("c1", "Execution failed: no sub-agent was started: a tree may have at most 2 levels of them (max_depth)")
    ]
    assert deep.commands_of(StartChild) == []
    assert delegating(max_depth=1).commands_of(StartChild) != []


def test_a_prompt_that_is_too_long_for_a_message_starts_no_child() -> None:
    driver = Driver(PARENT)
    driver.model(asks(delegate_call("c1", "x" * 3_000_000)))
    assert driver.commands_of(StartChild) == []
    assert driver.tool_results[0][1].startswith("Execution failed: no sub-agent was started: ")


def test_parallel_delegates_run_together_and_answer_in_call_order() -> None:
    """B-241"""
    driver = Driver(PARALLEL_PARENT)
    driver.model(asks(delegate_call("c1"), delegate_call("c2", to="writer"), call("c3")))
    assert [started.name for started in driver.commands_of(StartChild)] == ["researcher", "writer"]
    driver.feed(child_settled("delegate-c2", response="Written."), child_settled(CHILD))
    driver.tool("c3", ok("sunny"))
    assert [call_id for call_id, _ in driver.tool_results] == ["c1", "c2", "c3"]
    assert '"response":"Written."' in driver.tool_results[1][1]


def test_delegates_of_a_sequential_agent_run_one_by_one() -> None:
    driver = Driver(PARENT)
    driver.model(asks(delegate_call("c1"), delegate_call("c2")))
    assert [started.id for started in driver.commands_of(StartChild)] == [CHILD]
    driver.feed(child_settled(CHILD))
    assert [started.id for started in driver.commands_of(StartChild)] == [CHILD, "delegate-c2"]


@pytest.mark.parametrize(
    ("response", "source"), [("Found.", None), ("x" * 3000, f"child:{CHILD}")], ids=["short", "long"]
)
def test_a_long_delegate_result_is_appended_by_reference(response: str, source: str | None) -> None:
    driver = delegating()
    driver.feed(child_settled(CHILD, response=response))
    appended = driver.inference().appended
    assert appended == ("infer-1", source or driver.thread.transcript.messages[-1])


def test_a_long_delegate_error_is_appended_by_value() -> None:
    driver = delegating()
    driver.feed(child_settled(CHILD, termination=Errored(value="x" * 3000)))
    assert driver.inference().appended == ("infer-1", driver.thread.transcript.messages[-1])


@pytest.mark.parametrize(
    "fact",
    [
        ChildSettled(ChildResult(work_id=CHILD, thread_id="t9/another", status=TaskStatus.COMPLETED)),
        ChildSettled(
            ChildResult(work_id="delegate-c9", thread_id=thread_id_of("delegate-c9"), status=TaskStatus.COMPLETED)
        ),
        ChildClosed("delegate-c9", "it was terminated"),
        ChildIdAssigned("delegate-c9", "t1/another"),
        WorkCancelled("delegate-c9"),
    ],
    ids=[
        "another's thread",
        "another's name",
        "another that is closed",
        "another that has its thread id",
        "other work",
    ],
)
def test_a_fact_about_another_child_does_not_finish_the_delegates_call(fact: ChildSettled) -> None:
    driver = delegating()
    before = driver.thread
    assert driver.feed(fact) == Advance(before)


def test_a_repeated_end_of_a_delegate_is_a_no_op() -> None:
    driver = delegating()
    driver.feed(child_settled(CHILD))
    before = driver.thread
    assert driver.feed(child_settled(CHILD), ChildClosed(CHILD, "it has ended")) == Advance(before)


def test_a_closed_child_does_not_finish_the_call_of_an_ordinary_tool() -> None:
    driver = Driver(PARENT)
    driver.model(asks(call("c1")))
    before = driver.thread
    assert driver.feed(ChildClosed("tool-c1", "who?")) == Advance(before)


def test_a_delegate_that_closes_without_a_result_has_failed() -> None:
    driver = delegating()
    driver.feed(ChildClosed(CHILD, "it was terminated"))
    assert driver.tool_results == [("c1", "delegation to researcher failed: it was terminated")]
    assert result_of(driver).metadata == {"child_thread_id": thread_id_of(CHILD)}


def test_a_child_that_fails_without_an_error_text_has_failed() -> None:
    driver = delegating()
    driver.feed(ChildSettled(ChildResult(work_id=CHILD, thread_id=thread_id_of(CHILD), status=TaskStatus.FAILED)))
    assert driver.tool_results == [("c1", "delegation to researcher failed: no reason was reported")]


def test_a_delegate_that_a_gate_suspended_is_started_once_by_the_decision() -> None:
    """H-05, I-04"""
    driver = Driver(PARENT)
    driver.model(asks_gated(delegate_call("c1"), c1=Suspend(ticket=make_ticket("s1"))))
    assert (driver.call_statuses, driver.commands_of(StartChild)) == ([ToolCallStatus.SUSPENDED], [])
    driver.decide(resume("s1"))
    (started,) = driver.commands_of(StartChild)
    assert (started.id, started.request.input) == ("delegate.2-c1", "Look into it.")
    driver.feed(child_settled("delegate.2-c1"))
    (resumed,) = [event for event in driver.events if isinstance(event, ToolCallResumed)]
    metadata: JsonValue = {"child_thread_id": "t1/delegate.2-c1", "child_run_id": "t1/delegate.2-c1"}
    assert (resumed.target_id, resumed.result) == ("c1", {"data": FOUND, "metadata": metadata})
    driver.model(says("Done."))
    assert len(driver.commands_of(StartChild)) == 1


def test_a_decision_can_replace_the_prompt_of_a_delegate() -> None:
    driver = Driver(PARENT)
    gated = Suspend(ticket=make_ticket("s1", mode=ResumeMode.PASS_DECISION_TO_TOOL))
    driver.model(asks_gated(delegate_call("c1"), c1=gated))
    driver.decide(resume("s1", {"prompt": "Look elsewhere."}))
    (started,) = driver.commands_of(StartChild)
    assert started.request.input == "Look elsewhere."


def test_a_decision_for_a_running_delegate_is_held_and_then_refused() -> None:
    driver = delegating()
    driver.decide(resume("c1"))
    assert driver.refusal_reasons == []
    driver.feed(child_settled(CHILD))
    assert driver.refusal_reasons == ["unknown key: tool call or suspension 'c1' not found"]


def test_a_delegate_reserves_a_share_of_the_budget_and_releases_it() -> None:
    request = RunRequest(agent_id="assistant", input="Hello", budget=Budget(tokens=900))
    driver = Driver(PARALLEL_PARENT, request=request)
    driver.model(asks(delegate_call("c1"), delegate_call("c2")))
    allowances = [
        command.request.subagent and command.request.subagent.allowance for command in driver.commands_of(StartChild)
    ]
    assert allowances == [Budget(tokens=300), Budget(tokens=300)]
    assert dict(driver.thread.current.budget.reserved) == {CHILD: Budget(tokens=300), "delegate-c2": Budget(tokens=300)}
    driver.feed(child_settled(CHILD, spent=Spent(tokens=40, turns=2)))
    assert (dict(driver.thread.current.budget.reserved), driver.thread.current.budget.descendants) == (
        {"delegate-c2": Budget(tokens=300)},
        Spent(tokens=40, turns=2),
    )


@pytest.mark.parametrize("mode", ToolMode)
def test_a_delegate_is_not_started_again_after_continue_as_new(mode: ToolMode) -> None:
    driver = Driver(make_parent(mode))
    driver.model(asks(delegate_call("c1")))
    driver.last = Advance(after_continue_as_new(driver.thread))
    assert (pending_commands(driver.thread), driver.thread.bound_to_execution) == ((), frozenset())
    driver.feed(child_settled(CHILD))
    assert [call_id for call_id, _ in driver.tool_results] == ["c1"]


def test_cancel_reaches_every_delegate_and_waits_for_all_of_them() -> None:
    """B-508, H-10, I-10"""
    driver = Driver(PARALLEL_PARENT)
    driver.model(asks(delegate_call("c1"), delegate_call("c2"), call("c3")))
    driver.cancel("enough")
    assert driver.last.commands == (
        CancelChild(CHILD, thread_id_of(CHILD), "enough"),
        CancelChild("delegate-c2", thread_id_of("delegate-c2"), "enough"),
        CancelWork("tool-c3"),
    )
    driver.tool_cancelled("c3")
    driver.feed(child_settled(CHILD, termination=Cancelled()))
    assert isinstance(driver.thread.stage, Cancelling)
    driver.feed(child_settled("delegate-c2"))
    assert (driver.result.termination, driver.result.detail) == (Cancelled(), "enough")
    assert driver.result.receipt is not None
    assert (driver.result.receipt.cancelled, driver.result.receipt.ended) == (
        (thread_id_of(CHILD),),
        ("t1/delegate-c2",),
    )
    assert [text[:31] for _, text in driver.tool_results] == [
        "delegation to researcher cancel",
        '{"agent_id":"researcher","statu',
        TOOL_INTERRUPTED[:31],
    ]


def test_a_gate_that_ends_the_run_cancels_its_delegates() -> None:
    driver = Driver(PARALLEL_PARENT)
    driver.model(asks(delegate_call("c1"), call("c2")))
    driver.block("c2", "locked")
    assert driver.last.commands == (CancelChild(CHILD, thread_id_of(CHILD), "locked"),)
    driver.feed(ChildClosed(CHILD, "it was terminated"))
    assert driver.result.termination == Blocked(value="locked")


def test_a_run_whose_loop_fails_cancels_its_delegates() -> None:
    driver = delegating()
    driver.feed(LoopFailed("boom"))
    assert driver.last.commands == (CancelChild(CHILD, thread_id_of(CHILD), None),)
    assert driver.result.termination == Errored(value="boom", code="internal_error")
    ended = driver.thread
    assert driver.feed(child_settled(CHILD)) == Advance(ended)


def test_a_delegate_that_is_cancelled_before_it_starts_never_starts() -> None:
    driver = Driver(PARENT)
    start_without_ids(driver, delegate_call("c1"))
    driver.cancel()
    assert driver.last.commands == (CancelWork(CHILD),)
    driver.feed(WorkCancelled(CHILD))
    assert (driver.tool_results, driver.result.receipt) == ([("c1", TOOL_INTERRUPTED)], None)


def test_a_delegate_whose_thread_id_is_assigned_during_a_cancel_is_cancelled() -> None:
    """H-10"""
    driver = Driver(PARENT)
    start_without_ids(driver, delegate_call("c1"))
    driver.cancel("enough")
    driver.feed(ChildIdAssigned(CHILD, "t1/late"))
    assert driver.last.commands == (CancelChild(CHILD, "t1/late", "enough"),)
    driver.feed(ChildClosed(CHILD, "it closed without reporting a result"))
    assert driver.result.termination == Cancelled()


def test_a_timer_that_is_not_due_changes_nothing_while_a_delegate_runs() -> None:
    driver = delegating()
    before = driver.thread
    assert driver.feed(TimerFired(driver.now)) == Advance(before)
    assert isinstance(before.stage, CallingTools)


@pytest.mark.parametrize("outcome", [ToolCallOutcome.SUCCEEDED, ToolCallOutcome.FAILED])
def test_watchers_see_the_outcome_of_the_call(outcome: ToolCallOutcome) -> None:
    driver = delegating()
    termination: Termination = NaturalEnd() if outcome is ToolCallOutcome.SUCCEEDED else Cancelled()
    driver.feed(child_settled(CHILD, termination=termination))
    (done,) = [event for event in driver.events if isinstance(event, ToolCallDone)]
    assert (done.id, done.outcome) == ("c1", outcome)
