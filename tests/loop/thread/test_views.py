"""What queries return: the status of a run, and its transcript so far."""

import pytest

from tests.loop.driving import (
    AGENT,
    LIVE_STAGES,
    PARALLEL,
    Driver,
    asks,
    awaiting_decisions,
    call,
    calling_tools,
    done,
    idle,
    inferring,
    ok,
    pending,
    resume,
    two_suspended,
    with_digest,
)
from wakeful.contract.base import json_bytes
from wakeful.contract.budgets import Spent
from wakeful.contract.decisions import Refusal
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock
from wakeful.contract.remote import Endpoint
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, RunStatus, ToolCallStatus, Usage
from wakeful.contract.tools import FrontendTool
from wakeful.contract.views import PendingView, StatusView, ToolCallView, WaitingFor
from wakeful.loop.machine.facts import SignalMalformed
from wakeful.loop.machine.stages import BetweenSteps, Inferring
from wakeful.loop.thread.views import (
    LISTED_BYTES,
    LISTED_LENGTH,
    doing,
    pending_view,
    status_view,
    visible_messages,
)


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("resolving", "looking up agent assistant"),
        ("inferring", "calling model-1"),
        ("calling tools", "running look"),
        ("awaiting decisions", "waiting for a decision on look"),
        ("cancelling", "cancelling what is in flight: enough"),
    ],
)
def test_a_status_says_what_the_run_is_doing(stage: str, text: str) -> None:
    assert doing(LIVE_STAGES[stage]().thread) == text


def test_a_status_says_which_service_runs_the_agent() -> None:
    remote = AGENT.model_copy(update={"endpoint": Endpoint(url="https://agents.example.com", target="weather")})
    assert doing(Driver(remote).thread) == "calling remote agent assistant at https://agents.example.com#weather"


def test_a_finished_run_says_how_it_ended() -> None:
    assert doing(done().thread) == "ended: natural"


def test_the_status_of_a_thread_between_two_runs_says_that_it_is_idle() -> None:
    assert doing(idle().thread) == "idle, waiting for a message"


def test_the_status_of_an_idle_thread_holds_the_result_of_its_last_run() -> None:
    driver = idle()
    view = status_view(driver.thread)
    assert (view.status, view.result, view.runs) == (RunStatus.DONE, driver.result, 1)


def test_the_status_of_a_run_between_two_steps_says_so() -> None:
    assert doing(inferring().thread.entering(BetweenSteps())) == "between two steps"


def test_a_status_says_which_calls_a_gate_suspended() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending(), gated=True)
    driver.tool("c2", pending())
    assert [(view.call_id, view.gated) for view in status_view(driver.thread).calls] == [("c1", True), ("c2", False)]


def test_a_status_names_every_running_or_suspended_call() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2", "pay")))
    assert doing(driver.thread) == "running look, pay"
    driver.tool("c1", pending())
    driver.tool("c2", pending())
    assert doing(driver.thread) == "waiting for a decision on look, pay"


def test_the_status_of_a_new_run() -> None:
    driver = Driver(agent=None)
    assert status_view(driver.thread) == StatusView(
        identity=driver.thread.identity,
        status=RunStatus.CREATED,
        doing="looking up agent assistant",
        steps=0,
        usage=Usage(),
    )


def test_the_status_of_a_waiting_run_names_what_it_waits_for() -> None:
    """B-348, I-02; awaken: waiting_state_persists_suspended_tool_tickets"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2", "pay"), usage=Usage(total_tokens=5)))
    driver.tool("c2", ok("paid"))
    result = pending("s1")
    driver.tool("c1", result)
    since = driver.now
    driver.submit("m1")
    driver.submit("m2", on_busy=OnBusy.STEER)
    driver.feed(SignalMalformed("decide", "not a decision"))
    assert status_view(driver.thread) == StatusView(
        identity=driver.thread.identity,
        status=RunStatus.WAITING,
        doing="waiting for a decision on look",
        waiting_for=WaitingFor.DECISIONS,
        steps=1,
        usage=Usage(total_tokens=5),
        calls=(
            ToolCallView(
                call_id="c1",
                tool_name="look",
                status=ToolCallStatus.SUSPENDED,
                ticket=with_digest(result.suspension),
                since=since,
            ),
            ToolCallView(call_id="c2", tool_name="pay", status=ToolCallStatus.SUCCEEDED),
        ),
        queued=2,
        refusals=(Refusal(signal="decide", reason="not a decision", at=driver.now),),
        spent=Spent(tokens=5, turns=1, tool_calls=2),
    )


def test_lists_show_whole_what_is_short() -> None:
    driver = two_suspended()
    assert pending_view(driver.thread) == PendingView(
        identity=driver.thread.identity, calls=status_view(driver.thread).calls
    )
    assert pending_view(inferring().thread) is None
    assert pending_view(calling_tools().thread) is None


def test_lists_show_the_beginning_of_a_long_question_with_the_digest_of_the_whole() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1", message="May I? " * 1000))
    (whole,) = status_view(driver.thread).pending
    shown = pending_view(driver.thread)
    assert shown is not None
    assert shown.cut == ("c1",)
    ticket = shown.calls[0].ticket
    assert ticket is not None
    assert ticket.suspension.message == ("May I? " * 1000)[: LISTED_LENGTH - 1] + "…"
    assert ticket.pending.arguments == {"cut": "null"}
    assert ticket.arguments_digest == whole.arguments_digest


def test_lists_show_only_as_many_calls_as_fit() -> None:
    driver = Driver(PARALLEL)
    calls = [f"c{number}" for number in range(60)]
    driver.model(asks(*map(call, calls)))
    for id in calls:
        driver.tool(id, pending(f"s-{id}", message="May I? " * 100))
    shown = pending_view(driver.thread)
    assert shown is not None
    assert LISTED_BYTES / 2 < json_bytes(shown.calls) <= LISTED_BYTES
    assert 0 < len(shown.calls) < len(calls)
    assert len(status_view(driver.thread).pending) == len(calls)


def test_the_status_of_a_finished_run_holds_its_result() -> None:
    driver = done()
    view = status_view(driver.thread)
    assert (view.status, view.result, view.calls) == (RunStatus.DONE, driver.result, ())


def test_a_cancelled_run_waits_for_nothing() -> None:
    """H-06"""
    driver = awaiting_decisions()
    driver.cancel()
    assert status_view(driver.thread).pending == ()


def test_the_transcript_of_a_run_without_pending_calls_is_its_messages() -> None:
    driver = done()
    assert visible_messages(driver.thread) == driver.thread.transcript.messages
    assert [message.text for message in visible_messages(driver.thread)] == ["Hello", "Hello!"]


def test_the_transcript_shows_the_finished_calls_of_the_current_step() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3"), text="Let me look."))
    driver.tool("c3", ok("hidden until what stands before it is there"))
    driver.tool("c1", ok("sunny"))
    metadata = MessageMetadata(run_id="r1", step_index=1)
    assert visible_messages(driver.thread) == (
        *driver.thread.transcript.messages,
        Message(
            id="r1:2",
            role=Role.ASSISTANT,
            content=(TextBlock(text="Let me look."),),
            tool_calls=(call("c1"), call("c2"), call("c3")),
            metadata=metadata,
        ),
        Message(id="r1:3", role=Role.TOOL, content=(TextBlock(text="sunny"),), tool_call_id="c1", metadata=metadata),
    )


def test_a_finished_call_has_no_ticket_and_the_next_step_has_no_calls_yet() -> None:
    """B-034, B-303"""
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    driver.tool("c1", ok("sunny"))
    assert isinstance(driver.thread.stage, Inferring)
    assert (status_view(driver.thread).calls, status_view(driver.thread).pending) == ((), ())
    both = Driver(PARALLEL)
    both.model(asks(call("c1"), call("c2")))
    both.tool("c1", pending("s1"))
    both.decide(resume("c1"))
    both.tool("c1", ok("sunny"))
    assert status_view(both.thread).calls == (
        ToolCallView(call_id="c1", tool_name="look", status=ToolCallStatus.SUCCEEDED),
        ToolCallView(call_id="c2", tool_name="look", status=ToolCallStatus.RUNNING),
    )


def test_the_status_has_the_rules_of_the_agent_that_match_no_tool_of_the_run() -> None:
    agent = AGENT.model_copy(update={"idle_rules": ("mcp__desk__ehco", "p?ck")})
    request = RunRequest(agent_id="assistant", input="Hello", frontend_tools=(FrontendTool(id="pick"),))
    driver = Driver(agent, request=request)
    assert status_view(driver.thread).idle_rules == ("mcp__desk__ehco",)
