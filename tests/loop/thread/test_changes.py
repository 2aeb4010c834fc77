"""Clients withdraw and edit messages that no run has read, and revoke rules; what comes too late is refused (B-599)."""

import pytest

from tests.loop.children import mail_received
from tests.loop.driving import (
    AGENT,
    NO_INPUT,
    REQUEST,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    input_message,
    says,
)
from wakeful.contract.base import replace
from wakeful.contract.carryover import Carryover
from wakeful.contract.events import MessageEdited, MessagesWithdrawn, RulesRevoked, SignalRefused
from wakeful.contract.messages import InputMessage, Message, Role, TextBlock
from wakeful.contract.outcomes import Outcome, OutcomeStatus
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy
from wakeful.contract.views import PermissionsView, QueuedMessage, RuleScope, ScopedRule
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import (
    EditRequested,
    LoopFailed,
    MessagesSubmitted,
    RevocationRequested,
    SignalMalformed,
    WithdrawalRequested,
)
from wakeful.loop.machine.stages import Done, Idle
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread.submissions import INLINE_BYTES
from wakeful.loop.thread.views import permissions_view, queued_messages
from wakeful.loop.thread.waiting import WAITING_BYTES

ALLOW_PAY = Rule(tool="pay", behavior=Behavior.ALLOW)


def edited(id: str, text: str, request_id: str | None = None) -> EditRequested:
    return EditRequested(InputMessage(content=text, id=id), request_id)


def outcomes(thread: Thread, id: str) -> list[Outcome]:
    return [outcome for outcome in thread.outcomes if outcome.id == id]


def applied(id: str, subject: str, *, repeats: int = 0) -> Outcome:
    return Outcome(id=id, status=OutcomeStatus.APPLIED, subject=subject, run=1, repeats=repeats)


def refused(id: str, subject: str, reason: str) -> Outcome:
    return Outcome(id=id, status=OutcomeStatus.REFUSED, reason=reason, subject=subject, run=1)


def test_a_withdrawn_message_starts_no_run_and_sending_it_again_has_no_effect() -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.feed(WithdrawalRequested(("m1",), "w1"))
    assert driver.events_of("messages_withdrawn") == [MessagesWithdrawn(message_ids=("m1",))]
    assert outcomes(driver.thread, "m1") == [Outcome(id="m1", status=OutcomeStatus.WITHDRAWN)]
    assert outcomes(driver.thread, "w1") == [applied("w1", "m1")]
    driver.submit("m1")
    assert outcomes(driver.thread, "m1") == [Outcome(id="m1", status=OutcomeStatus.WITHDRAWN, repeats=1)]
    driver.model(says("Bye."))
    assert (driver.thread.queued, isinstance(driver.thread.stage, Idle)) == ((), True)


def test_of_several_messages_those_that_wait_are_withdrawn_and_each_of_the_others_is_refused_with_its_reason() -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.submit("m2")
    driver.feed(mail_received("msg_1"), WithdrawalRequested(("r1:1", "m2", "m1", "msg_1", "m9", "m2"), "w1"))
    assert driver.events_of("messages_withdrawn") == [MessagesWithdrawn(message_ids=("m2", "m1"))]
    reasons = {
        "r1:1": "it is too late: a run has read message 'r1:1'",
        "msg_1": "'msg_1' is mail of another agent or a task: it is read as it was sent",
        "m9": "no message 'm9' waits in the thread",
    }
    assert [later.message.id for later in (*driver.thread.steering, *driver.thread.queued)] == ["msg_1"]
    assert outcomes(driver.thread, "w1") == [
        refused("w1", "r1:1", reasons["r1:1"]),
        applied("w1", "m2"),
        applied("w1", "m1"),
        refused("w1", "msg_1", reasons["msg_1"]),
        refused("w1", "m9", reasons["m9"]),
    ]
    assert driver.refusal_reasons == list(reasons.values())
    assert SignalRefused(signal="withdraw", reason=reasons["m9"]) in driver.events


def test_a_withdrawal_that_is_sent_again_is_a_repeat_and_another_of_the_same_message_succeeds() -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    driver.submit("m1", "m2")
    driver.feed(*[WithdrawalRequested(("m1", "m2"), "w1")] * 2, WithdrawalRequested(("m1",), "w2"))
    assert outcomes(driver.thread, "w1") == [applied("w1", "m1", repeats=1), applied("w1", "m2", repeats=1)]
    assert outcomes(driver.thread, "w2") == [applied("w2", "m1")]
    assert len(driver.events_of("messages_withdrawn")) == 1


@pytest.mark.parametrize("on_busy", [OnBusy.INTERRUPT, OnBusy.ROLLBACK])
@pytest.mark.parametrize("request_", [THREAD, REQUEST], ids=["thread", "run"])
def test_a_run_whose_interrupting_message_is_withdrawn_ends_and_no_other_starts(
    request_: RunRequest, on_busy: OnBusy
) -> None:
    """B-599"""
    driver = Driver(request=request_)
    driver.submit("m2", on_busy=OnBusy.STEER)
    driver.feed(WithdrawalRequested(("m2",)))
    driver.submit("m1", on_busy=on_busy)
    driver.feed(WithdrawalRequested(("m1",)))
    driver.cancel_in_flight()
    assert isinstance(driver.thread.stage, Idle if request_ is THREAD else Done)
    result = driver.thread.stage.result
    assert (driver.thread.counters.runs, result and result.unread) == (1, ())


def test_in_run_mode_what_steers_is_unread_if_the_message_that_interrupted_is_withdrawn() -> None:
    driver = Driver(request=REQUEST)
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.submit("m2", on_busy=OnBusy.INTERRUPT)
    driver.feed(WithdrawalRequested(("m2",)))
    driver.cancel_in_flight()
    assert driver.result.unread == ("m1",)


def test_a_message_that_a_thread_has_not_read_when_it_ends_can_be_withdrawn_until_it_is_closed() -> None:
    """B-599"""
    driver = Driver(request=REQUEST)
    driver.submit("m1")
    driver.submit("m2")
    driver.cancel()
    driver.cancel_in_flight()
    driver.feed(WithdrawalRequested(("m1",), "w1"))
    assert (driver.result.unread, outcomes(driver.thread, "w1")) == (("m2",), [applied("w1", "m1")])
    assert queued_messages(driver.thread)[0].status is OutcomeStatus.UNREAD


def test_a_run_reads_an_edited_message_where_the_first_version_waited() -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    for id in ("m1", "m2"):
        driver.submit(id)
    driver.feed(edited("m1", "Rather this.", "e1"))
    message = Message(id="m1", role=Role.USER, content=(TextBlock(text="Rather this."),))
    assert driver.events_of("message_edited") == [MessageEdited(message=message)]
    assert [later.message.text for later in driver.thread.queued] == ["Rather this.", "And then?"]
    assert outcomes(driver.thread, "m1") == [Outcome(id="m1", status=OutcomeStatus.QUEUED)]
    assert outcomes(driver.thread, "e1") == [applied("e1", "m1")]
    driver.model(says("Bye."))
    driver.resolve()
    assert driver.inference().appended[-1] == message
    assert driver.texts[-1] == "Rather this."


def test_a_long_edited_message_is_referred_to_by_the_number_of_its_signal() -> None:
    """`submit` and `edit` signals are counted together, also those that are refused or malformed."""
    driver = Driver(request=THREAD)
    driver.submit("m1")
    long = "x" * INLINE_BYTES
    driver.feed(edited("m9", "too late"), SignalMalformed("edit", "not an edit"), edited("m1", long))
    assert [later.source for later in driver.thread.queued] == ["submit:4:0"]
    driver.feed(LoopFailed("boom", edited("m1", "lost", "e1")))
    assert driver.thread.counters.submissions == 5
    assert outcomes(driver.thread, "e1") == [refused("e1", "m1", "boom")]


@pytest.mark.parametrize(
    ("id", "reason"),
    [
        ("m1", "message 'm1' was withdrawn: send another one"),
        ("r1:1", "it is too late: a run has read message 'r1:1'"),
        ("m9", "no message 'm9' waits in the thread"),
    ],
)
def test_an_edit_that_comes_too_late_changes_nothing_and_says_why(id: str, reason: str) -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.feed(WithdrawalRequested(("m1",)), edited(id, "Other.", "e1"))
    assert outcomes(driver.thread, "e1") == [refused("e1", id, reason)]
    assert (driver.refusal_reasons, driver.events_of("message_edited")) == ([reason], [])


def test_a_message_that_was_rolled_back_can_neither_be_edited_nor_withdrawn() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    driver.feed(edited("r1:1", "Other."), WithdrawalRequested(("r1:1",)))
    reason = "it is too late: a run had read message 'r1:1', and was rolled back"
    assert driver.refusal_reasons == [reason, reason]


def test_an_edit_that_was_applied_is_a_repeat_when_it_is_sent_again_even_after_the_message_was_read() -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.feed(edited("m1", "Rather this.", "e1"))
    driver.model(says("Bye."))
    driver.feed(edited("m1", "Rather this.", "e1"))
    assert outcomes(driver.thread, "e1") == [applied("e1", "m1", repeats=1)]
    assert driver.refusal_reasons == []


def test_an_edit_that_there_is_no_room_for_is_refused() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.feed(MessagesSubmitted((input_message("m2", "x" * (WAITING_BYTES // 2)),)))
    driver.feed(edited("m1", "y" * (WAITING_BYTES // 2), "e1"))
    [outcome] = outcomes(driver.thread, "e1")
    assert (outcome.status, driver.thread.queued[0].message.text) == (OutcomeStatus.REFUSED, "And then?")


def test_what_waits_is_listed_in_the_order_in_which_it_is_read() -> None:
    """B-599"""
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.submit("m2", on_busy=OnBusy.STEER)
    driver.feed(mail_received("msg_1"))
    thread = after_continue_as_new(driver.thread)
    assert [(each.message.id, each.status.value, each.mail) for each in queued_messages(thread)] == [
        ("m2", "steering", False),
        ("msg_1", "steering", True),
        ("m1", "queued", False),
    ]
    assert isinstance(queued_messages(thread)[0], QueuedMessage)


def with_rules(*rules: Rule) -> Driver:
    """A run on a thread that has these rules; its request brings `look`."""
    look = Rule(tool="look", behavior=Behavior.ASK)
    policy = PermissionPolicy(rules=(Rule(tool="drop", behavior=Behavior.DENY),))
    request = THREAD.model_copy(update={"permissions": (look,)})
    return Driver(
        AGENT.model_copy(update={"permissions": policy}), request=request, carryover=Carryover(permissions=rules)
    )


def test_the_rules_of_the_agent_the_thread_and_the_run_are_listed_with_their_scope() -> None:
    """B-803"""
    assert permissions_view(with_rules(ALLOW_PAY).thread) == PermissionsView(
        default_behavior=Behavior.ASK,
        rules=(
            ScopedRule(rule=Rule(tool="drop", behavior=Behavior.DENY), scope=RuleScope.AGENT),
            ScopedRule(rule=ALLOW_PAY, scope=RuleScope.THREAD),
            ScopedRule(rule=Rule(tool="look", behavior=Behavior.ASK), scope=RuleScope.RUN),
        ),
    )
    unresolved = Driver(None, request=NO_INPUT)
    assert permissions_view(unresolved.thread) == PermissionsView(default_behavior=Behavior.ALLOW, rules=())


def test_the_rules_that_a_decision_of_the_run_has_added_are_named() -> None:
    driver = with_rules(ALLOW_PAY)
    driver.last = Advance(driver.thread.with_run(replace(driver.thread.current, always=("pay", "revoked"))))
    assert permissions_view(driver.thread).always == ("pay",)


def test_a_revoked_rule_does_not_apply_to_the_calls_that_start_afterwards() -> None:
    """B-803"""
    driver = with_rules(ALLOW_PAY)
    assert ALLOW_PAY in driver.inference().permissions
    driver.feed(RevocationRequested(("pay",), "v1"))
    assert driver.events_of("rules_revoked") == [RulesRevoked(rules=(ALLOW_PAY,))]
    driver.model(asks(call("c1", "pay")))
    assert driver.tool_commands("c1")[-1].permissions == (Rule(tool="look", behavior=Behavior.ASK),)
    assert outcomes(driver.thread, "v1") == [applied("v1", "pay")]
    driver.feed(RevocationRequested(("pay",), "v1"))
    assert outcomes(driver.thread, "v1") == [applied("v1", "pay", repeats=1)]


def test_a_rollback_of_the_run_does_not_bring_a_revoked_rule_back() -> None:
    """B-803"""
    driver = with_rules(ALLOW_PAY)
    driver.feed(RevocationRequested(("pay",)))
    driver.submit("m1", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    assert driver.thread.permissions == ()


def test_a_rule_that_the_thread_does_not_have_cannot_be_revoked() -> None:
    """B-803"""
    driver = with_rules(ALLOW_PAY)
    driver.feed(RevocationRequested(("look", "drop"), "v1"))
    assert driver.refusal_reasons == [
        "the rule for 'look' is of the run, and ends with it",
        "the thread has no rule for 'drop'; an agent's own rules are changed where the agent is defined",
    ]
    assert driver.thread.permissions == (ALLOW_PAY,)


def test_a_thread_that_never_had_a_run_and_a_run_of_an_earlier_release_can_lose_rules_too() -> None:
    idle = Driver(None, request=NO_INPUT, carryover=Carryover(permissions=(ALLOW_PAY,)))
    idle.feed(RevocationRequested(("pay", "look")))
    driver = with_rules(ALLOW_PAY)
    without_before = driver.thread.with_run(replace(driver.thread.current, before=None))
    revoked = advance(without_before, RevocationRequested(("pay",)), now=99).thread
    assert (idle.thread.permissions, revoked.permissions) == ((), ())
    assert [refusal.signal for refusal in idle.thread.refusals] == ["revoke"]
