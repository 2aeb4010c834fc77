"""What becomes of each decision and each message: one outcome by its id, or a refusal with its reason."""

from collections.abc import Callable

import pytest

from tests.loop.children import background_call, idle_with_task, mail_received
from tests.loop.driving import (
    AGENT,
    NO_INPUT,
    PARALLEL,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    awaiting_decisions,
    call,
    done,
    input_message,
    pending,
    reject,
    resume,
    says,
    two_suspended,
    with_hooks,
)
from wakeful.contract.applied_decisions import REASON_LENGTH
from wakeful.contract.hooks import LifecyclePhase
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.outcomes import ID_LENGTH, Outcome, OutcomeStatus, remembered_id
from wakeful.contract.remembered_outcomes import OUTCOMES_BYTES, REMEMBERED_OUTCOMES
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, ThreadMode
from wakeful.contract.settings import Caller
from wakeful.loop.machine.facts import (
    CancelRequested,
    ChildClosed,
    DecisionsReceived,
    Fact,
    LoopFailed,
    MessagesSubmitted,
    Submitted,
    WithdrawalRequested,
)
from wakeful.loop.machine.stages import Idle
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.outcomes import record_messages
from wakeful.loop.thread.submissions import INLINE_BYTES
from wakeful.loop.thread.transcript import Transcript
from wakeful.loop.thread.views import carryover


def outcome(thread: Thread, id: str) -> Outcome:
    """The one outcome of what has this id."""
    (found,) = (known for known in thread.outcomes if known.id == id)
    return found


def status(thread: Thread, id: str) -> str:
    return outcome(thread, id).status.value


def test_a_message_is_queued_and_then_read_by_the_next_run() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    assert outcome(driver.thread, "m1") == Outcome(id="m1", status=OutcomeStatus.QUEUED)
    driver.model(says("Hello!"))
    assert outcome(driver.thread, "m1") == Outcome(id="m1", status=OutcomeStatus.READ, run=2)
    assert outcome(driver.thread, "r1:1") == Outcome(id="r1:1", status=OutcomeStatus.READ, run=1)


def test_a_message_steers_until_the_next_step_reads_it() -> None:
    driver = Driver()
    driver.submit("m1", on_busy=OnBusy.STEER)
    assert status(driver.thread, "m1") == "steering"
    driver.model(asks(call("c1")))
    driver.tool_failed("c1", "broken")
    assert outcome(driver.thread, "m1").run == 1


def test_a_message_without_an_id_has_the_one_that_is_made_of_its_number() -> None:
    driver = Driver()
    driver.submit("m1")
    driver.feed(MessagesSubmitted((input_message("").model_copy(update={"id": None}),)))
    (_, _, unnamed) = driver.thread.outcomes
    assert unnamed.id == driver.thread.queued[-1].message.id


def test_a_repeated_message_is_counted_and_keeps_its_outcome() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.submit("m1")
    driver.model(says("Hello!"))
    assert outcome(driver.thread, "m1") == Outcome(id="m1", status=OutcomeStatus.READ, run=2, repeats=1)
    driver.submit("m1", on_busy=OnBusy.REJECT)
    assert outcome(driver.thread, "m1") == Outcome(id="m1", status=OutcomeStatus.READ, run=2, repeats=2)
    assert driver.refusal_reasons == ["the thread is busy, and on_busy is reject"]


def test_messages_that_are_repeated_together_keep_their_order() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", "m2", "m3")
    driver.submit("m3", "m1")
    counted = [(outcome.id, outcome.repeats) for outcome in driver.thread.outcomes]
    assert counted == [("r1:1", 0), ("m2", 0), ("m1", 1), ("m3", 1)]


def test_a_refused_message_can_be_sent_again() -> None:
    driver = Driver()
    driver.submit("m1", "m1", on_busy=OnBusy.REJECT)
    assert outcome(driver.thread, "m1").reason == "the thread is busy, and on_busy is reject"
    driver.submit("m1")
    assert outcome(driver.thread, "m1") == Outcome(id="m1", status=OutcomeStatus.QUEUED)


@pytest.mark.parametrize("close", [True, False], ids=["closed", "cancelled in run mode"])
def test_what_no_run_has_read_when_the_thread_ends_is_unread(close: bool) -> None:
    driver = Driver(request=THREAD if close else RunRequest(agent_id="assistant", input="Hello"))
    driver.submit("m1")
    driver.submit("m2", on_busy=OnBusy.STEER)
    driver.feed(mail_received("msg_1"), CancelRequested(close=close))
    driver.cancel_in_flight()
    assert [status(driver.thread, id) for id in ("m1", "m2", "msg_1")] == ["unread", "unread", "steering"]
    assert driver.result.unread == ("m2", "msg_1", "m1")
    driver.submit("m3")
    assert (status(driver.thread, "m3"), driver.thread.has_late) == ("queued", True), "the thread is woken for it"
    assert list(driver.result.unread) == ["m2", "msg_1", "m1"]


def test_a_message_that_comes_while_the_last_hooks_run_waits_for_the_wake() -> None:
    driver = Driver(with_hooks(LifecyclePhase.RUN_END))
    driver.model(says("Bye."))
    driver.submit("m1")
    driver.hooks()
    assert (status(driver.thread, "m1"), driver.result.unread, driver.thread.has_late) == ("queued", (), True)


def test_a_late_message_that_is_withdrawn_does_not_wake_the_thread() -> None:
    driver = Driver(request=THREAD)
    driver.cancel(close=True)
    driver.cancel_in_flight()
    driver.submit("m1")
    driver.feed(WithdrawalRequested(("m1",), "w1"))
    assert (status(driver.thread, "m1"), driver.thread.has_late) == ("withdrawn", False)


def test_a_message_to_a_closing_thread_starts_a_run_when_the_thread_is_woken() -> None:
    driver = idle_with_task(background_call("c1"))
    driver.feed(CancelRequested(close=True))
    driver.submit("m1")
    assert status(driver.thread, "m1") == "queued"
    driver.feed(ChildClosed("bg_0", "it was cancelled"))
    assert (status(driver.thread, "m1"), driver.thread.has_late) == ("queued", True)
    woken = Driver(request=NO_INPUT, carryover=carryover(driver.thread))
    assert (status(woken.thread, "m1"), woken.thread.queued) == ("read", ())
    woken.submit("m1")
    assert outcome(woken.thread, "m1").repeats == 1


def test_a_woken_thread_reads_what_was_unread_in_the_runs_that_it_was_sent_for() -> None:
    overrides = InferenceOverrides(temperature=0.5)
    long = input_message("m3", "x" * 2 * INLINE_BYTES)
    driver = Driver(request=THREAD)
    driver.submit("m1", "m2", agent_id="clerk", overrides=overrides)
    driver.feed(MessagesSubmitted((long,)), CancelRequested(close=True))
    driver.cancel_in_flight()
    woken = Driver(None, request=NO_INPUT, carryover=carryover(driver.thread))
    assert (woken.thread.identity.agent_id, woken.thread.current.settings.overrides) == ("clerk", overrides)
    assert [message.id for message in woken.thread.transcript.messages] == ["m1", "m2"]
    (queued,) = woken.thread.queued
    assert (queued.message.id, queued.source) == ("m3", "snapshot:m3")


def test_a_rollback_undoes_what_its_run_has_read_and_keeps_mail() -> None:
    driver = Driver(request=THREAD)
    driver.feed(mail_received("msg_1"))
    driver.model(asks(call("c1")))
    driver.tool("c1", pending())
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    assert status(driver.thread, "r1:1") == "rolled_back"
    assert status(driver.thread, "m1") == "steering"
    assert outcome(driver.thread, "m2") == Outcome(id="m2", status=OutcomeStatus.READ, run=2)
    driver.submit("r1:1")
    assert outcome(driver.thread, "r1:1") == Outcome(id="r1:1", status=OutcomeStatus.ROLLED_BACK, run=1, repeats=1)


def test_mail_that_a_rolled_back_run_had_read_waits_for_the_next_run() -> None:
    driver = Driver(request=THREAD)
    driver.feed(mail_received("msg_1"))
    driver.model(asks(call("c1")))
    driver.tool_failed("c1", "broken")
    assert outcome(driver.thread, "msg_1") == Outcome(id="msg_1", status=OutcomeStatus.READ, run=1)
    driver.submit("m1", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    assert status(driver.thread, "msg_1") == "steering"
    driver.resolve()
    assert outcome(driver.thread, "msg_1") == Outcome(id="msg_1", status=OutcomeStatus.READ, run=2)


def test_a_decision_is_applied_under_both_names_of_its_call() -> None:
    driver = awaiting_decisions()
    driver.decide(resume("c1", id="d1"))
    assert outcome(driver.thread, "d1").status is OutcomeStatus.APPLIED
    assert outcome(driver.thread, "d1").calls[0] == "c1"


def test_a_decision_is_held_until_its_call_suspends() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.decide(reject("c1", id="d1"))
    assert outcome(driver.thread, "d1") == Outcome(id="d1", status=OutcomeStatus.HELD, calls=("c1",), run=1)
    driver.tool("c1", pending())
    assert status(driver.thread, "d1") == "applied"


def test_a_held_decision_is_refused_when_the_run_ends_first() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.decide(reject("c1", id="d1"))
    driver.feed(LoopFailed("a bug"))
    assert outcome(driver.thread, "d1").reason == "the run has ended"


def test_a_batch_is_refused_as_a_whole_and_does_not_change_what_was_applied() -> None:
    driver = two_suspended()
    driver.decide(reject("c1", id="d1"))
    driver.decide(reject("c1", id="d1"), reject("unknown", id="d2"), reject("c2"))
    assert status(driver.thread, "d1") == "applied"
    assert outcome(driver.thread, "d2").reason == "unknown key: tool call or suspension 'unknown' not found"
    assert len(driver.thread.outcomes) == 3  # one that is refused and has no id has no outcome


def test_one_decision_id_may_be_for_several_calls() -> None:
    driver = two_suspended()
    driver.decide(reject("c1", id="d1"), reject("c2", id="d1"))
    applied = [known for known in driver.thread.outcomes if known.id == "d1"]
    assert [(known.status.value, known.calls[0]) for known in applied] == [("applied", "c1"), ("applied", "c2")]


def test_a_decision_after_the_end_is_a_repeat_or_refused() -> None:
    driver = awaiting_decisions()
    driver.decide(reject("c1", id="d1"))
    driver.model(says("Too bad."))
    driver.decide(reject("c1", id="d1"))
    assert (outcome(driver.thread, "d1").repeats, driver.refusal_reasons) == (1, [])
    driver.decide(reject("c1", id="d2"))
    assert outcome(driver.thread, "d2").reason == "call 'c1' was already denied"
    driver.decide(reject("c9", id="d3"))
    assert outcome(driver.thread, "d3").reason == "the run has ended"
    driver.decide()
    assert driver.refusal_reasons == ["call 'c1' was already denied", *["the run has ended"] * 2]


def test_a_decision_that_an_earlier_run_has_applied_stays_applied_when_it_is_repeated() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending())
    driver.decide(reject("c1", id="d1"))
    driver.model(says("Too bad."))
    driver.submit("m1")
    driver.resolve()
    driver.decide(reject("c1", id="d1"))
    assert driver.refusal_reasons == ["call 'c1' was already denied"]
    assert status(driver.thread, "d1") == "applied"


def test_a_message_and_a_decision_may_have_the_same_id() -> None:
    driver = awaiting_decisions()
    driver.submit("x")
    driver.decide(reject("unknown", id="x"))
    statuses = [known.status.value for known in driver.thread.outcomes if known.id == "x"]
    assert statuses == ["queued", "refused"]


@pytest.mark.parametrize("make", [lambda: Driver(request=THREAD), done], ids=["under way", "done"])
def test_what_the_loop_failed_on_is_refused(make: "type[Driver]") -> None:
    driver = make()
    number = driver.thread.counters.submissions
    driver.feed(LoopFailed("a bug", MessagesSubmitted((input_message("m1"),))))
    driver.feed(LoopFailed("a bug", DecisionsReceived((reject("c1", id="d1"),))))
    assert [outcome(driver.thread, id).reason for id in ("m1", "d1")] == ["a bug", "a bug"]
    assert driver.thread.counters.submissions == number + 1


def test_outcomes_survive_continue_as_new_and_the_close_of_a_thread() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending())
    driver.decide(reject("c1", id="d1"))
    driver.submit("m1")
    assert after_continue_as_new(driver.thread).outcomes == driver.thread.outcomes
    driver.feed(CancelRequested(close=True))
    driver.cancel_in_flight()
    woken = Driver(request=NO_INPUT, carryover=carryover(driver.thread))
    assert [status(woken.thread, id) for id in ("r1:1", "d1", "m1")] == ["read", "applied", "read"]


def test_the_messages_of_a_conversation_that_is_continued_were_read() -> None:
    said = Message(id="m1", role=Role.USER, content=(TextBlock(text="Hi"),))
    answer = Message(id="m2", role=Role.ASSISTANT, content=(TextBlock(text="Hello"),))
    transcript = Transcript().appending(said, "m1").appending(answer, "m2")
    request = RunRequest(agent_id="assistant", mode=ThreadMode.THREAD)
    thread = begin(request, thread_id="t1", run_id="r1", transcript=transcript).thread
    assert thread.outcomes == (Outcome(id="m1", status=OutcomeStatus.READ),)


def test_a_thread_remembers_its_newest_outcomes_only() -> None:
    driver = Driver(None, request=NO_INPUT)
    driver.feed(MessagesSubmitted(tuple(input_message(f"m{number}") for number in range(REMEMBERED_OUTCOMES + 1))))
    assert [known.id for known in driver.thread.outcomes] == [f"m{n}" for n in range(1, REMEMBERED_OUTCOMES + 1)]


MANY = range(REMEMBERED_OUTCOMES // 2)
WITHDRAWN = tuple(f"m{number}" for number in MANY)
FLOODS: dict[str, Callable[[int], Fact]] = {
    "changes": lambda number: WithdrawalRequested(WITHDRAWN, f"w{number}"),
    "refused changes": lambda number: WithdrawalRequested(tuple(f"x{each}" for each in MANY), f"w{number}"),
    "decisions": lambda number: DecisionsReceived(tuple(resume(f"c{each}", id=f"d{number}") for each in MANY)),
    "refused messages": lambda number: MessagesSubmitted(
        tuple(input_message(f"{number}-{each}") for each in MANY), caller=Caller(tenant="beta")
    ),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_no_flood_of_other_outcomes_makes_a_thread_read_a_message_twice(flood: str) -> None:
    driver = Driver(request=THREAD)
    driver.model(says("Hi."))
    driver.submit("first")
    driver.resolve()
    driver.submit(*WITHDRAWN)
    driver.feed(WithdrawalRequested(WITHDRAWN))
    driver.model(says("Hello."))
    driver.feed(*(FLOODS[flood](number) for number in range(3)))
    others = [known for known in driver.thread.outcomes if not known.is_accepted_message]
    assert len(MANY) < len(others) <= REMEMBERED_OUTCOMES
    driver.submit("first")
    assert [known.repeats for known in driver.thread.outcomes if known.id == "first"] == [1]
    assert (isinstance(driver.thread.stage, Idle), driver.thread.counters.runs) == (True, 2)


def test_a_thread_remembers_as_many_outcomes_as_fit() -> None:
    driver = Driver(None, request=NO_INPUT)
    driver.feed(MessagesSubmitted(tuple(input_message(f"{number:0{ID_LENGTH}}") for number in range(900))))
    remembered = driver.thread.outcomes
    size = sum(len(known.model_dump_json()) for known in remembered)
    assert OUTCOMES_BYTES * 0.7 < size < OUTCOMES_BYTES
    assert remembered[-1].id == f"{899:0{ID_LENGTH}}"


def test_long_ids_and_reasons_are_remembered_in_short() -> None:
    driver = Driver(PARALLEL)
    driver.submit("x" * (ID_LENGTH + 1))
    driver.submit("x" * (ID_LENGTH + 1))
    newest = driver.thread.outcomes[-1]
    assert (newest.id, newest.repeats) == (remembered_id("x" * (ID_LENGTH + 1)), 1)
    driver.model(asks(call("c1")))
    driver.decide(reject("n" * 5000, id="d1"))
    refused = outcome(driver.thread, "d1")
    assert (len(refused.reason), len(refused.calls[0])) == (REASON_LENGTH, len(newest.id))


def test_nothing_is_recorded_of_no_messages() -> None:
    thread = Driver(AGENT).thread
    none: tuple[Submitted, ...] = ()
    assert record_messages(thread, none, OutcomeStatus.READ) is thread
