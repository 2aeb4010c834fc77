"""Why a run is under way, and by which protocol its message came, as gates and hooks see them."""

from tests.loop.children import delegate_call, mail_received, make_parent
from tests.loop.driving import NO_INPUT, THREAD, Driver, after_continue_as_new, asks, input_message, says
from wakeful.contract.hooks import Hold, HookEffects
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Adapter, Origin, RunIdentity, RunMode
from wakeful.contract.settings import Caller
from wakeful.contract.subagents import SubagentContext
from wakeful.loop.machine.commands import StartChild
from wakeful.loop.machine.facts import MessagesSubmitted
from wakeful.loop.machine.stages import AwaitingTasks
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.views import carryover

BY_A2A = Caller(adapter=Adapter.A2A)
SCHEDULED = MessagesSubmitted((input_message("s1"),), run_mode=RunMode.SCHEDULED, caller=BY_A2A)


def mode_of(driver: Driver) -> tuple[RunMode, Adapter, Origin]:
    identity = driver.thread.identity
    return identity.run_mode, identity.adapter, identity.origin


def test_a_run_has_the_mode_and_the_adapter_of_the_message_that_begins_it_b592() -> None:
    """B-600"""
    driver = Driver(request=THREAD.model_copy(update={"run_mode": RunMode.SCHEDULED, "adapter": Adapter.AG_UI}))
    assert mode_of(driver) == (RunMode.SCHEDULED, Adapter.AG_UI, Origin.USER)
    driver.model(says("Hello!"))
    driver.submit("m1")
    driver.resolve()
    assert mode_of(driver) == (RunMode.FOREGROUND, Adapter.INTERNAL, Origin.USER)
    driver.model(says("Hello!"))
    driver.feed(mail_received("msg_1"))
    assert mode_of(driver) == (RunMode.INTERNAL_WAKE, Adapter.INTERNAL, Origin.INTERNAL)


def test_a_run_names_its_thread_its_parent_its_session_and_where_it_came_from() -> None:
    """B-600"""
    request = RunRequest(
        agent_id="assistant",
        input="Hello",
        parent_thread_id="t0",
        parent_run_id="r0",
        parent_tool_call_id="c0",
        session_id="s9",
        transport_request_id="http-7",
        origin=Origin.SUBAGENT,
        run_mode=RunMode.SCHEDULED,
        adapter=Adapter.A2A,
        subagent=SubagentContext(path=("t0",), work_id="delegate-c0"),
    )
    assert begin(request, thread_id="t1", run_id="r1").thread.identity == RunIdentity(
        thread_id="t1",
        parent_thread_id="t0",
        run_id="r1",
        parent_run_id="r0",
        agent_id="assistant",
        parent_tool_call_id="c0",
        session_id="s9",
        transport_request_id="http-7",
        origin=Origin.SUBAGENT,
        path=("t0",),
        run_mode=RunMode.SCHEDULED,
        adapter=Adapter.A2A,
    )


def test_a_scheduled_message_waits_for_a_run_of_its_own() -> None:
    driver = Driver(request=THREAD)
    driver.feed(SCHEDULED)
    driver.model(says("Hello!"))
    driver.resolve()
    assert mode_of(driver) == (RunMode.SCHEDULED, Adapter.A2A, Origin.USER)
    assert driver.thread.counters.runs == 2


def test_a_run_that_is_held_open_does_not_read_a_scheduled_message() -> None:
    driver = Driver(request=THREAD)
    driver.model(says("Hello!"), HookEffects(hold=(Hold(key="build"),)))
    driver.feed(SCHEDULED)
    assert (driver.thread.stage, driver.queued) == (AwaitingTasks(), ["s1"])


def test_an_unread_message_keeps_its_mode_and_its_adapter() -> None:
    driver = Driver(request=THREAD)
    driver.feed(SCHEDULED)
    (queued,) = after_continue_as_new(driver.thread).queued
    assert (queued.run_mode, queued.adapter) == (RunMode.SCHEDULED, Adapter.A2A)
    driver.cancel(close=True)
    driver.cancel_in_flight()
    woken = Driver(request=NO_INPUT, carryover=carryover(driver.thread))
    assert mode_of(woken) == (RunMode.SCHEDULED, Adapter.A2A, Origin.USER)


def test_sub_agents_have_the_mode_of_their_parent() -> None:
    for mode in (None, RunMode.SCHEDULED):
        driver = Driver(make_parent(), request=THREAD.model_copy(update={"run_mode": mode}))
        driver.model(asks(delegate_call("c1")))
        (child,) = driver.commands_of(StartChild)
        assert (child.request.run_mode, child.request.adapter) == (mode, None)
