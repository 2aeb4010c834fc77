"""How much input may wait in a thread: more is refused to its sender, so that the thread can always continue as new."""

import random

import pytest

from tests.loop.children import agent_message, idle_with_task, mail_received, spawn_call, task_event, with_tasks
from tests.loop.driving import (
    NO_INPUT,
    THREAD,
    Driver,
    asks,
    awaiting_decisions,
    call,
    input_message,
    resume,
    says,
    snapshot_of,
    with_hooks,
)
from wakeful.contract.base import replace
from wakeful.contract.hooks import LifecyclePhase
from wakeful.contract.inference import TranscriptTail
from wakeful.contract.mail import AGENT_MESSAGE_LIMIT
from wakeful.contract.messages import MESSAGE_LIMIT
from wakeful.contract.runs import OnBusy
from wakeful.loop.machine.commands import SendSignal
from wakeful.loop.machine.facts import CancelRequested, MessagesSubmitted, SignalMalformed
from wakeful.loop.thread.continue_as_new import pack, size_of
from wakeful.loop.thread.transcript import transcript_of
from wakeful.loop.thread.views import carryover
from wakeful.loop.thread.waiting import WAITING_BYTES, WAITING_COUNT
from wakeful_workflows.continue_as_new import SNAPSHOT_LIMIT, Snapshots

RESULT_BYTES = 250_000
RESTORED_BYTES = 1_500_000


def text(size: int) -> str:
    """Text that hardly compresses."""
    return random.Random(size).randbytes(size // 2).hex()


def send(driver: Driver, id: str, size: int, on_busy: OnBusy = OnBusy.ENQUEUE) -> bool:
    """Whether a message of so many bytes is accepted."""
    driver.feed(MessagesSubmitted((input_message(id, text(size)),), on_busy))
    return any(outcome.id == id and outcome.status.value != "refused" for outcome in driver.thread.outcomes)


def test_the_largest_message_can_wait_alone() -> None:
    driver = awaiting_decisions()
    assert send(driver, "m1", MESSAGE_LIMIT - 10)
    assert not send(driver, "m2", 100_000)
    assert send(driver, "m3", 10_000)
    assert [later.message.id for later in driver.thread.queued] == ["m1", "m3"]


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.STEER, OnBusy.INTERRUPT])
def test_a_message_that_would_block_continue_as_new_is_refused_with_the_reason(on_busy: OnBusy) -> None:
    driver = awaiting_decisions()
    accepted = [number for number in range(15) if send(driver, f"m{number}", 100_000, OnBusy.STEER)]
    assert accepted == list(range(10))
    assert not send(driver, "late", 100_000, on_busy)
    (outcome,) = (outcome for outcome in driver.thread.outcomes if outcome.id == "late")
    assert outcome.status.value == "refused"
    assert outcome.reason.startswith("10 messages and decisions with 1,00")
    assert outcome.reason.endswith(" can wait: send it again when the run has read them")


def test_a_refused_message_is_accepted_once_there_is_room() -> None:
    driver = Driver(request=THREAD)
    assert send(driver, "m1", 900_000)
    assert not send(driver, "m2", 900_000)
    driver.model(says("Hello!"))
    assert send(driver, "m2", 900_000)


def test_so_many_messages_can_wait() -> None:
    driver = awaiting_decisions()
    driver.submit(*(f"m{number}" for number in range(WAITING_COUNT)))
    driver.submit("one more")
    assert (len(driver.thread.queued), len(driver.refusal_reasons)) == (WAITING_COUNT, 1)


def test_messages_that_do_not_wait_are_not_counted() -> None:
    driver = Driver(None, request=NO_INPUT)
    driver.submit(*(f"m{number}" for number in range(WAITING_COUNT + 1)))
    assert driver.thread.refusals == ()
    assert driver.thread.transcript.length == WAITING_COUNT + 1


def test_decisions_that_wait_for_their_calls_are_bounded_too() -> None:
    driver = Driver()
    driver.model(asks(call("c1"), call("c2")))
    held = [driver.decide(resume("c2", text(RESULT_BYTES), id=f"d{number}")).thread for number in range(6)]
    assert len(held[-1].current.held) == 4
    assert not send(driver, "m1", 100_000)
    assert [refusal.signal for refusal in driver.thread.refusals] == ["decide", "decide", "submit"]


def test_a_decision_that_is_applied_at_once_needs_no_room() -> None:
    driver = awaiting_decisions()
    assert send(driver, "m1", MESSAGE_LIMIT - 10)
    driver.decide(resume("c1", text(RESULT_BYTES), id="d1"))
    assert driver.thread.refusals == ()


def test_mail_for_which_there_is_no_room_goes_back_to_its_sender() -> None:
    driver = with_tasks(spawn_call("c1"))
    send(driver, "m1", MESSAGE_LIMIT - 10)
    driver.feed(mail_received("msg_1", text(AGENT_MESSAGE_LIMIT)))
    (returned,) = driver.last.commands
    assert isinstance(returned, SendSignal)
    assert (returned.signal, returned.thread_id) == ("mail_returned", agent_message("msg_1").sender.thread_id)
    driver.feed(mail_received("msg_2", "short"), mail_received("msg_2", "short"))
    assert [later.message.id for later in driver.thread.steering] == ["msg_2"]


def test_an_event_of_a_task_for_which_there_is_no_room_is_refused() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.submit(*(f"m{number}" for number in range(WAITING_COUNT)))
    assert not driver.refusal_reasons
    driver.feed(task_event("bg_0"))
    assert driver.thread.refusals[-1].signal == "deliver"


def test_a_full_thread_fits_a_snapshot_and_its_carryover_fits_a_result() -> None:
    driver = awaiting_decisions()
    said = tuple(input_message(f"s{number}", text(50_000)).as_message("") for number in range(6))
    transcript = transcript_of(TranscriptTail(length=0, digest="", messages=said))
    driver.last = replace(driver.last, thread=replace(driver.thread, transcript=transcript))
    send(driver, "m1", 600_000)
    send(driver, "m2", 400_000)
    for number in range(400):
        send(driver, f"refused-{number:0170}", 60_000)
        driver.feed(SignalMalformed("submit", "x" * 10_000))
    packed = Snapshots().pack(snapshot_of(driver.thread))
    assert packed is not None
    assert size_of(packed) <= SNAPSHOT_LIMIT
    assert size_of(pack(snapshot_of(driver.thread))) > WAITING_BYTES
    driver.feed(CancelRequested(close=True))
    kept = carryover(driver.thread)
    assert len(kept.unread) == len(driver.thread.queued)
    assert len(kept.model_dump_json()) < RESTORED_BYTES


def test_a_closing_thread_has_no_more_room_than_any_other() -> None:
    driver = idle_with_task(spawn_call("c1"))
    driver.cancel(close=True)
    assert send(driver, "m1", MESSAGE_LIMIT - 10)
    assert not send(driver, "m2", 100_000)


def test_a_thread_says_that_it_is_closing_until_it_is_closed() -> None:
    """By this mark a client knows that a message would come too late."""
    with_task, in_a_run = idle_with_task(spawn_call("c1")), Driver(request=THREAD)
    with_hook = Driver(with_hooks(LifecyclePhase.RUN_END), request=THREAD)
    with_hook.model(says("Bye."))
    threads = (with_task, in_a_run, with_hook)
    assert [driver.thread.is_closing for driver in threads] == [False, False, False]
    for driver in threads:
        driver.cancel(close=True)
    assert [driver.thread.is_closing for driver in threads] == [True, True, True]
    in_a_run.cancel_in_flight()
    with_hook.hooks()
    assert [driver.thread.is_closing for driver in (in_a_run, with_hook)] == [False, False]
