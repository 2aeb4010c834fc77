"""The tenant of a thread, and the user and the metadata of its runs."""

from typing import Any

import pytest

from tests.loop.children import (
    BILLING,
    PARENT,
    agent_message,
    background_call,
    child_settled,
    delegate_call,
    send_call,
    spawn_call,
    task_event,
    tool_settled,
)
from tests.loop.driving import (
    AGENT,
    NO_INPUT,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    input_message,
    ok,
    pending,
    resume,
    says,
)
from wakeful.contract.base import replace
from wakeful.contract.carryover import Carryover
from wakeful.contract.decisions import Refusal
from wakeful.contract.mail import AgentMessage, ReturnedMessage, Sender
from wakeful.contract.messages import InputMessage
from wakeful.contract.names import (
    RECIPIENT_OF_OTHER_TENANT,
    SIGNAL_DECIDE,
    SIGNAL_DELIVER,
    SIGNAL_EDIT,
    SIGNAL_MAIL_RETURNED,
    SIGNAL_REVOKE,
    SIGNAL_SUBMIT,
    SIGNAL_WITHDRAW,
)
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import Fork, RunRequest
from wakeful.contract.runs import OnBusy, Priority, RunMode, ThreadMode
from wakeful.contract.settings import Caller
from wakeful.loop.machine.commands import ResolveAgent, SendSignal, StartChild, StartTask
from wakeful.loop.machine.facts import (
    ChangeFact,
    DecisionsReceived,
    Delivered,
    EditRequested,
    MailReceived,
    MailReturned,
    MessagesSubmitted,
    RevocationRequested,
    WithdrawalRequested,
    WorkFailed,
)
from wakeful.loop.machine.state import KEPT_STARTERS, Advance
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.opening import begin, other_tenant
from wakeful.loop.thread.submissions import OTHER_USER
from wakeful.loop.thread.views import carryover
from wakeful.loop.thread.waiting import no_room_for

ACME = RunRequest(
    agent_id="assistant", input="Hello", mode=ThreadMode.THREAD, tenant="acme", user="ann", metadata={"order": 7}
)


def acme() -> Driver:
    """A thread of the tenant acme whose run acts for ann."""
    return Driver(PARENT, request=ACME)


def submitted(
    id: str,
    *,
    tenant: str | None = None,
    user: str | None = None,
    order: int | None = None,
    on_busy: OnBusy = OnBusy.ENQUEUE,
) -> MessagesSubmitted:
    caller = Caller(tenant=tenant, user=user, metadata={} if order is None else {"order": order})
    return MessagesSubmitted((input_message(id),), on_busy, caller=caller)


def context_of(driver: Driver) -> tuple[str | None, str | None, object]:
    identity = driver.thread.identity
    return identity.tenant, identity.user, driver.thread.current.metadata


def steering(driver: Driver) -> list[str]:
    return [later.message.id for later in driver.thread.steering]


def mail_from(tenant: str | None) -> AgentMessage:
    return agent_message().model_copy(update={"sender": Sender(agent_id="boss", thread_id="t0", tenant=tenant)})


def test_a_run_has_the_user_and_the_metadata_of_the_message_that_begins_it() -> None:
    """B-661"""
    driver = acme()
    assert context_of(driver) == ("acme", "ann", {"order": 7})
    driver.model(says("Hi."))
    driver.feed(submitted("m1", user="bob"))
    assert context_of(driver) == ("acme", "bob", {})
    driver.resolve()
    driver.model(says("Hi."))
    driver.feed(submitted("m2"))
    assert context_of(driver) == ("acme", None, {})


def test_queued_messages_keep_their_users_and_a_run_has_that_of_its_first() -> None:
    """B-662"""
    driver = acme()
    driver.feed(submitted("m1", user="bob", order=8), submitted("m2", user="cy"))
    assert context_of(driver) == ("acme", "ann", {"order": 7})
    driver.model(says("Hi."))
    driver.resolve()
    assert context_of(driver) == ("acme", "bob", {"order": 8})
    driver.model(says("Bye."))
    assert context_of(driver) == ("acme", "cy", {})


@pytest.mark.parametrize("own", [{"user": "ann"}, {"order": 7}, {}])
def test_a_message_steers_a_run_only_if_it_has_its_user_and_metadata_or_none(own: dict[str, Any]) -> None:
    """B-662"""
    driver = acme()
    driver.feed(
        submitted("m1", user="guest", on_busy=OnBusy.STEER),
        submitted("m2", order=8, on_busy=OnBusy.STEER),
        submitted("m3", on_busy=OnBusy.STEER, **own),
    )
    assert (steering(driver), driver.queued) == (["m3"], ["m1", "m2"])
    assert {outcome.id: outcome.status for outcome in driver.thread.outcomes if outcome.id in ("m1", "m2")} == {
        "m1": OutcomeStatus.QUEUED,
        "m2": OutcomeStatus.QUEUED,
    }
    driver.model(says("Yes?"))
    driver.model(says("Bye."))
    assert context_of(driver) == ("acme", "guest", {})


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.STEER])
@pytest.mark.parametrize("context", [{"user": "guest"}, {"order": 8}])
def test_in_run_mode_a_message_of_another_user_is_refused(on_busy: OnBusy, context: dict[str, Any]) -> None:
    """B-662"""
    driver = Driver(AGENT, request=ACME.model_copy(update={"mode": ThreadMode.RUN}))
    driver.feed(submitted("m1", on_busy=on_busy, **context), submitted("m2", user="ann", on_busy=on_busy))
    assert (steering(driver) + driver.queued, driver.refusal_reasons) == (["m2"], [OTHER_USER])
    driver.feed(submitted("m3", on_busy=OnBusy.INTERRUPT, **context))
    assert driver.queued[0] == "m3"


def test_in_run_mode_a_message_of_another_user_that_no_run_could_read_stays_unread() -> None:
    """B-662"""
    late = Driver(request=ACME.model_copy(update={"mode": ThreadMode.RUN}))
    late.model(says("Hi."))
    late.feed(submitted("m1", user="ann"), submitted("m2", user="guest"))
    request = ACME.model_copy(update={"mode": ThreadMode.RUN, "input": ""})
    woken = Driver(AGENT, request=request, carryover=carryover(late.thread))
    woken.model(says("Hi."))
    assert (context_of(woken), woken.result.unread) == (("acme", "ann", {}), ("m2",))


def test_a_message_that_was_to_steer_a_run_is_not_read_in_the_run_of_the_user_who_interrupts() -> None:
    """B-662"""
    driver = acme()
    driver.feed(
        submitted("m1", user="ann", on_busy=OnBusy.STEER), submitted("m2", user="bob", on_busy=OnBusy.INTERRUPT)
    )
    driver.cancel_in_flight()
    driver.resolve()
    assert (context_of(driver), driver.queued) == (("acme", "bob", {}), ["m1"])
    assert [it.status for it in driver.thread.outcomes if it.id == "m1"] == [OutcomeStatus.QUEUED]
    driver.model(says("Hi."))
    assert (context_of(driver), driver.queued) == (("acme", "ann", {}), [])


def test_a_run_that_mail_and_a_message_begin_acts_for_the_user_of_the_message() -> None:
    """B-661, B-662"""
    driver = acme()
    driver.feed(MailReceived(mail_from("acme")), submitted("m1", user="ann", order=7, on_busy=OnBusy.STEER))
    driver.cancel()
    driver.cancel_in_flight()
    assert (context_of(driver), steering(driver)) == (("acme", "ann", {"order": 7}), [])
    assert len(driver.thread.current.read_mail) == 1


def test_messages_of_two_users_never_begin_a_run_together() -> None:
    """B-662"""
    late = acme()
    late.feed(submitted("m1", user="ann"))
    late.cancel(close=True)
    late.cancel_in_flight()
    kept = carryover(late.thread)
    mixed = tuple(
        kept.unread[0].model_copy(
            update={"user": user, "message": kept.unread[0].message.model_copy(update={"id": user})}
        )
        for user in ("ann", "bob")
    )
    woken = Driver(
        None, request=ACME.model_copy(update={"input": ""}), carryover=kept.model_copy(update={"unread": mixed})
    )
    woken.feed(submitted("m2", user="cy"))
    assert (context_of(woken), woken.queued) == (("acme", "ann", {}), ["bob", "m2"])


def idle_with_task() -> Driver:
    """A thread whose run for ann has ended, and left a task running."""
    driver = Driver(PARENT.model_copy(update={"max_rounds": 1}), request=ACME)
    driver.model(asks(background_call("c1")))
    return driver


def test_a_run_that_the_end_of_a_task_begins_acts_for_the_user_of_the_run_that_started_it() -> None:
    """B-661"""
    direct, continued, closed = idle_with_task(), idle_with_task(), idle_with_task()
    continued.last = replace(continued.last, thread=after_continue_as_new(continued.thread))
    woken = Driver(None, request=NO_INPUT, carryover=carryover(closed.thread))
    for driver in (direct, continued, woken):
        driver.feed(tool_settled("bg_0"))
        assert context_of(driver) == ("acme", "ann", {"order": 7})
        assert driver.thread.identity.run_mode is RunMode.INTERNAL_WAKE
        assert driver.thread.children.starters == ()
    reporting = idle_with_task()
    reporting.feed(task_event("bg_0"))
    assert context_of(reporting) == ("acme", "ann", {"order": 7})


def test_what_tasks_of_two_users_report_begins_a_run_without_a_user() -> None:
    """B-661"""
    driver = idle_with_task()
    driver.feed(submitted("m1", user="guest"))
    driver.resolve(PARENT)
    driver.model(asks(background_call("c2")))
    driver.feed(tool_settled("bg_0"), tool_settled("bg_1"))
    driver.cancel()
    driver.cancel_in_flight()
    assert context_of(driver) == ("acme", None, {})


def test_a_thread_knows_for_whom_the_newest_runs_with_running_tasks_acted() -> None:
    """B-661"""
    driver = Driver(PARENT.model_copy(update={"max_rounds": 1}), request=THREAD)
    driver.model(asks(background_call("c0"), background_call("c1")))
    assert list(driver.thread.children.starters) == []
    for number in range(KEPT_STARTERS + 2):
        driver.feed(submitted(f"m{number}", user=f"u{number}"))
        driver.resolve(PARENT.model_copy(update={"max_rounds": 1}))
        driver.model(asks(background_call("c0"), background_call("c1")))
    users = [starter.user for starter in driver.thread.children.starters]
    assert users == [f"u{number}" for number in range(2, KEPT_STARTERS + 2)]


def test_mail_that_begins_the_first_run_of_a_thread_does_not_act_for_the_user_who_started_it() -> None:
    """B-661"""
    driver = Driver(None, request=ACME.model_copy(update={"input": ""}))
    driver.feed(MailReceived(mail_from("acme")))
    assert context_of(driver) == ("acme", None, {})


def test_a_run_that_waits_for_its_tasks_leaves_another_users_message_to_the_next_run() -> None:
    """B-662"""
    driver = acme()
    driver.model(asks(background_call("c1")))
    driver.model(says("Wait."))
    driver.feed(submitted("m1", user="bob"), submitted("m2", order=8))
    assert driver.queued == ["m1", "m2"]
    waiting = replace(driver.thread, queued=())
    for own in (submitted("m3", user="ann"), submitted("m4"), submitted("m5", order=7)):
        driver.last = replace(driver.last, thread=waiting)
        driver.feed(own)
        assert driver.queued == []


def test_the_agent_that_a_run_is_handed_off_to_acts_for_the_same_user() -> None:
    """B-661"""
    driver = acme()
    driver.model(asks(call("c1", "handoff_to_billing")))
    driver.resolve(BILLING)
    assert context_of(driver) == ("acme", "ann", {"order": 7})
    assert [resolve.metadata for resolve in driver.commands_of(ResolveAgent)] == [{"order": 7}] * 2


def test_a_run_that_mail_begins_has_no_user() -> None:
    """B-661"""
    driver = acme()
    driver.model(says("Hi."))
    driver.feed(MailReceived(mail_from("acme")))
    assert context_of(driver) == ("acme", None, {})


def test_sub_agents_and_background_tools_inherit_tenant_user_and_metadata() -> None:
    """B-660, B-661"""
    driver = acme()
    driver.model(asks(spawn_call("c1"), delegate_call("c2")))
    requests = [start.request for start in driver.commands_of(StartChild)]
    assert [(it.tenant, it.user, it.metadata) for it in requests] == [("acme", "ann", {"order": 7})] * 2
    driver.feed(child_settled("delegate-c2"))
    driver.model(asks(background_call("c3")))
    assert [start.metadata for start in driver.commands_of(StartTask)] == [{"order": 7}]


@pytest.mark.parametrize("on_busy", OnBusy)
@pytest.mark.parametrize("is_idle", [True, False])
@pytest.mark.parametrize("own", ["acme", None])
def test_a_message_of_another_tenant_is_refused(on_busy: OnBusy, is_idle: bool, own: str | None) -> None:
    """B-660"""
    driver = Driver(AGENT, request=ACME.model_copy(update={"tenant": own}))
    if is_idle:
        driver.model(says("Hi."))
    before = driver.thread
    driver.feed(submitted("m1", tenant="beta", on_busy=on_busy))
    reason = "the thread belongs to another tenant than 'beta', which the message is from"
    assert driver.last.commands == ()
    assert driver.thread.refusals == (Refusal(signal=SIGNAL_SUBMIT, reason=reason, at=driver.now),)
    assert driver.thread.outcomes[-1].status is OutcomeStatus.REFUSED
    assert (driver.thread.stage, driver.thread.queued, driver.thread.steering) == (before.stage, (), ())


@pytest.mark.parametrize("tenant", ["acme", None])
def test_a_message_of_the_same_tenant_or_without_one_is_accepted(tenant: str | None) -> None:
    """B-660"""
    driver = acme()
    driver.feed(submitted("m1", tenant=tenant))
    assert (driver.queued, driver.thread.refusals) == (["m1"], ())


def waiting_for_a_decision() -> Driver:
    """A thread of acme with a suspended call, a queued message and a rule of its own."""
    driver = acme()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.feed(submitted("m1", tenant="acme"))
    driver.last = Advance(replace(driver.thread, permissions=(Rule(tool="pay", behavior=Behavior.ALLOW),)))
    return driver


OF_CLIENTS: dict[str, ChangeFact | DecisionsReceived] = {
    SIGNAL_WITHDRAW: WithdrawalRequested(("m1",), "x1"),
    SIGNAL_EDIT: EditRequested(InputMessage(content="mine", id="m1"), "x1"),
    SIGNAL_REVOKE: RevocationRequested(("pay",), "x1"),
    SIGNAL_DECIDE: DecisionsReceived((resume("c1", id="x1"),)),
}


@pytest.mark.parametrize("signal", OF_CLIENTS)
def test_a_change_and_a_decision_of_another_tenant_are_refused(signal: str) -> None:
    """B-660"""
    driver = waiting_for_a_decision()
    before = driver.thread
    driver.feed(replace(OF_CLIENTS[signal], tenant="beta"))
    sent = "decision" if signal == SIGNAL_DECIDE else "change"
    reason = f"the thread belongs to another tenant than 'beta', which the {sent} is from"
    assert driver.last.commands == ()
    assert driver.thread.refusals == (Refusal(signal=signal, reason=reason, at=driver.now),)
    outcome = driver.thread.outcomes[-1]
    assert (outcome.id, outcome.status, outcome.reason) == ("x1", OutcomeStatus.REFUSED, reason)
    now = driver.thread
    assert now == replace(before, refusals=now.refusals, outcomes=now.outcomes, counters=now.counters)


@pytest.mark.parametrize("tenant", ["acme", None])
@pytest.mark.parametrize("signal", OF_CLIENTS)
def test_a_change_and_a_decision_of_the_same_tenant_or_without_one_are_applied(signal: str, tenant: str | None) -> None:
    """B-660"""
    driver = waiting_for_a_decision()
    driver.feed(replace(OF_CLIENTS[signal], tenant=tenant))
    assert (status_of(driver, "x1"), driver.thread.refusals) == (OutcomeStatus.APPLIED, ())


@pytest.mark.parametrize("signal", OF_CLIENTS)
def test_another_tenant_does_not_alter_what_became_of_a_request_by_its_id(signal: str) -> None:
    """B-660"""
    driver = waiting_for_a_decision()
    driver.feed(OF_CLIENTS[signal], replace(OF_CLIENTS[signal], tenant="beta"))
    assert status_of(driver, "x1") is OutcomeStatus.APPLIED


def status_of(driver: Driver, id: str) -> OutcomeStatus:
    (outcome,) = [outcome for outcome in driver.thread.outcomes if outcome.id == id]
    return outcome.status


def test_a_thread_that_has_ended_keeps_no_message_of_another_tenant() -> None:
    """B-660"""
    driver = Driver(request=ACME.model_copy(update={"mode": ThreadMode.RUN}))
    driver.model(says("Hi."))
    driver.feed(submitted("m1", tenant="beta"))
    assert (driver.result.unread, carryover(driver.thread).unread) == ((), ())


@pytest.mark.parametrize("tenant", ["beta", None])
def test_mail_of_another_tenant_is_refused_and_returned(tenant: str | None) -> None:
    """B-660"""
    driver = acme()
    driver.model(says("Hi."))
    mail = mail_from(tenant)
    driver.feed(MailReceived(mail))
    returned = ReturnedMessage(message=mail, error=RECIPIENT_OF_OTHER_TENANT)
    assert driver.last.commands == (SendSignal("return-msg_1", "t0", SIGNAL_MAIL_RETURNED, returned),)
    assert [refusal.signal for refusal in driver.thread.refusals] == [SIGNAL_DELIVER]
    assert driver.refusal_reasons == ["the message of thread 't0' comes from another tenant"]
    ends = (Delivered("return-msg_1"), WorkFailed("return-msg_1", "gone"))
    before = driver.last
    for end in ends:
        driver.last = before
        driver.feed(end)
        assert driver.thread.steering == ()


def test_returned_mail_of_another_tenant_is_refused_and_not_sent_again() -> None:
    """B-660"""
    driver = acme()
    for tenant in ("beta", None):
        driver.feed(MailReturned(mail_from(tenant), "recipient_unavailable"))
        assert "of another tenant" in driver.thread.refusals[-1].reason
    assert driver.thread.mail.undelivered == ()


def test_mail_says_which_tenant_it_comes_from() -> None:
    """B-660"""
    driver = acme()
    driver.model(asks(send_call("c1", {"relation": "agent", "thread_id": "t9"})))
    sent = driver.thread.batch.running[0].message if driver.thread.batch else None
    assert sent is not None
    assert sent.sender.tenant == "acme"


def test_a_fork_belongs_to_the_tenant_and_continues_for_the_user_of_its_origin() -> None:
    """B-660, B-661"""
    origin = acme()
    origin.model(asks(call("c1")))
    origin.tool("c1", ok("seen"))
    kept = origin.last.fork_points[0].carryover
    request = RunRequest(
        agent_id="assistant", fork=Fork(thread_id="t1", run_id="0190", step=1, messages=3), input="And?"
    )
    for says_more in (request, request.model_copy(update={"input": ""})):
        fork = Driver(None, request=says_more, carryover=kept)
        assert context_of(fork) == ("acme", "ann", {"order": 7})
    own = Driver(None, request=request.model_copy(update={"user": "bob"}), carryover=kept)
    assert context_of(own) == ("acme", "bob", {})
    assert own.thread.fork_point.carryover.run_user == "bob"


def test_the_tenant_of_a_thread_outlives_its_runs_and_executions() -> None:
    """B-660"""
    driver = acme()
    driver.feed(submitted("m1", user="bob", order=8))
    driver.cancel(close=True)
    driver.cancel_in_flight()
    kept = carryover(driver.thread)
    assert (kept.tenant, kept.unread[0].user, kept.unread[0].metadata) == ("acme", "bob", {"order": 8})
    assert kept.for_fork().tenant == "acme"
    woken = Driver(None, request=RunRequest(agent_id="assistant", mode=ThreadMode.THREAD), carryover=kept)
    assert woken.thread.identity.tenant == "acme"
    woken.feed(submitted("m2", tenant="acme", user="cy"))
    assert context_of(woken) == ("acme", "bob", {"order": 8})


def test_a_request_of_another_tenant_cannot_continue_a_thread() -> None:
    """B-660"""
    kept = Carryover(tenant="acme")
    assert (other_tenant(None, kept), other_tenant("acme", kept), other_tenant(None, Carryover())) == (None, None, None)
    assert "another tenant than 'beta'" in (other_tenant("beta", kept) or "")
    assert "no tenant" in (other_tenant("beta", Carryover()) or "")


def test_the_context_of_a_run_passes_continue_as_new() -> None:
    """B-660, B-661"""
    starting = begin(ACME, thread_id="t1", run_id="r1")
    thread = after_continue_as_new(starting.thread)
    assert pending_commands(thread) == starting.commands
    assert (thread.identity, thread.current.metadata) == (starting.thread.identity, {"order": 7})


def test_metadata_counts_among_what_waits_in_a_thread() -> None:
    driver = acme()
    driver.feed(MessagesSubmitted((input_message("m1"),), caller=Caller(metadata={"note": "x" * 7_000})))
    later = driver.thread.queued[0]
    assert no_room_for(driver.thread, [later] * 100) is None
    assert no_room_for(driver.thread, [later] * 160) is not None


def test_the_model_call_of_a_run_knows_its_context_only_where_rules_gates_or_hooks_ask_for_it() -> None:
    driver = acme()
    assert not driver.inference().is_judged
    asking = PARENT.model_copy(update={"gates": ("g",)})
    ruled = PermissionPolicy(rules=(Rule(tool='pay($user = "ann")', behavior=Behavior.DENY),))
    for agent in (asking, PARENT.model_copy(update={"permissions": ruled})):
        judged = Driver(agent, request=ACME)
        assert (judged.inference().is_judged, judged.inference().metadata) == (True, {"order": 7})


def test_the_priority_of_a_thread_is_its_own_then_its_agents_and_the_tenant_is_its_fairness_key() -> None:
    """B-665"""
    plain = Driver(AGENT)
    assert plain.thread.priority == Priority()
    assert acme().thread.priority == Priority(fairness_key="acme")
    agent = AGENT.model_copy(update={"priority": Priority(priority_key=4, fairness_weight=2)})
    assert Driver(agent, request=ACME).thread.priority == Priority(
        priority_key=4, fairness_key="acme", fairness_weight=2
    )
    own = ACME.model_copy(update={"priority": Priority(priority_key=1, fairness_key="vip")})
    driver = Driver(agent, request=own)
    assert driver.thread.priority == Priority(priority_key=1, fairness_key="vip", fairness_weight=2)
    woken = Driver(None, request=RunRequest(agent_id="a", mode=ThreadMode.THREAD), carryover=carryover(driver.thread))
    assert woken.thread.priority == Priority(priority_key=1, fairness_key="vip")


def test_sub_agents_have_the_priority_of_their_parents_request() -> None:
    """B-665"""
    driver = Driver(PARENT, request=ACME.model_copy(update={"priority": Priority(priority_key=1)}))
    driver.model(asks(spawn_call("c1")))
    assert [start.request.priority for start in driver.commands_of(StartChild)] == [Priority(priority_key=1)]
