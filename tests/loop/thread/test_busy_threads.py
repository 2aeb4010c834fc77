"""Messages for a busy thread: they steer its run, are refused, or interrupt it."""

import pytest

from tests.loop.driving import (
    LIVE_STAGES,
    THREAD,
    Driver,
    asks,
    call,
    idle,
    input_message,
    make_agent,
    ok,
    pending,
    says,
    submitted_message,
)
from wakeful.contract.events import RunFinish
from wakeful.contract.inference import Rewind
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled, OnBusy, ThreadMode
from wakeful.loop.machine.commands import CancelWork, ResolveAgent
from wakeful.loop.machine.stages import Inferring, Resolving
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.outcomes import count_repeats
from wakeful.loop.thread.submissions import count_submission


@pytest.mark.parametrize("mode", ThreadMode)
def test_a_steering_message_is_read_in_the_next_step(mode: ThreadMode) -> None:
    """B-589"""
    driver = Driver(request=RunRequest(agent_id="assistant", input="Hello", mode=mode))
    driver.model(asks(call("c1")))
    driver.submit("m1", on_busy=OnBusy.STEER)
    assert driver.last.commands == ()
    driver.tool("c1", ok("sunny"))
    assert driver.inference().appended == ("infer-1", driver.work_id_of("c1"), submitted_message("m1"))


@pytest.mark.parametrize("mode", ThreadMode)
def test_a_steering_message_is_read_before_the_run_ends(mode: ThreadMode) -> None:
    driver = Driver(request=RunRequest(agent_id="assistant", input="Hello", mode=mode))
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.model(says("Hello!"))
    assert isinstance(driver.thread.stage, Inferring)
    driver.model(says("Nothing."))
    assert (driver.result.run_id, driver.result.response) == ("r1", "Nothing.")


def test_a_steering_message_that_comes_too_late_starts_the_next_run() -> None:
    driver = Driver(make_agent(max_rounds=1), request=THREAD)
    driver.model(asks(call("c1")))
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.tool("c1", ok("sunny"))
    assert isinstance(driver.thread.stage, Resolving)
    assert driver.thread.identity.run_id == "r1.2"
    assert driver.thread.steering == ()


def test_in_run_mode_a_steering_message_that_comes_too_late_is_unread() -> None:
    driver = Driver(make_agent(max_rounds=1))
    driver.model(asks(call("c1")))
    driver.submit("m2")
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.tool("c1", ok("sunny"))
    assert driver.result.unread == ("m1", "m2")


@pytest.mark.parametrize("on_busy", OnBusy)
def test_an_idle_thread_accepts_every_message(on_busy: OnBusy) -> None:
    driver = idle()
    driver.submit("m1", on_busy=on_busy)
    assert (driver.thread.counters.runs, driver.refusal_reasons) == (2, [])
    assert driver.texts == ["Hello", "Hello!", "And then?"]


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_a_busy_thread_refuses_a_message_with_on_busy_reject(stage: str) -> None:
    driver = LIVE_STAGES[stage]()
    before = driver.thread.stage
    driver.submit("m1", on_busy=OnBusy.REJECT)
    assert driver.refusal_reasons == ["the thread is busy, and on_busy is reject"]
    assert (driver.thread.stage, driver.thread.queued, driver.last.commands) == (before, (), ())
    driver.submit("m1")
    assert driver.queued == ["m1"]


@pytest.mark.parametrize("mode", ThreadMode)
def test_an_interrupt_cancels_the_run_and_comes_before_queued_messages(mode: ThreadMode) -> None:
    driver = Driver(request=RunRequest(agent_id="assistant", input="Hello", mode=mode))
    driver.model(asks(call("c1")))
    driver.submit("m1")
    driver.submit("m2", on_busy=OnBusy.INTERRUPT)
    assert driver.last.commands == (CancelWork(driver.work_id_of("c1")),)
    driver.tool("c1", ok("sunny"))
    (finish,) = [event for event in driver.events if isinstance(event, RunFinish)]
    assert (finish.run_id, finish.termination) == ("r1", Cancelled())
    assert driver.event_types[-2:] == ["run_finish", "run_start"]
    assert (driver.thread.identity.run_id, driver.queued) == ("r1.2", ["m1"])
    assert driver.texts == ["Hello", "", "sunny", "And then?"]


def test_an_interrupt_comes_before_steering_messages() -> None:
    """A steering message is read in the first step of the run that the interrupt starts."""
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.submit("m2", on_busy=OnBusy.INTERRUPT)
    driver.cancel_in_flight()
    driver.resolve()
    assert driver.inference().appended == (submitted_message("m2"), submitted_message("m1"))


def test_an_interrupt_ends_a_suspended_run_at_once() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    assert [event.event_type for event in driver.last.events] == [
        *("message_received", "run_start", "tool_call_cancel", "run_finish", "run_start")
    ]
    assert driver.last.commands == (ResolveAgent(agent_id="assistant", id="resolve-2"),)


@pytest.mark.parametrize("on_busy", [OnBusy.INTERRUPT, OnBusy.ROLLBACK])
def test_a_repeated_interrupt_is_a_no_op(on_busy: OnBusy) -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=on_busy)
    driver.cancel_in_flight()
    before = count_submission(driver.thread)
    assert driver.submit("m1", on_busy=on_busy) == Advance(count_repeats(before, ("m1",)))


def test_the_newest_interrupt_starts_the_next_run() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    driver.submit("m2", on_busy=OnBusy.INTERRUPT)
    assert driver.last.commands == ()
    driver.cancel_in_flight()
    assert (driver.texts, driver.queued) == (["Hello", "And then?"], ["m1"])
    assert driver.thread.transcript.messages[-1].id == "m2"


def test_a_rollback_removes_the_messages_of_the_run() -> None:
    driver = idle()
    kept = driver.thread.transcript
    driver.submit("m1")
    driver.resolve()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    assert [message.id for message in driver.thread.transcript.messages] == ["r1:1", "r1:2", "m2"]
    driver.resolve()
    assert driver.inference().appended == (Rewind(rewind=2), submitted_message("m2"))
    assert driver.inference().transcript == kept.appending(input_message("m2").as_message(""), "").ref


def test_a_rollback_of_entries_that_were_not_sent_is_sent_too() -> None:
    driver = Driver(agent=None, request=THREAD)
    driver.submit("m1", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    driver.resolve()
    assert driver.inference().appended == ("input:0", Rewind(rewind=0), submitted_message("m1"))
    assert driver.texts == ["And then?"]


def test_a_rollback_of_a_suspended_run_leaves_no_calls() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.submit("m1", on_busy=OnBusy.ROLLBACK)
    assert (driver.texts, driver.thread.batch) == (["And then?"], None)


@pytest.mark.parametrize("first", ["cancel", "interrupt"])
def test_a_rollback_undoes_a_run_that_is_being_cancelled(first: str) -> None:
    driver = Driver(request=THREAD)
    if first == "cancel":
        driver.cancel()
    else:
        driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    assert [message.id for message in driver.thread.transcript.messages] == ["m2"]
