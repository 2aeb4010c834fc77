"""A watcher knows the whole conversation from the events alone: `tests.loop.conversation` builds it."""

import pytest

from tests.loop.children import mail_received
from tests.loop.conversation import conversation_of, entries_of
from tests.loop.driving import (
    NO_INPUT,
    THREAD,
    Driver,
    asks,
    awaiting_decisions,
    call,
    calling_tools,
    done,
    idle,
    inferring,
    make_agent,
    ok,
    pending,
    reject,
    resume,
    says,
    submitted_message,
    truncated,
)
from wakeful.contract.decisions import Decision
from wakeful.contract.events import (
    FinishSummary,
    MessageReceived,
    MessagesRead,
    NoteAdded,
    RunFinish,
    RunStart,
    StepEnd,
)
from wakeful.contract.hooks import HookEffects
from wakeful.contract.inference import OutputSpec
from wakeful.contract.runs import Adapter, OnBusy, Usage
from wakeful.contract.settings import Caller
from wakeful.loop.step.model_notes import CONTINUE
from wakeful.loop.thread.views import carryover


def check(driver: Driver) -> None:
    assert conversation_of(driver.events) == entries_of(driver.thread.transcript.messages)


def last_finish(driver: Driver) -> RunFinish:
    (*_, finished) = driver.events_of("run_finish")
    assert isinstance(finished, RunFinish)
    return finished


def summary(driver: Driver) -> FinishSummary:
    result = last_finish(driver).result
    assert result is not None
    return result


def test_a_message_is_received_in_full_and_the_run_that_answers_it_names_it() -> None:
    driver = idle()
    driver.submit("m1", "m2")
    received = [MessageReceived(message=submitted_message(id)) for id in ("m1", "m2")]
    assert driver.last.events[:2] == tuple(received)
    started = driver.last.events[2]
    assert isinstance(started, RunStart)
    assert (started.run_id, started.message_ids) == ("r1.2", ("m1", "m2"))
    check(driver)


@pytest.mark.parametrize(("adapter", "said"), [(Adapter.A2A, Adapter.A2A), (Adapter.INTERNAL, None), (None, None)])
def test_the_event_of_a_message_says_by_which_protocol_it_came(adapter: Adapter | None, said: Adapter | None) -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", caller=Caller(adapter=adapter))
    assert driver.last.events == (MessageReceived(message=submitted_message("m1"), adapter=said),)


def test_a_message_that_waits_is_received_at_once_and_named_by_the_run_that_reads_it() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    assert driver.last.events == (MessageReceived(message=submitted_message("m1")),)
    check(driver)
    driver.model(says("Hello!"))
    started = driver.last.events[-1]
    assert isinstance(started, RunStart)
    assert started.message_ids == ("m1",)
    check(driver)


def test_a_repeated_message_is_received_once() -> None:
    driver = idle()
    driver.submit("m1")
    driver.submit("m1")
    assert driver.last.events == ()


def test_messages_and_mail_that_a_run_reads_between_two_steps_are_named_before_the_step() -> None:
    driver = calling_tools()
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.feed(mail_received("msg_1"))
    driver.tool("c1", ok("sunny"))
    driver.tool("c2", ok("paid"))
    assert driver.last.events[-2:-1] == (MessagesRead(message_ids=("m1", "msg_1")),)
    check(driver)


def test_a_run_that_ends_with_it_names_the_messages_that_it_reads_instead() -> None:
    driver = inferring()
    driver.submit("m1")
    driver.model(says("Hello!"))
    assert MessagesRead(message_ids=("m1",)) in driver.last.events
    check(driver)


def test_a_note_for_the_model_follows_the_answer_that_falls_short() -> None:
    driver = Driver()
    driver.model(truncated("Once upon"))
    assert driver.last.events[-3:-1] == (StepEnd(), NoteAdded(message_id="r1:3", text=CONTINUE))
    check(driver)


@pytest.mark.parametrize(
    "effects", [HookEffects(retry="Be polite."), HookEffects(block="Rude.")], ids=["rejected", "blocked"]
)
def test_the_step_of_an_answer_that_is_not_kept_says_so(effects: HookEffects) -> None:
    driver = Driver()
    driver.model(asks(call("c1"), text="Go away!"), effects)
    assert StepEnd(discarded=True) in driver.last.events
    check(driver)


def test_the_step_of_an_answer_that_was_cancelled_says_so() -> None:
    driver = inferring()
    driver.cancel()
    driver.model(says("Hel"))
    assert StepEnd(discarded=True) in driver.last.events
    check(driver)


def test_a_step_that_pauses_for_a_decision_keeps_its_answer() -> None:
    driver = awaiting_decisions()
    assert driver.events_of("step_end") == [StepEnd()]


@pytest.mark.parametrize("decision", [resume("c1"), reject("c1", "too dear"), reject("c1", result={"why": "no"})])
def test_the_result_of_a_call_that_was_suspended_is_in_its_event(decision: Decision) -> None:
    """awaken: materialize_message_log_preserves_output_across_same_run_resume"""
    driver = awaiting_decisions()
    driver.decide(decision)
    if decision.action.value == "resume":
        driver.tool("c1", ok({"sky": "sunny"}).model_copy(update={"metadata": {"cached": True}}))
    check(driver)


def test_calls_that_a_run_leaves_behind_are_cancelled_and_read_as_interrupted() -> None:
    driver = calling_tools()
    driver.tool("c1", pending("s1"))
    driver.cancel()
    driver.cancel_in_flight()
    check(driver)


def test_a_run_that_is_rolled_back_says_so_and_mail_is_read_again() -> None:
    driver = Driver(request=THREAD)
    driver.model(says("Hello!"))
    driver.submit("m1")
    driver.resolve()
    driver.feed(mail_received("msg_1"))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    assert last_finish(driver).rolled_back
    driver.resolve()
    assert [text for _, text, _ in conversation_of(driver.events)][:3] == ["Hello", "Hello!", "And then?"]
    assert driver.events_of("messages_read") == [MessagesRead(message_ids=("msg_1",))] * 2
    check(driver)


def test_a_run_that_is_interrupted_keeps_its_messages() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    driver.cancel_in_flight()
    assert not last_finish(driver).rolled_back
    check(driver)


def test_the_end_of_a_run_has_its_output_and_its_usage() -> None:
    spec = OutputSpec(name="Weather", json_schema={"type": "object"})
    driver = Driver(make_agent(output=spec))
    answer = says('{"sky":"sunny"}', Usage(total_tokens=7))
    driver.model(answer.model_copy(update={"output": {"sky": "sunny"}}))
    assert (summary(driver).output, summary(driver).usage) == ({"sky": "sunny"}, Usage(total_tokens=7))
    assert summary(driver).detail is None


def test_a_pause_has_the_usage_so_far() -> None:
    driver = Driver()
    driver.model(asks(call("c1"), usage=Usage(total_tokens=7)))
    driver.tool("c1", pending("s1"))
    assert summary(driver).usage == Usage(total_tokens=7)


def test_the_end_of_a_cancelled_run_has_the_reason() -> None:
    driver = inferring()
    driver.cancel("it takes too long")
    driver.cancel_in_flight()
    assert (summary(driver).status_reason, summary(driver).detail) == ("cancelled", "it takes too long")


def test_the_end_of_a_thread_names_the_messages_that_no_run_will_read() -> None:
    driver = inferring()
    driver.submit("m1")
    driver.cancel()
    driver.cancel_in_flight()
    assert (summary(driver).unread, driver.result.unread) == (("m1",), ("m1",))


def test_a_message_for_a_run_that_has_ended_is_received_for_the_execution_that_wakes_the_thread() -> None:
    driver = done()
    driver.submit("m1")
    assert [event.event_type for event in driver.last.events] == ["message_received"]
    woken = Driver(request=NO_INPUT, carryover=carryover(driver.thread))
    assert [event.message_ids for event in woken.events if isinstance(event, RunStart)] == [("m1",)]
