"""Messages that are submitted to a busy run: queued, read before its end, and never lost."""

from collections.abc import Callable

import pytest

from tests.loop.driving import (
    LIVE_STAGES,
    NO_INPUT,
    Driver,
    after_continue_as_new,
    asks,
    awaiting_decisions,
    call,
    idle,
    input_message,
    ok,
    says,
    submitted_message,
)
from wakeful.contract.base import replace
from wakeful.contract.events import MessageReceived
from wakeful.contract.messages import InputMessage
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy
from wakeful.loop.machine.facts import InferenceReturned, MessagesSubmitted
from wakeful.loop.machine.revisions import LATE_MESSAGES
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.outcomes import count_repeats
from wakeful.loop.thread.submissions import count_submission
from wakeful.loop.thread.views import carryover


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_a_submitted_message_is_queued_and_changes_nothing_else(stage: str) -> None:
    """B-338"""
    driver = LIVE_STAGES[stage]()
    before = driver.thread
    driver.submit("m1", "m2")
    assert driver.queued == ["m1", "m2"]
    assert (driver.thread.stage, driver.last.commands) == (before.stage, ())
    assert driver.last.events == tuple(MessageReceived(message=submitted_message(id)) for id in ("m1", "m2"))


def test_the_model_reads_a_submitted_message_before_the_run_ends() -> None:
    driver = Driver()
    driver.submit("m1", "m2")
    driver.model(says("Hello!"))
    assert driver.inference().appended == ("infer-1", submitted_message("m1"), submitted_message("m2"))
    assert [message.id for message in driver.thread.transcript.messages] == ["r1:1", "r1:2", "m1", "m2"]
    driver.model(says("Then nothing."))
    assert (driver.result.response, driver.result.unread) == ("Then nothing.", ())


def test_a_submitted_message_waits_until_all_tool_calls_of_the_step_have_finished() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.submit("m1")
    driver.tool("c1", ok("sunny"))
    assert driver.inference().appended == ("infer-1", driver.work_id_of("c1"))
    driver.model(says("Sunny."))
    assert driver.inference().appended == ("infer-2", submitted_message("m1"))


def test_a_message_submitted_to_a_suspended_run_does_not_call_the_model() -> None:
    """B-338, H-21, I-06"""
    driver = awaiting_decisions()
    assert driver.submit("m1").commands == ()
    assert len(driver.thread.batch.suspended if driver.thread.batch else ()) == 1


def test_a_message_with_a_known_id_is_a_no_op() -> None:
    driver = Driver()
    driver.submit("m1")
    before = count_submission(driver.thread)
    assert driver.submit("m1") == Advance(count_repeats(before, ("m1",)))


def test_a_repeat_within_one_submission_counts_once() -> None:
    driver = Driver()
    driver.feed(MessagesSubmitted((input_message("m1", "first"), input_message("m1", "second"), input_message("m2"))))
    assert [later.message.text for later in driver.thread.queued] == ["first", "And then?"]


def test_a_message_that_was_read_already_is_still_a_repeat() -> None:
    driver = Driver()
    driver.submit("m1")
    driver.model(says("Hello!"))
    driver.submit("m1")
    assert driver.thread.queued == ()


def test_a_message_of_the_request_that_is_submitted_again_is_a_repeat() -> None:
    request = RunRequest(agent_id="assistant", input=(InputMessage(content="Hello", id="m1"),))
    driver = Driver(request=request)
    driver.submit("m1")
    assert driver.thread.queued == ()


def test_a_message_that_is_in_the_request_twice_counts_once() -> None:
    hello = InputMessage(content="Hello", id="m1")
    driver = Driver(request=RunRequest(agent_id="assistant", input=(hello, hello)))
    assert [message.id for message in driver.thread.transcript.messages] == ["m1"]


def test_the_result_lists_the_unread_messages() -> None:
    driver = Driver()
    driver.submit("m1", "m2")
    driver.cancel()
    driver.feed(InferenceReturned("infer-1", says("In vain")))
    assert driver.result.unread == ("m1", "m2")


@pytest.mark.parametrize("revision", [LATE_MESSAGES, LATE_MESSAGES - 1])
def test_a_thread_in_run_mode_is_woken_for_a_message_after_its_cancel_or_end(revision: int) -> None:
    """A run of an older revision lists it as unread."""
    driver, is_woken = Driver(revision=revision), revision == LATE_MESSAGES
    driver.cancel()
    driver.submit("m1")
    driver.feed(InferenceReturned("infer-1", says("In vain")))
    driver.submit("m2", on_busy=OnBusy.REJECT)
    driver.submit("m3", on_busy=OnBusy.STEER)
    assert driver.refusal_reasons == ["the run has ended"]
    assert (driver.thread.has_late, driver.result.unread) == (is_woken, () if is_woken else ("m1", "m3"))
    status = OutcomeStatus.QUEUED if is_woken else OutcomeStatus.UNREAD
    assert {outcome.id: outcome.status for outcome in driver.thread.outcomes if outcome.id in ("m1", "m3")} == {
        "m1": status,
        "m3": status,
    }
    woken = Driver(request=NO_INPUT, carryover=carryover(driver.thread))
    woken.model(says("Yes."))
    woken.resolve()
    assert [message.id for message in woken.thread.transcript.messages if message.id in ("m1", "m3")] == ["m1", "m3"]


def continued(driver: Driver) -> Driver:
    """The thread in its next execution."""
    driver.last = replace(driver.last, thread=after_continue_as_new(driver.thread))
    return driver


def woken(driver: Driver) -> Driver:
    """The thread after it was closed."""
    driver.cancel(close=True)
    return Driver(None, request=NO_INPUT, carryover=carryover(driver.thread))


@pytest.mark.parametrize("later", [continued, woken], ids=["continued as new", "woken"])
def test_a_message_without_an_id_is_never_a_repeat_in_a_later_execution(later: Callable[[Driver], Driver]) -> None:
    """Its id is made of its number, which must not restart."""
    driver = idle()
    for number in range(1, 4):
        driver.feed(MessagesSubmitted((InputMessage(content=f"message {number}"),)))
        driver.resolve()
        driver.model(says("Yes."))
        driver = later(driver)
    read = [outcome.id for outcome in driver.thread.outcomes if outcome.id.startswith("submit:")]
    assert read == ["submit:1:0", "submit:2:0", "submit:3:0"]
    assert not any(outcome.repeats for outcome in driver.thread.outcomes)
