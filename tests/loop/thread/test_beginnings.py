"""Where a run begins, and what it takes from there: the table of docs/semantics.md, row by row."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import pytest

from tests.loop.children import (
    BILLING,
    background_call,
    delegate_call,
    mail_received,
    make_parent,
    spawn_call,
    task_event,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import Driver, asks, call, says, thread_id_of
from wakeful.contract.budgets import Budget
from wakeful.contract.mail import AgentMessage, Sender
from wakeful.contract.messages import InputMessage, ToolCall
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import Fork, RunRequest
from wakeful.contract.runs import Adapter, OnBusy, Priority, RunMode, ThreadMode
from wakeful.contract.settings import Caller, RunSettings
from wakeful.contract.tools import FrontendTool
from wakeful.loop.machine.commands import StartChild
from wakeful.loop.machine.facts import AgentResolved, MailReceived, MessagesSubmitted
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.thread.views import carryover

DENY_PAY, ASK_LOOK = Rule(tool="pay", behavior=Behavior.DENY), Rule(tool="look", behavior=Behavior.ASK)
ASK_DIG, ALLOW_LOOK = Rule(tool="dig", behavior=Behavior.ASK), Rule(tool="look", behavior=Behavior.ALLOW)
PICK = FrontendTool(id="pick")
OVERRIDES = InferenceOverrides(max_tokens=9)
SETTINGS = RunSettings(
    overrides=OVERRIDES,
    permissions=(DENY_PAY, ALLOW_LOOK),
    budget=Budget(turns=7, seconds=60),
    frontend_tools=(PICK,),
    live=True,
)
ANN = Caller(tenant="acme", user="ann", metadata={"order": 7}, adapter=Adapter.A2A)
OF_ANN = dict(SETTINGS) | dict(ANN) | {"priority": Priority(priority_key=1)}
POLICY = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(ASK_DIG,))
HELLO = (InputMessage(id="m1", content="Hello again."),)


@dataclass(frozen=True)
class Begun:
    """What a run has that it did not choose itself."""

    rules: tuple[Rule, ...] = (DENY_PAY, ALLOW_LOOK)
    ancestors: tuple[Rule, ...] = ()
    turns: int | None = 7
    has_deadline: bool = True
    overrides: InferenceOverrides | None = OVERRIDES
    is_live: bool = True
    user: str | None = "ann"
    metadata: tuple[tuple[str, object], ...] = (("order", 7),)
    adapter: Adapter = Adapter.A2A
    run_mode: RunMode = RunMode.FOREGROUND
    tenant: str | None = "acme"
    priority: int | None = 1
    frontend_tools: tuple[str, ...] = ("pick",)


def begun(driver: Driver) -> Begun:
    if driver.thread.run is not None and driver.thread.run.resolved is None:
        driver.feed(AgentResolved(driver.commands[-1].id, make_parent(), driver.revision))
    thread, run = driver.thread, driver.thread.current
    return Begun(
        rules=thread.own_rules,
        ancestors=run.authority,
        turns=run.budget.limit.turns,
        has_deadline=run.budget.deadline is not None,
        overrides=run.settings.overrides,
        is_live=run.settings.live,
        user=thread.identity.user,
        metadata=tuple(run.metadata.items()),
        adapter=thread.identity.adapter,
        run_mode=thread.identity.run_mode,
        tenant=thread.identity.tenant,
        priority=thread.own_priority.priority_key if thread.own_priority else None,
        frontend_tools=tuple(tool.id for tool in thread.frontend_tools),
    )


def request(**changed: object) -> RunRequest:
    written = {"agent_id": "assistant", "input": "Hello", "mode": ThreadMode.THREAD, **OF_ANN, **changed}
    return RunRequest.model_validate(written)


def plain() -> Driver:
    """An idle thread of the same tenant, whose run has no settings."""
    driver = Driver(
        make_parent(permissions=POLICY),
        request=request(**dict.fromkeys(("overrides", "budget", "user", "adapter"))).model_copy(
            update={"permissions": (), "frontend_tools": (), "live": False, "metadata": {}}
        ),
    )
    driver.model(says("Hello!"))
    return driver


def by_message(on_busy: OnBusy = OnBusy.ENQUEUE) -> Driver:
    driver = plain()
    driver.feed(MessagesSubmitted(HELLO, on_busy, caller=ANN, settings=SETTINGS))
    return driver


def interrupting() -> Driver:
    driver = plain()
    driver.submit("m0")
    driver.feed(MessagesSubmitted(HELLO, OnBusy.INTERRUPT, caller=ANN, settings=SETTINGS))
    driver.cancel_in_flight()
    return driver


def queued() -> Driver:
    driver = plain()
    driver.submit("m0")
    driver.feed(MessagesSubmitted(HELLO, caller=ANN, settings=SETTINGS))
    driver.cancel()
    driver.cancel_in_flight()
    return driver


def waking() -> Driver:
    driver = plain()
    driver.cancel(close=True)
    driver.feed(MessagesSubmitted(HELLO, caller=ANN, settings=SETTINGS))
    woken = RunRequest(agent_id="assistant", mode=ThreadMode.THREAD, tenant="acme")
    return Driver(None, request=woken, carryover=carryover(driver.thread))


def child(start: object) -> Driver:
    driver = Driver(make_parent(permissions=POLICY), request=request())
    driver.model(asks(start))  # type: ignore[arg-type]  # a call
    return Driver(None, request=driver.commands_of(StartChild)[-1].request)


def handed_off() -> Driver:
    driver = Driver(make_parent(permissions=POLICY), request=request())
    driver.model(asks(call("c9", "handoff_to_billing", {})))
    driver.feed(AgentResolved(driver.commands[-1].id, BILLING, driver.revision))
    return driver


def with_task(start: ToolCall | None = None) -> Driver:
    """An idle thread whose run, which has taken one turn, has left a task running."""
    driver = Driver(make_parent(max_rounds=1, permissions=POLICY), request=request())
    return with_tasks(start or background_call("c1"), driver=driver)


def task_ended() -> Driver:
    driver = with_task()
    driver.feed(tool_settled("bg_0"))
    return driver


def task_reported() -> Driver:
    driver = with_task()
    driver.feed(task_event("bg_0"))
    return driver


def by_mail_of_task(*below: str) -> Driver:
    driver = with_task(spawn_call("c1"))
    driver.feed(MailReceived(mail_of("/".join((thread_id_of("bg_0"), *below)))))
    return driver


def mail_of(thread_id: str) -> AgentMessage:
    sender = Sender(agent_id="researcher", thread_id=thread_id, tenant="acme")
    return AgentMessage(message_id="msg_1", sender=sender, content="Pay!", relation="parent", recipient_thread_id="t1")


def waking_mail_of_task() -> Driver:
    """The thread was closed before its task's agent wrote to it."""
    driver = with_task(spawn_call("c1"))
    kept = carryover(driver.thread).model_copy(update={"revision": REVISION})
    woken = Driver(None, request=RunRequest(agent_id="assistant", mode=ThreadMode.THREAD), carryover=kept)
    woken.feed(MailReceived(mail_of(thread_id_of("bg_0"))))
    return woken


def unread_over_a_wake() -> Driver:
    """The end of a task that no run has read when the thread is closed, and is woken for later mail."""
    driver = with_task()
    driver.submit("m0")
    driver.feed(tool_settled("bg_0"))
    driver.cancel(close=True)
    kept = carryover(driver.thread).model_copy(update={"late_mail": True})
    return Driver(None, request=RunRequest(agent_id="assistant", mode=ThreadMode.THREAD), carryover=kept)


def by_mail() -> Driver:
    driver = Driver(make_parent(), request=request(tenant=None))
    driver.model(says("Hello!"))
    driver.feed(mail_received())
    return driver


def forked(**of_fork: object) -> Driver:
    driver = Driver(make_parent(permissions=POLICY), request=request())
    driver.model(says("Hello!"))
    fork = Fork(thread_id="t1", run_id="r1", step=1, messages=2)
    written = RunRequest.model_validate({"agent_id": "assistant", "input": "Go on.", "fork": fork, **of_fork})
    return Driver(None, request=written, carryover=driver.thread.fork_point.carryover)


ALL = Begun()
OF_TASK = Begun(
    rules=(DENY_PAY,),
    turns=6,
    overrides=None,
    is_live=False,
    adapter=Adapter.INTERNAL,
    run_mode=RunMode.INTERNAL_WAKE,
)
OF_CHILD = Begun(rules=(), ancestors=(ASK_DIG, DENY_PAY), turns=None, overrides=None, frontend_tools=())
OF_FORK = Begun(turns=None, has_deadline=False, overrides=None, is_live=False, adapter=Adapter.INTERNAL, priority=None)

ROWS: dict[str, tuple[Callable[[], Driver], Begun]] = {
    "a request": (lambda: Driver(make_parent(), request=request()), ALL),
    "a request of a schedule": (
        lambda: Driver(make_parent(), request=request(run_mode="scheduled")),
        Begun(run_mode=RunMode.SCHEDULED),
    ),
    "a message": (by_message, ALL),
    "a message that steers, after the end": (lambda: by_message(OnBusy.STEER), ALL),
    "a message that interrupts": (interrupting, ALL),
    "a message that waited": (queued, ALL),
    "a message that wakes the thread": (waking, ALL),
    "a delegate": (lambda: child(delegate_call("c1")), OF_CHILD),
    "a background agent": (lambda: child(spawn_call("c1")), OF_CHILD),
    "a handoff": (handed_off, Begun(ancestors=(ASK_DIG,))),
    "the end of a task": (task_ended, OF_TASK),
    "an event of a task": (task_reported, OF_TASK),
    "mail of a task's agent, which holds a half of what is left": (by_mail_of_task, replace(OF_TASK, turns=3)),
    "mail of a task's agent that wakes the thread": (waking_mail_of_task, replace(OF_TASK, turns=3)),
    "mail of an agent below a task": (lambda: by_mail_of_task("writer-1"), replace(OF_TASK, turns=3)),
    "the end of a task that was unread when the thread was closed": (unread_over_a_wake, OF_TASK),
    "mail": (
        by_mail,
        Begun(
            rules=(),
            turns=None,
            has_deadline=False,
            overrides=None,
            is_live=False,
            user=None,
            metadata=(),
            adapter=Adapter.INTERNAL,
            run_mode=RunMode.INTERNAL_WAKE,
            tenant=None,
        ),
    ),
    "a fork": (forked, OF_FORK),
    "a fork for another user": (
        lambda: forked(user="bob", budget={"turns": 2}),
        Begun(
            user="bob",
            metadata=(),
            turns=2,
            has_deadline=False,
            overrides=None,
            is_live=False,
            adapter=Adapter.INTERNAL,
            priority=None,
        ),
    ),
}


COLUMNS = {
    "overrides": "overrides",
    "permissions": "rules",
    "budget": "turns",
    "frontend_tools": "frontend_tools",
    "live": "is_live",
    "tenant": "tenant",
    "user": "user",
    "metadata": "metadata",
    "adapter": "adapter",
}
"""Where the table has what each field of the two values sets."""


def test_the_table_has_a_column_for_all_that_a_caller_can_set() -> None:
    assert COLUMNS.keys() == RunSettings.model_fields.keys() | Caller.model_fields.keys()
    assert set(COLUMNS.values()) <= {field.name for field in fields(Begun)}


@pytest.mark.parametrize("row", ROWS)
def test_a_run_takes_what_belongs_to_it_from_what_begins_it(row: str) -> None:
    """B-513, B-661"""
    begin, expected = ROWS[row]
    assert begun(begin()) == expected


def test_a_sub_agent_has_an_allowance_of_its_parents_budget_and_its_deadline() -> None:
    driver = Driver(make_parent(), request=request())
    driver.model(asks(delegate_call("c1")))
    context = driver.commands_of(StartChild)[-1].request.subagent
    assert context is not None
    assert context.allowance == Budget(turns=3)
    assert context.deadline == driver.thread.current.budget.deadline


def ending_task_and_stopping(driver: Driver, task_id: str) -> int | None:
    """The turns of the run that this task's end begins; it takes one, and stops at its limit of rounds."""
    driver.feed(tool_settled(task_id))
    driver.feed(AgentResolved(driver.commands[-1].id, make_parent(max_rounds=1), driver.revision))
    turns = driver.thread.current.budget.limit.turns
    driver.model(asks(call("c9", "nothing", {})))
    return turns


def test_the_runs_that_ends_of_tasks_begin_share_what_the_run_left_that_started_them() -> None:
    """Before, each had all of it: a run with ten tasks could spend its budget ten times over."""
    driver = Driver(make_parent(max_rounds=1), request=request())
    with_tasks(*(background_call(f"c{number}") for number in range(3)), driver=driver)
    assert [ending_task_and_stopping(driver, f"bg_{number}") for number in range(3)] == [6, 5, 4]


def test_a_task_of_a_run_that_a_task_began_spends_the_same_budget() -> None:
    driver = Driver(make_parent(max_rounds=1), request=request())
    with_tasks(background_call("c1"), background_call("c2"), driver=driver)
    driver.feed(tool_settled("bg_0"))
    driver.feed(AgentResolved(driver.commands[-1].id, make_parent(max_rounds=1), driver.revision))
    driver.model(asks(background_call("c3")))
    assert ending_task_and_stopping(driver, "bg_2") == 5
    assert ending_task_and_stopping(driver, "bg_1") == 4


def test_a_closed_thread_knows_what_its_last_run_has_spent() -> None:
    (starter,) = carryover(with_task().thread).task_starters
    assert starter.budget is not None
    assert starter.budget.turns == 6
