"""Calls that are dropped because they are malformed or were interrupted; the model reads a note about each."""

import pytest

from tests.loop.driving import (
    PARALLEL,
    Driver,
    after_continue_as_new,
    asks,
    call,
    make_agent,
    ok,
    pending,
    resume,
    says,
)
from wakeful.contract.events import StreamReset, TextDelta, ToolCallCancel
from wakeful.contract.inference import Interruption, ModelResponse, RecoveryPlan
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, ToolCall, Visibility
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.runs import Errored, NaturalEnd, StopDetail, Stopped
from wakeful.contract.tools import ToolOutcome
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import LoopFailed, ToolReturned, WorkCancelled

MALFORMED = (
    "These tool calls were not executed because their arguments are not valid JSON: pay. "
    "If you still need them, call the tools again with complete, valid JSON arguments."
)
INTERRUPTED = (
    "Your last response was interrupted while you were writing a call of pay. That call was not executed. "
    "If you still need it, call the tool again."
)
DROPPED = Interruption(cause="connection reset", plan=RecoveryPlan.SYNTHESIZE_TOOL_USE, call_id="c9", call_name="pay")


def garbled(*calls: ToolCall, text: str = "", names: tuple[str, ...] = ("pay",)) -> ModelResponse:
    return asks(*calls, text=text).model_copy(update={"incomplete_calls": names})


def interrupted(*calls: ToolCall, text: str = "", by: tuple[Interruption, ...] = (DROPPED,)) -> ModelResponse:
    return asks(*calls, text=text).model_copy(update={"interruptions": by})


def roles(driver: Driver) -> list[Role]:
    return [message.role for message in driver.thread.transcript.messages[1:]]


def test_complete_calls_run_and_then_the_model_reads_which_calls_did_not() -> None:
    """B-143, B-144, I-03"""
    driver = Driver()
    driver.model(garbled(call("c1"), call("c2"), text="All three."))
    driver.tool("c1", ok("sunny"))
    driver.tool("c2", ok("rainy"))
    assert roles(driver) == [Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER]
    assert [made.id for made in driver.thread.transcript.messages[1].tool_calls] == ["c1", "c2"]
    assert driver.thread.transcript.messages[-1] == Message(
        id="r1:5",
        role=Role.USER,
        content=(TextBlock(text=MALFORMED),),
        visibility=Visibility.INTERNAL,
        metadata=MessageMetadata(run_id="r1", step_index=1),
    )
    assert driver.inference().appended == ("infer-1", "tool-c1", "tool-c2", driver.thread.transcript.messages[-1])


def test_a_tool_with_two_malformed_calls_is_named_once() -> None:
    driver = Driver()
    driver.model(garbled(text="?", names=("pay", "look", "pay")))
    assert "not valid JSON: pay, look. If" in driver.notes[0]


@pytest.mark.parametrize(("text", "said"), [("Let me.", ["Hello", "Let me.", MALFORMED]), ("", ["Hello", MALFORMED])])
def test_the_model_is_called_again_if_every_call_was_malformed(text: str, said: list[str]) -> None:
    """B-143, B-144: an answer without text leaves no empty message."""
    driver = Driver()
    driver.model(garbled(text=text))
    assert (driver.texts, driver.inference().id, driver.inference().continuing) == (said, "infer-2", False)
    driver.model(says("Never mind."))
    assert (driver.result.termination, driver.result.response) == (NaturalEnd(), "Never mind.")


def test_a_model_with_only_malformed_calls_stops_at_max_rounds() -> None:
    driver = Driver(make_agent(max_rounds=2))
    driver.model(garbled(text="Let me."))
    driver.model(garbled())
    detail = StopDetail(code="max_rounds", detail="2 rounds of tool calls were made")
    assert (driver.result.termination, driver.result.response) == (Stopped(value=detail), "Let me.")
    assert driver.event_types.count("step_start") == driver.event_types.count("step_end")


def test_the_model_can_repeat_a_call_that_was_interrupted() -> None:
    """B-134"""
    driver = Driver()
    driver.model(interrupted(call("c1"), text="Both."))
    driver.tool("c1", ok("sunny"))
    assert driver.texts == ["Hello", "Both.", "sunny", INTERRUPTED]


def test_the_notes_list_malformed_and_interrupted_calls() -> None:
    driver = Driver()
    driver.model(interrupted(call("c1")).model_copy(update={"incomplete_calls": ("pay",)}))
    driver.tool("c1", ok("sunny"))
    assert driver.notes == [INTERRUPTED, MALFORMED]


@pytest.mark.parametrize("plan", [RecoveryPlan.CONTINUE_TEXT, RecoveryPlan.TRUNCATE_BEFORE_TOOL, RecoveryPlan.RESTART])
def test_a_call_that_was_requested_again_needs_no_note(plan: RecoveryPlan) -> None:
    driver = Driver()
    driver.model(interrupted(call("c1"), by=(DROPPED.model_copy(update={"plan": plan}),)))
    driver.tool("c1", ok("sunny"))
    assert driver.notes == []


def test_an_answer_that_was_interrupted_between_two_calls_needs_no_note() -> None:
    driver = Driver()
    driver.model(interrupted(call("c1"), by=(Interruption(cause="goaway", plan=RecoveryPlan.SYNTHESIZE_TOOL_USE),)))
    driver.tool("c1", ok("sunny"))
    assert driver.notes == []


def test_the_note_follows_every_result_and_survives_continue_as_new() -> None:
    """B-134, I-03"""
    driver = Driver(PARALLEL)
    driver.model(interrupted(call("c1"), call("c2")))
    driver.tool("c2", pending("s2"))
    driver.tool("c1", ok("sunny"))
    assert driver.notes == []
    continued = after_continue_as_new(driver.thread)
    assert continued == driver.thread
    driver.decide(resume("c2"))
    after = ToolReturned(driver.work_id_of("c2"), ToolOutcome(result=ok("rainy")))
    assert (
        advance(after_continue_as_new(driver.thread), after, now=driver.now + 10).thread.transcript.messages[-1].text
        == INTERRUPTED
    )
    driver.feed(after)
    assert (roles(driver), driver.notes) == ([Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER], [INTERRUPTED])


def test_a_cancelled_run_adds_no_note() -> None:
    """B-134"""
    driver = Driver()
    driver.model(interrupted(call("c1"), call("c2")).model_copy(update={"incomplete_calls": ("pay",)}))
    driver.cancel()
    driver.feed(WorkCancelled(driver.work_id_of("c1")))
    assert driver.tool_results == [("c1", TOOL_INTERRUPTED), ("c2", TOOL_INTERRUPTED)]
    assert (roles(driver), driver.notes) == ([Role.ASSISTANT, Role.TOOL, Role.TOOL], [])


def test_a_run_whose_loop_fails_adds_no_note() -> None:
    driver = Driver()
    driver.model(interrupted(call("c1")))
    driver.feed(LoopFailed("boom"))
    assert (driver.result.termination, driver.notes) == (Errored(value="boom", code="internal_error"), [])


def test_watchers_see_dropped_calls_and_resets_before_the_rest_of_the_answer() -> None:
    """B-134 to B-136"""
    driver = Driver()
    cut = Interruption(cause="idle stall", plan=RecoveryPlan.TRUNCATE_BEFORE_TOOL, call_id="c8", call_name="look")
    again = Interruption(cause="goaway", plan=RecoveryPlan.RESTART)
    without_name = Interruption(cause="goaway", plan=RecoveryPlan.RESTART, call_id="c7")
    driver.model(interrupted(text="Hello!", by=(cut, again, without_name)))
    assert driver.last.events[:5] == (
        ToolCallCancel(id="c8", name="look", reason="idle stall"),
        StreamReset(reason="goaway"),
        ToolCallCancel(id="c7", name="", reason="goaway"),
        StreamReset(reason="goaway"),
        TextDelta(delta="Hello!"),
    )


def test_an_answer_continued_after_an_interruption_is_one_answer() -> None:
    """B-133, H-13"""
    driver = Driver()
    driver.model(interrupted(text="Hello!", by=(Interruption(cause="goaway", plan=RecoveryPlan.CONTINUE_TEXT),)))
    assert (driver.event_types[3:5], driver.texts[-1]) == (["text_delta", "inference_complete"], "Hello!")
