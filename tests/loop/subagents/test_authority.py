"""Authority only narrows: what an ancestor, a request or an agent that handed off denies or asks about stays so."""

from typing import Any

import pytest

from tests.loop.children import (
    BILLING,
    background_call,
    delegate_call,
    make_parent,
    spawn_call,
    task_event,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import Driver, after_continue_as_new, asks, call, says, snapshot_of, thread_id_of
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import json_bytes, replace
from wakeful.contract.budgets import Budget
from wakeful.contract.carryover import AgentRules, Carryover
from wakeful.contract.events import RulesRevoked
from wakeful.contract.hooks import HookEffects
from wakeful.contract.mail import AgentMessage, Sender
from wakeful.contract.messages import InputMessage, ToolCall
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, Origin, RunIdentity, ThreadMode
from wakeful.contract.settings import Caller, RunSettings
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tasks import NO_TOOLS, MailStarter, Task, TaskContext, TaskStarter, TaskType
from wakeful.contract.views import RuleScope
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.commands import Infer, SendSignal, StartChild
from wakeful.loop.machine.facts import AgentResolved, Fact, MailReceived, MessagesSubmitted, RevocationRequested
from wakeful.loop.machine.revisions import AUTHORITY_NARROWS, ENDED_TAKE_NO_MAIL, MAIL_OF_TASKS_IS_BOUND, REVISION
from wakeful.loop.machine.state import KEPT_STARTERS, STARTER_RULES_BYTES, Children
from wakeful.loop.subagents import ledger
from wakeful.loop.thread.continue_as_new import pack, unpack
from wakeful.loop.thread.views import carryover, permissions_view

ALLOW_PAY, ASK_PAY, DENY_PAY = (Rule(tool="pay", behavior=behavior) for behavior in Behavior)
ALLOW_LOOK, ASK_LOOK, DENY_LOOK = (Rule(tool="look", behavior=behavior) for behavior in Behavior)
DENY_DIG = Rule(tool="dig", behavior=Behavior.DENY)
OLDER = AUTHORITY_NARROWS - 1
CONTEXT = SubagentContext(path=("t0",), work_id="bg_3")
CHILD = RunRequest(
    agent_id="assistant",
    input="Pay.",
    parent_thread_id="t0",
    origin=Origin.SUBAGENT,
    permissions=(ASK_PAY,),
    subagent=CONTEXT,
)


def governed(*rules: Rule, agent_id: str = "assistant", max_rounds: int = 16) -> ResolvedAgent:
    """An agent with all of the runtime's tools, and these rules of its own."""
    return make_parent(max_rounds=max_rounds, agent_id=agent_id, permissions=PermissionPolicy(rules=rules))


def submitted(
    id: str, *, agent_id: str | None = None, on_busy: OnBusy = OnBusy.ENQUEUE, user: str | None = None
) -> Fact:
    messages, caller = (InputMessage(id=id, content="And then?"),), Caller(user=user)
    return MessagesSubmitted(messages, on_busy, agent_id, caller=caller)


def resolve(driver: Driver, agent: ResolvedAgent) -> None:
    driver.feed(AgentResolved(driver.commands[-1].id, agent, driver.revision))


def inherited(driver: Driver) -> list[tuple[Rule, ...]]:
    return [command.request.permissions for command in driver.commands_of(StartChild)]


def newest(driver: Driver) -> Infer:
    return driver.commands_of(Infer)[-1]


# Sub-agents


@pytest.mark.parametrize("start", [delegate_call("c1"), spawn_call("c1")], ids=["delegate", "spawn"])
def test_a_sub_agent_inherits_what_its_parents_policy_its_request_and_its_ancestors_deny_or_ask(start: object) -> None:
    """B-513"""
    request = CHILD.model_copy(update={"permissions": (DENY_DIG,)})
    driver = Driver(governed(ALLOW_PAY, ASK_LOOK), request=request)
    driver.feed(submitted("m1", on_busy=OnBusy.STEER))
    driver.model(asks(start))  # type: ignore[arg-type]  # both are calls
    assert inherited(driver) == [(DENY_DIG, ASK_LOOK)]


def test_a_parent_of_an_older_revision_passes_on_the_rules_of_its_request() -> None:
    driver = Driver(governed(ASK_LOOK), request=CHILD, revision=OLDER)
    driver.model(asks(delegate_call("c1")))
    assert (inherited(driver), newest(driver).questions) == ([(ASK_PAY,)], ())


def test_what_an_ancestor_asks_about_is_asked_in_the_first_run_and_in_every_later_one() -> None:
    """B-513"""
    driver = Driver(governed(), request=CHILD)
    assert (newest(driver).permissions, newest(driver).questions) == ((ASK_PAY,), ((ASK_PAY,),))
    driver.model(says("Paid."))
    allowing = CHILD.model_copy(
        update={"mode": ThreadMode.THREAD, "permissions": (ALLOW_PAY,), "subagent": None, "parent_thread_id": None}
    )
    woken = Driver(governed(), request=allowing, carryover=carryover(driver.thread))
    assert newest(woken).questions == ((ASK_PAY,),)
    woken.model(says("Paid again."))
    woken.feed(submitted("m2"))
    resolve(woken, governed())
    assert newest(woken).questions == ((ASK_PAY,),)
    assert after_continue_as_new(woken.thread).authority == (ASK_PAY,)


def test_a_decision_with_always_answers_the_question_of_an_ancestor() -> None:
    woken = Driver(governed(), request=CHILD, carryover=Carryover(permissions=(ALLOW_PAY,)))
    assert newest(woken).questions == ()


def test_what_a_request_asks_about_is_asked_whatever_the_agent_allows() -> None:
    """B-513"""
    request = RunRequest(agent_id="assistant", input="Pay.", permissions=(ASK_PAY,))
    driver = Driver(governed(), request=request)
    driver.model(asks(call("c1")))
    assert (newest(driver).questions, driver.tool_commands("c1")[-1].questions) == (((ASK_PAY,),), ((ASK_PAY,),))


def test_a_fork_of_a_sub_agent_has_its_ancestors_rules() -> None:
    driver = Driver(governed(), request=CHILD)
    driver.model(says("Paid."))
    assert driver.thread.fork_point.carryover.authority == (ASK_PAY,)
    assert carryover(driver.thread).for_fork().authority == (ASK_PAY,)


def test_the_rules_of_ancestors_are_listed_as_theirs_and_cannot_be_revoked() -> None:
    driver = Driver(governed(), request=CHILD)
    assert [(each.rule, each.scope) for each in permissions_view(driver.thread).rules] == [
        (ASK_PAY, RuleScope.ANCESTOR)
    ]
    driver.feed(RevocationRequested(("pay",)))
    assert driver.refusal_reasons == [
        "the rule for 'pay' is an ancestor's, and holds in every run of this thread; inherited=True lifts it"
    ]


# Handoffs


def handed_off(driver: Driver, agent: ResolvedAgent = BILLING) -> Driver:
    driver.model(asks(call("c9", f"handoff_to_{agent.agent_id}", {})))
    resolve(driver, agent)
    return driver


def thread_of(*rules: Rule, revision: int = AUTHORITY_NARROWS) -> Driver:
    request = RunRequest(agent_id="assistant", input="Pay.", mode=ThreadMode.THREAD)
    return Driver(governed(*rules), request=request, revision=revision)


def test_what_an_agent_denies_or_asks_about_holds_for_the_agent_that_takes_over() -> None:
    driver = handed_off(thread_of(ALLOW_PAY, ASK_LOOK, DENY_DIG))
    assert set(newest(driver).permissions) == {ASK_LOOK, DENY_DIG}
    assert newest(driver).questions == ((ASK_LOOK,),)
    driver.model(says("Paid."))
    driver.feed(submitted("m1"))
    resolve(driver, BILLING)
    assert newest(driver).questions == ((ASK_LOOK,),)


def test_an_agent_of_an_older_revision_hands_off_without_its_rules() -> None:
    driver = handed_off(thread_of(ASK_LOOK, revision=OLDER))
    assert (driver.thread.handed_over, newest(driver).questions) == ((), ())


def test_an_agent_that_the_run_returns_to_has_its_own_exceptions() -> None:
    mine = governed(ALLOW_PAY, ASK_LOOK)
    driver = handed_off(handed_off(thread_of(ALLOW_PAY, ASK_LOOK)), mine)
    assert newest(driver).questions == ()


def test_a_caller_who_names_another_agent_hands_nothing_off() -> None:
    driver = handed_off(thread_of(ASK_LOOK))
    driver.model(says("Paid."))
    driver.feed(submitted("m1", agent_id="writer"))
    resolve(driver, governed(agent_id="writer"))
    assert (driver.thread.handed_over, newest(driver).questions) == ((), ())


def test_a_handoff_that_the_next_run_carries_out_passes_the_rules_on() -> None:
    driver = Driver(
        governed(ASK_LOOK, max_rounds=1), request=RunRequest(agent_id="assistant", input="Pay.", mode=ThreadMode.THREAD)
    )
    driver.model(asks(call("c9", "handoff_to_billing", {})))
    expected = (AgentRules(agent_id="assistant", rules=(ASK_LOOK,)),)
    assert driver.thread.requested_agent == "billing"
    assert carryover(driver.thread).handed_over == driver.thread.fork_point.handed_over == expected
    driver.feed(submitted("m1"))
    resolve(driver, BILLING)
    assert newest(driver).questions == ((ASK_LOOK,),)


def test_a_handoff_of_an_older_revision_that_the_next_run_carries_out_passes_no_rules_on() -> None:
    request = RunRequest(agent_id="assistant", input="Pay.", mode=ThreadMode.THREAD)
    driver = Driver(governed(ASK_LOOK, max_rounds=1), request=request, revision=OLDER)
    driver.model(asks(call("c9", "handoff_to_billing", {})))
    assert (driver.thread.requested_agent, driver.thread.handed_on) == ("billing", ())


def test_a_rollback_undoes_what_a_handoff_passed_on() -> None:
    driver = handed_off(thread_of(ASK_LOOK))
    driver.feed(submitted("m1", on_busy=OnBusy.ROLLBACK))
    driver.cancel_in_flight()
    resolve(driver, governed(ASK_LOOK))
    assert (driver.thread.handed_over, newest(driver).questions) == ((), ())


# Runs that the ends of tasks begin


def request_of(*rules: Rule, budget: Budget | None = None, user: str | None = None) -> RunRequest:
    return RunRequest(
        agent_id="assistant", input="Dig.", mode=ThreadMode.THREAD, permissions=rules, budget=budget, user=user
    )


def stopped_with_tasks(
    *rules: Rule,
    budget: Budget | None = None,
    count: int = 1,
    user: str | None = None,
    revision: int = REVISION,
    start: ToolCall | None = None,
) -> Driver:
    """A thread whose run has stopped at its limit of rounds, while its background tools are running."""
    driver = Driver(make_parent(max_rounds=1), request=request_of(*rules, budget=budget, user=user), revision=revision)
    starts = [start] if start else [background_call(f"c{number}") for number in range(count)]
    return with_tasks(*starts, driver=driver)


def test_the_run_that_a_tasks_end_begins_has_the_rules_of_the_run_that_started_the_task() -> None:
    """B-513"""
    driver = stopped_with_tasks(DENY_PAY, ALLOW_PAY, ASK_LOOK)
    driver.feed(tool_settled("bg_0"))
    resolve(driver, make_parent())
    assert (newest(driver).permissions, newest(driver).questions) == ((DENY_PAY, ASK_LOOK), ((ASK_LOOK,),))


def test_so_has_the_run_that_an_event_of_the_task_begins() -> None:
    driver = stopped_with_tasks(DENY_PAY)
    driver.feed(task_event("bg_0"))
    assert driver.thread.current.permissions == (DENY_PAY,)


def test_it_has_what_is_left_of_the_budget_and_the_same_deadline() -> None:
    driver = stopped_with_tasks(budget=Budget(turns=5, seconds=60))
    deadline = driver.thread.current.budget.deadline
    driver.wait(1_000)
    driver.feed(tool_settled("bg_0"))
    resolve(driver, make_parent())
    ledger = driver.thread.current.budget
    assert (ledger.limit.turns, ledger.deadline) == (4, deadline)


def test_another_run_between_does_not_fill_the_budget_up() -> None:
    driver = stopped_with_tasks(budget=Budget(turns=5))
    driver.feed(submitted("m1"))
    resolve(driver, make_parent())
    driver.cancel()
    driver.cancel_in_flight()
    driver.feed(tool_settled("bg_0"))
    assert driver.thread.current.budget.limit == Budget(turns=4)


def test_the_ends_of_tasks_of_several_runs_begin_a_run_that_may_do_what_all_of_them_may() -> None:
    driver = stopped_with_tasks(DENY_PAY, budget=Budget(turns=9), user="ann")
    message = (InputMessage(id="m1", content="Dig."),)
    settings = RunSettings(permissions=(ASK_LOOK,), budget=Budget(turns=3, seconds=60))
    driver.feed(MessagesSubmitted(message, caller=Caller(user="bob"), settings=settings))
    resolve(driver, make_parent(max_rounds=1))
    driver.model(asks(background_call("c7")))
    driver.feed(submitted("m2", user="eve"))
    resolve(driver, make_parent())
    driver.feed(tool_settled("bg_0"), tool_settled("bg_1"))
    later = list(driver.thread.steering)
    assert [each.permissions for each in later] == [(DENY_PAY,), (ASK_LOOK,)]
    driver.cancel()
    driver.cancel_in_flight()
    run = driver.thread.current
    assert (driver.thread.identity.user, run.permissions) == (None, (DENY_PAY, ASK_LOOK))
    assert (run.budget.limit.turns, run.budget.deadline) == (2, later[1].deadline)


def test_the_ends_of_several_tasks_of_one_run_begin_a_run_for_its_user() -> None:
    driver = stopped_with_tasks(DENY_PAY, user="ann", count=2)
    driver.feed(submitted("m1", user="eve"))
    resolve(driver, make_parent())
    driver.feed(tool_settled("bg_0"), tool_settled("bg_1"))
    driver.cancel()
    driver.cancel_in_flight()
    assert (driver.thread.identity.user, driver.thread.current.permissions) == ("ann", (DENY_PAY,))


def test_the_rules_of_many_runs_are_kept_and_their_users_are_not() -> None:
    children = Children()
    for number in range(KEPT_STARTERS + 2):
        task = Task(
            task_id=f"bg_{number}",
            owner_thread_id="t1",
            task_type=TaskType.TOOL,
            parent_context=TaskContext(run_id=f"r{number}"),
        )
        rules = (DENY_PAY,) if number == 1 else ()
        children = children.starting(task, TaskStarter(run_id=f"r{number}", user="ann", permissions=rules))
    assert children.starters[0] == TaskStarter(run_id="r1", permissions=(DENY_PAY,))
    assert len(children.starters) == KEPT_STARTERS + 1


def test_a_run_whose_rules_find_no_room_leaves_a_run_that_may_call_no_tool() -> None:
    driver = stopped_with_tasks(Rule(tool="x" * 140_000, behavior=Behavior.DENY))
    for number in (1, 2):
        message = (InputMessage(id=f"m{number}", content="Dig."),)
        long = Rule(tool=f"{number}" * 140_000, behavior=Behavior.DENY)
        driver.feed(MessagesSubmitted(message, settings=RunSettings(permissions=(long,))))
        resolve(driver, make_parent(max_rounds=1))
        driver.model(asks(background_call(f"d{number}")))
    starters = driver.thread.children.starters
    assert starters[-1].permissions == (NO_TOOLS,)
    assert sum(json_bytes(each.permissions) for each in starters) < STARTER_RULES_BYTES
    full = Carryover(task_starters=tuple(starters[0].model_copy(update={"run_id": f"q{each}"}) for each in range(9)))
    assert [each.permissions for each in full.fitting().task_starters].count((NO_TOOLS,)) == 3


def mail_of(sender: str) -> Fact:
    message = AgentMessage(
        message_id="msg_1",
        sender=Sender(agent_id="researcher", thread_id=sender),
        content="Pay!",
        relation="parent",
        recipient_thread_id="t1",
    )
    return MailReceived(message)


def test_mail_of_a_task_begins_a_run_of_no_authority_in_a_thread_of_an_older_revision() -> None:
    driver = stopped_with_tasks(DENY_PAY, revision=MAIL_OF_TASKS_IS_BOUND - 1, start=spawn_call("c1"))
    driver.feed(mail_of(thread_id_of("bg_0")))
    assert driver.thread.current.permissions == ()


def test_a_message_from_below_an_idle_thread_that_no_running_task_has_sent_begins_no_run() -> None:
    driver = stopped_with_tasks(DENY_PAY, start=spawn_call("c1"))
    driver.feed(mail_of("t1/other"))
    assert [later.passive for later in driver.thread.steering] == [True]
    driver.feed(submitted("m1"))
    resolve(driver, make_parent())
    assert "msg_1" in driver.thread.current.read_mail


def test_what_a_hook_adds_after_the_start_of_a_task_binds_the_run_that_its_end_begins() -> None:
    for rules in ((), (ASK_LOOK,)):
        driver = Driver(make_parent(max_rounds=2), request=request_of(*rules))
        driver.model(asks(background_call("c1")))
        driver.model(asks(call("c2", "nothing", {})), HookEffects(permissions=(DENY_PAY, ALLOW_PAY)))
        assert driver.result.status_reason == "stopped:max_rounds"
        driver.feed(tool_settled("bg_0"))
        assert driver.thread.current.permissions == (*rules, DENY_PAY)


def test_it_binds_that_run_also_if_another_one_comes_between() -> None:
    driver = Driver(make_parent(max_rounds=2), request=request_of())
    driver.model(asks(background_call("c1")))
    driver.model(asks(call("c2", "nothing", {})), HookEffects(permissions=(DENY_PAY,)))
    driver.feed(submitted("m1"))
    resolve(driver, make_parent(max_rounds=1))
    driver.model(asks(call("c3", "nothing", {})))
    driver.feed(tool_settled("bg_0"))
    assert driver.thread.current.permissions == (DENY_PAY,)


def test_it_binds_what_had_ended_before_and_was_not_read_too() -> None:
    driver = Driver(make_parent(), request=request_of())
    driver.model(asks(background_call("c1")))
    driver.feed(tool_settled("bg_0"))
    driver.cancel()
    blocked = driver.thread.with_run(replace(driver.thread.current, permissions=(DENY_PAY,)))
    bound = ledger.after_run(blocked).steering[0]
    assert (bound.starter, bound.permissions) == (driver.thread.identity.run_id, (DENY_PAY,))


def test_unread_mail_of_tasks_keeps_its_authority_as_far_as_there_is_room() -> None:
    starter = MailStarter(run_id="r0", user="ann", permissions=(DENY_PAY,), message_ids=("m1",))
    long = Rule(tool="x" * 500_000, behavior=Behavior.DENY)
    kept = Carryover(mail_starters=(starter, starter.model_copy(update={"permissions": (long, long)})))
    assert kept.fitting().mail_starters == (starter.without_tools, starter)


# Snapshots and archives of earlier releases


def packed_before_authority(driver: Driver) -> dict[str, Any]:
    """A snapshot as the formats before the fifth have it."""
    packed = pack(snapshot_of(driver.thread))
    for name in ("authority", "handed_over"):
        del packed["thread"][name]
    return packed | {"format": 4}


def test_a_sub_agent_that_an_older_release_passed_on_keeps_its_ancestors_rules() -> None:
    request = CHILD.model_copy(update={"permissions": (ASK_PAY, DENY_DIG, ALLOW_LOOK)})
    driver = Driver(governed(), request=request, revision=1)
    thread = unpack(packed_before_authority(driver)).thread
    assert thread.authority == carryover(thread).authority == (ASK_PAY, DENY_DIG)


def test_a_root_that_an_older_release_passed_on_has_none() -> None:
    assert unpack(packed_before_authority(thread_of(DENY_PAY))).thread.authority == ()


# An operator lifts what is inherited


def lifting(*tools: str) -> Fact:
    return RevocationRequested(tools, "r1", inherited=True, actor="ann", reason="she has called")


def test_an_operator_lifts_what_an_ancestor_asks_about_and_the_thread_says_who() -> None:
    driver = Driver(governed(), request=CHILD.model_copy(update={"permissions": (ASK_PAY, DENY_DIG)}))
    driver.feed(lifting("pay", "look"))
    assert driver.events_of("rules_revoked") == [
        RulesRevoked(rules=(ASK_PAY,), inherited=True, actor="ann", reason="she has called")
    ]
    assert driver.refusal_reasons == ["the thread has inherited no rule for 'look'; inherited: 'dig'"]
    assert (driver.thread.rules, driver.thread.questions, driver.thread.passed_on) == ((DENY_DIG,), (), (DENY_DIG,))
    assert after_continue_as_new(driver.thread).authority == (DENY_DIG,)


def test_an_operator_lifts_what_an_agent_has_handed_over_also_after_a_rollback() -> None:
    driver = handed_off(thread_of(ASK_LOOK, revision=REVISION))
    driver.model(says("Paid."))
    driver.feed(submitted("m1"))
    resolve(driver, BILLING)
    driver.feed(lifting("look"))
    assert driver.thread.questions == ()
    driver.feed(submitted("m2", on_busy=OnBusy.ROLLBACK))
    driver.cancel_in_flight()
    resolve(driver, BILLING)
    assert newest(driver).questions == ()


def test_a_run_that_an_earlier_release_started_can_lose_inherited_rules_too() -> None:
    thread = Driver(governed(), request=CHILD).thread
    started_before = thread.with_run(replace(thread.current, before=None))
    assert advance(started_before, lifting("pay"), now=9).thread.authority == ()


def test_a_thread_that_has_inherited_nothing_says_so() -> None:
    woken = Driver(None, request=RunRequest(agent_id="assistant", mode=ThreadMode.THREAD))
    woken.feed(lifting("look"))
    assert woken.refusal_reasons == ["the thread has inherited no rule for 'look'; inherited: none"]


# Mail


MAIL = AgentMessage(
    message_id="msg_1",
    sender=Sender(agent_id="boss", thread_id="t0"),
    content="Pay!",
    relation="agent",
    recipient_thread_id="t1",
)


def returned(driver: Driver) -> bool:
    driver.feed(MailReceived(MAIL))
    return any(command.signal == "mail_returned" for command in driver.commands_of(SendSignal))


def test_a_sub_agent_that_has_reported_its_end_returns_mail() -> None:
    """H-07"""
    assert not returned(Driver(governed(), request=CHILD))
    ended = Driver(governed(), request=CHILD)
    ended.model(says("Paid."))
    assert returned(ended)
    ending = Driver(governed(), request=CHILD)
    ending.cancel()
    assert returned(ending)


def test_so_does_one_that_a_person_has_woken() -> None:
    ended = Driver(governed(), request=CHILD)
    ended.model(says("Paid."))
    request = RunRequest(agent_id="assistant", input="Hello again.", mode=ThreadMode.THREAD)
    assert returned(Driver(governed(), request=request, carryover=carryover(ended.thread)))


def test_mail_for_a_sub_agent_of_an_older_revision_is_taken_and_so_is_mail_for_one_that_mail_woke() -> None:
    woken = RunRequest(agent_id="assistant", mode=ThreadMode.THREAD)
    identity = RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant", path=("t0",))
    kept = Carryover(identity=identity)
    request = woken.model_copy(update={"input": "Hello again."})
    assert not returned(Driver(governed(), request=request, carryover=kept, revision=ENDED_TAKE_NO_MAIL - 1))
    assert not returned(Driver(None, request=woken, carryover=kept))
    assert not returned(Driver(None, request=request, carryover=kept))
