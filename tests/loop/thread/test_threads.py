"""A thread outlives its runs: what starts the next run, what ends one, and what closes the thread."""

import pytest

from tests.loop.driving import (
    LIVE_STAGES,
    NO_INPUT,
    THREAD,
    Driver,
    asks,
    call,
    idle,
    make_agent,
    ok,
    pending,
    reject,
    resume,
    says,
    submitted_message,
    without_run,
)
from wakeful.contract.events import MessageReceived, RunStart
from wakeful.contract.runs import Cancelled, Errored, NaturalEnd, OnBusy, RunIdentity, RunStatus, Usage
from wakeful.loop.machine.commands import ResolveAgent
from wakeful.loop.machine.facts import LoopFailed, WorkCancelled
from wakeful.loop.machine.stages import Done, Idle, Inferring
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.transcript import Transcript
from wakeful.loop.thread.views import carryover


def test_a_thread_without_input_waits_for_its_first_message() -> None:
    driver = without_run()
    assert (driver.thread.stage, driver.commands, driver.events) == (Idle(), [], [])
    driver.submit("m1")
    assert driver.commands == [ResolveAgent(agent_id="assistant", id="resolve-1")]
    assert driver.events == [
        MessageReceived(message=submitted_message("m1")),
        RunStart(thread_id="t1", run_id="r1", identity=driver.thread.identity, message_ids=("m1",)),
    ]
    assert driver.thread.counters.runs == 1


def test_a_thread_is_idle_after_a_run_and_keeps_its_result() -> None:
    driver = idle()
    assert driver.thread.status is RunStatus.DONE
    assert (driver.result.termination, driver.result.response) == (NaturalEnd(), "Hello!")
    assert driver.event_types[-1] == "run_finish"


def test_the_next_message_starts_a_new_run_on_the_same_conversation() -> None:
    driver = idle()
    driver.submit("m1")
    assert driver.last.commands == (ResolveAgent(agent_id="assistant", id="resolve-2"),)
    identity = RunIdentity(thread_id="t1", run_id="r1.2", agent_id="assistant")
    assert driver.last.events == (
        MessageReceived(message=submitted_message("m1")),
        RunStart(thread_id="t1", run_id="r1.2", identity=identity, message_ids=("m1",)),
    )
    driver.resolve()
    assert (driver.inference().id, driver.inference().step) == ("infer-2", 1)
    assert driver.inference().appended == ("infer-1", submitted_message("m1"))
    driver.model(says("Nothing.", Usage(total_tokens=3)))
    assert (driver.result.run_id, driver.result.steps, driver.result.usage) == ("r1.2", 1, Usage(total_tokens=3))
    assert driver.texts == ["Hello", "Hello!", "And then?", "Nothing."]


def test_every_run_counts_its_own_rounds() -> None:
    """B-005"""
    driver = Driver(make_agent(max_rounds=1), request=THREAD)
    for number in range(2):
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("sunny"))
        assert driver.result.status_reason == "stopped:max_rounds"
        driver.submit(f"m{number}")
        driver.resolve(make_agent(max_rounds=1))


def test_a_message_can_select_another_agent() -> None:
    driver = idle()
    driver.submit("m1", agent_id="researcher")
    assert driver.last.commands == (ResolveAgent(agent_id="researcher", id="resolve-2"),)
    assert driver.thread.identity.agent_id == "researcher"
    driver.resolve()
    driver.model(says("Found."))
    driver.submit("m2")
    assert driver.thread.identity.agent_id == "researcher"


def test_each_queued_submission_starts_one_run_in_order() -> None:
    """B-589"""
    driver = Driver(request=THREAD)
    driver.submit("m1", "m2")
    driver.submit("m3")
    driver.model(says("Hello!"))
    assert (driver.thread.counters.runs, driver.queued) == (2, ["m3"])
    assert [event.event_type for event in driver.last.events[-2:]] == ["run_finish", "run_start"]
    driver.resolve()
    driver.model(says("One and two."))
    assert (driver.thread.counters.runs, driver.queued) == (3, [])
    driver.resolve()
    driver.model(says("Three."))
    assert [message.id for message in driver.thread.transcript.messages] == [
        *("r1:1", "r1:2", "m1", "m2", "r1.2:5", "m3", "r1.3:7")
    ]


@pytest.mark.parametrize("stage", [stage for stage in LIVE_STAGES if stage != "cancelling"])
def test_a_cancelled_run_leaves_its_thread_idle(stage: str) -> None:
    driver = idle()
    driver.submit("m1")
    if stage != "resolving":
        driver.resolve()
    if stage in ("calling tools", "awaiting decisions"):
        driver.model(asks(call("c1")))
    if stage == "awaiting decisions":
        driver.tool("c1", pending("s1"))
    driver.cancel("enough")
    driver.cancel_in_flight()
    assert isinstance(driver.thread.stage, Idle)
    assert (driver.result.termination, driver.result.detail) == (Cancelled(), "enough")


def test_a_queued_message_starts_the_next_run_after_a_cancel() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.cancel()
    driver.cancel_in_flight()
    assert (driver.thread.identity.run_id, driver.queued) == ("r1.2", [])


def test_cancelling_an_idle_thread_is_refused() -> None:
    driver = idle()
    before = driver.thread.stage
    driver.cancel()
    assert (driver.refusal_reasons, driver.thread.stage) == (["no run is under way"], before)


def test_an_idle_thread_closes_with_the_result_of_its_last_run_and_the_reason() -> None:
    driver = idle()
    closed = Done(driver.result.model_copy(update={"detail": "goodbye"}))
    driver.cancel("goodbye", close=True)
    assert (driver.thread.stage, driver.last.events, driver.last.commands) == (closed, (), ())


def test_a_thread_without_a_run_closes_as_cancelled() -> None:
    driver = without_run()
    driver.cancel("goodbye", close=True)
    assert isinstance(driver.thread.stage, Done)
    assert (driver.result.termination, driver.result.detail) == (Cancelled(), "goodbye")


@pytest.mark.parametrize("first", ["close", "cancel", "interrupt"])
def test_closing_a_thread_cancels_its_run_and_lists_unread_messages(first: str) -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    if first == "cancel":
        driver.cancel("enough")
    if first == "interrupt":
        driver.submit("m2", on_busy=OnBusy.INTERRUPT)
    driver.cancel("goodbye", close=True)
    driver.cancel_in_flight()
    assert isinstance(driver.thread.stage, Done)
    assert driver.result.unread == (("m2", "m1") if first == "interrupt" else ("m1",))


def test_a_closed_thread_keeps_messages_for_the_execution_that_wakes_it() -> None:
    driver = idle()
    driver.cancel(close=True)
    driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    driver.submit("m1")
    assert (driver.thread.has_late, driver.result.unread, driver.refusal_reasons) == (True, (), [])
    assert [unread.message.id for unread in carryover(driver.thread).unread] == ["m1"]


def test_a_decision_for_an_idle_thread_is_refused() -> None:
    driver = idle()
    driver.decide(resume("c1"))
    assert driver.refusal_reasons == ["the run has ended"]


def test_a_thread_can_start_the_next_run_after_a_failed_one() -> None:
    driver = Driver(request=THREAD)
    driver.feed(LoopFailed("boom"))
    assert driver.result.termination == Errored(value="boom", code="internal_error")
    driver.submit("m1")
    driver.resolve()
    driver.model(says("Still here."))
    assert driver.result.response == "Still here."


def test_a_result_of_a_failed_run_is_ignored_by_the_next_run() -> None:
    driver = Driver(request=THREAD)
    driver.feed(LoopFailed("boom"))
    driver.submit("m1")
    before = driver.thread
    assert driver.feed(WorkCancelled("infer-1")) == Advance(before)


def test_a_failure_of_the_loop_between_two_runs_ends_no_run() -> None:
    """I-07: a run that ended is not ended again."""
    driver = idle()
    result = driver.result
    driver.feed(LoopFailed("boom"))
    assert driver.event_types.count("run_finish") == 1
    assert driver.result == result


def test_a_decision_for_a_suspension_of_an_earlier_run_applies_to_none_of_this_run() -> None:
    """I-05"""
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("approve"))
    driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    driver.resolve()
    driver.model(asks(call("c2")))
    driver.tool("c2", pending("approve"))
    driver.decide(resume("approve"))
    assert driver.refusal_reasons == ["unknown key: tool call or suspension 'approve' not found"]


def test_the_next_run_does_not_inherit_applied_decisions() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending())
    driver.decide(reject("c1", id="d1"))
    driver.model(says("Too bad."))
    driver.submit("m1")
    driver.resolve()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending())
    driver.decide(reject("c1", id="d1"))
    assert isinstance(driver.thread.stage, Inferring)


def test_a_woken_thread_continues_its_old_conversation() -> None:
    old = idle().thread.transcript.sent()
    first = begin(THREAD, thread_id="t1", run_id="r9", transcript=old)
    assert first.thread.transcript.unsent == ("input:0",)
    assert [message.text for message in first.thread.transcript.messages] == ["Hello", "Hello!", "Hello"]
    assert first.thread.current.started_at_position == old.position


def test_a_rollback_keeps_the_restored_conversation() -> None:
    old = idle().thread.transcript.sent()
    driver = Driver(agent=None, request=THREAD)
    driver.last = begin(THREAD, thread_id="t1", run_id="r9", transcript=old)
    driver.submit("m1", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    assert driver.texts == ["Hello", "Hello!", "And then?"]


def test_an_empty_conversation_is_restored_empty() -> None:
    first = begin(NO_INPUT, thread_id="t1", run_id="r9", transcript=Transcript())
    assert (first.thread.stage, first.thread.transcript) == (Idle(), Transcript())
