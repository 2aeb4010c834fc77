"""An answer in parts: what is made of a whole one, and what of one that broke off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.contract.inference import RESUMED, Interruption, ModelRequest, RecoveryPlan, StopReason
from wakeful.contract.messages import Role, ThinkingBlock, ToolCall, Visibility
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    PartialCall,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamCheckpoint,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful_activities.inference.recovery import CONTINUE, continuing, interruption_of, noticed
from wakeful_activities.inference.stream_assembly import Gathering, so_far, synthesized

HALF = PartialCall(id="c2", name="search", arguments='{"q": "tem')
WHOLE = PartialCall(id="c1", name="add", arguments='{"a": 1}', closed=True)


def gathered(*parts: StreamPart, **before: object) -> Gathering:
    gathering = Gathering("asked", **before)  # type: ignore[arg-type]
    for part in parts:
        gathering.take(part)
    return gathering


def came(text: str = "", *calls: PartialCall, broken: str | None = None, **more: object) -> StreamCheckpoint:
    return StreamCheckpoint.model_validate(
        {"attempt": 1, "model": "m", "text": text, "calls": calls, "broken": broken, **more}
    )


def test_a_whole_answer() -> None:
    response = gathered(
        StartPart("m-1", "req-7"),
        ReasoningPart("Let me "),
        ReasoningPart("add."),
        TextPart("I will "),
        TextPart("add."),
        CallStartPart(0, "c1", "add"),
        CallArgumentsPart(0, '{"a":'),
        CallArgumentsPart(0, " 1}"),
        CallStartPart(1, "c2", "now"),
        UsagePart(Usage(prompt_tokens=3, completion_tokens=4)),
        StopPart(StopReason.TOOL_USE),
    ).response()
    assert (response.model, response.request_id) == ("m-1", "req-7")
    assert (response.text, response.reasoning) == ("I will add.", "Let me add.")
    assert response.tool_calls == (
        ToolCall(id="c1", name="add", arguments={"a": 1}),
        ToolCall(id="c2", name="now", arguments=None),
    )
    assert response.usage == Usage(prompt_tokens=3, completion_tokens=4)
    assert response.stop_reason is StopReason.TOOL_USE
    assert response.incomplete_calls == ()


def test_signed_reasoning_is_kept_in_its_blocks() -> None:
    response = gathered(
        ReasoningPart("one"),
        ReasoningPart("", "sig1"),
        ReasoningPart("two", "sig2"),
        TextPart("done"),
        StopPart(StopReason.END_TURN),
    ).response()
    assert response.thinking == (
        ThinkingBlock(thinking="one", signature="sig1"),
        ThinkingBlock(thinking="two", signature="sig2"),
    )
    assert response.reasoning == ""


@pytest.mark.parametrize("arguments", ['{"a": ', "{'a': 1}", "nonsense", '{"a": NaN}'])
def test_a_call_that_nobody_can_read_is_dropped_and_named(arguments: str) -> None:
    response = gathered(
        CallStartPart(0, "c1", "add"),
        CallArgumentsPart(0, arguments),
        CallStartPart(1, "c2", "now"),
        CallArgumentsPart(1, "{}"),
        StopPart(StopReason.MAX_TOKENS),
    ).response()
    assert [call.name for call in response.tool_calls] == ["now"]
    assert response.incomplete_calls == ("add",)
    assert response.stop_reason is StopReason.MAX_TOKENS


def test_a_server_that_says_stop_whatever_it_asks_for() -> None:
    response = gathered(CallStartPart(0, "c1", "now"), StopPart(StopReason.END_TURN)).response()
    assert response.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    ("left", "plan", "dropped"),
    [
        (came("Once upon"), RecoveryPlan.CONTINUE_TEXT, None),
        (came("I look it up.", HALF), RecoveryPlan.TRUNCATE_BEFORE_TOOL, "c2"),
        (came("I do both.", WHOLE, HALF), RecoveryPlan.SYNTHESIZE_TOOL_USE, "c2"),
        (came("", WHOLE), RecoveryPlan.SYNTHESIZE_TOOL_USE, None),
        (came("", HALF), RecoveryPlan.RESTART, "c2"),
        (came("", reasoning="Hm"), RecoveryPlan.RESTART, None),
        (came("So.", HALF.model_copy(update={"closed": True})), RecoveryPlan.TRUNCATE_BEFORE_TOOL, "c2"),
    ],
)
def test_the_plan_follows_from_what_has_come(left: StreamCheckpoint, plan: RecoveryPlan, dropped: str | None) -> None:
    interruption = interruption_of(left)
    assert (interruption.plan, interruption.call_id) == (plan, dropped)


def test_a_worker_that_was_lost_is_nobodys_fault() -> None:
    assert interruption_of(came("x")).cause == RESUMED
    assert interruption_of(came("x", broken="idle stall")).cause == "idle stall"
    causes = ("idle stall", RESUMED, "connection reset")
    interruptions = tuple(Interruption(cause=cause, plan=RecoveryPlan.CONTINUE_TEXT) for cause in causes)
    assert noticed(came("x", interruptions=interruptions)) == 2


def test_complete_calls_are_the_answer() -> None:
    left = came("Both.", WHOLE, HALF, broken="connection reset", usage=Usage(prompt_tokens=5))
    response = synthesized(left, interruption_of(left))
    assert [call.id for call in response.tool_calls] == ["c1"]
    assert (response.text, response.stop_reason, response.usage.prompt_tokens) == ("Both.", StopReason.TOOL_USE, 5)
    assert [(i.cause, i.call_name) for i in response.interruptions] == [("connection reset", "search")]


def test_the_model_is_asked_to_go_on_from_its_own_words() -> None:
    request = ModelRequest(model="m", messages=())
    assert continuing(request, "") is request
    said, go_on = continuing(request, "Once upon").messages
    assert (said.role, said.text) == (Role.ASSISTANT, "Once upon")
    assert (go_on.role, go_on.text, go_on.visibility) == (Role.USER, CONTINUE, Visibility.INTERNAL)


@given(words=st.lists(st.text(min_size=1), min_size=1), cuts=st.lists(st.integers(0, 50), max_size=4))
def test_however_often_it_breaks_off_every_word_is_there_once(words: list[str], cuts: list[int]) -> None:
    left: StreamCheckpoint | None = None
    done = 0
    for cut in [*cuts, len(words)]:
        interruptions = (*left.interruptions, interruption_of(left)) if left else ()
        gathering = gathered(text=left.text if left else "", interruptions=interruptions)
        for word in words[done:cut]:
            gathering.take(TextPart(word))
        if gathering.has_news:
            left, done = gathering.checkpoint(1, broken="connection reset"), max(done, cut)
    gathering = gathered(text=left.text if left else "")
    for word in words[done:]:
        gathering.take(TextPart(word))
    gathering.take(StopPart(StopReason.END_TURN))
    assert gathering.response().text == "".join(words)


def test_what_was_called_off_has_no_calls() -> None:
    left = gathered(TextPart("Well"), CallStartPart(0, "c1", "add"), CallEndPart(0)).checkpoint(1)
    assert (so_far(left).text, so_far(left).tool_calls) == ("Well", ())


def test_a_call_that_the_limit_cut_off_before_its_first_argument_is_not_made() -> None:
    response = gathered(
        TextPart("I clean up."), CallStartPart(0, "c1", "delete"), StopPart(StopReason.MAX_TOKENS)
    ).response()
    assert (response.tool_calls, response.incomplete_calls) == ((), ("delete",))
    whole = gathered(CallStartPart(0, "c1", "now"), CallEndPart(0), StopPart(StopReason.TOOL_USE)).response()
    assert [call.name for call in whole.tool_calls] == ["now"]
