"""The recovery plan of an interrupted stream follows from what has arrived."""

import pytest

from wakeful.contract.inference import RESUMED, Interruption, ModelRequest, RecoveryPlan, StopReason
from wakeful.contract.messages import Role, Visibility
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import PartialCall, StreamCheckpoint
from wakeful_activities.inference.recovery import CONTINUE_INTERRUPTED, continuing, interruption_of, stream_retries
from wakeful_activities.inference.stream_assembly import synthesized_response

COMPLETE = PartialCall(id="1-1", name="add", arguments='{"a": 1}', closed=True)
INCOMPLETE = PartialCall(id="1-2", name="search", arguments='{"q": "tem')


def arrived(text: str = "", *calls: PartialCall, broken: str | None = None, **more: object) -> StreamCheckpoint:
    return StreamCheckpoint.model_validate(
        {"attempt": 1, "model": "m", "text": text, "calls": calls, "broken": broken, **more}
    )


@pytest.mark.parametrize(
    ("checkpoint", "plan", "dropped"),
    [
        (arrived("Once upon"), RecoveryPlan.CONTINUE_TEXT, None),
        (arrived("I look it up.", INCOMPLETE), RecoveryPlan.TRUNCATE_BEFORE_TOOL, "1-2"),
        (arrived("I do both.", COMPLETE, INCOMPLETE), RecoveryPlan.SYNTHESIZE_TOOL_USE, "1-2"),
        (arrived("", COMPLETE), RecoveryPlan.SYNTHESIZE_TOOL_USE, None),
        (arrived("", INCOMPLETE), RecoveryPlan.RESTART, "1-2"),
        (arrived("", reasoning="Hm"), RecoveryPlan.RESTART, None),
        (arrived("So.", INCOMPLETE.model_copy(update={"closed": True})), RecoveryPlan.TRUNCATE_BEFORE_TOOL, "1-2"),
    ],
)
def test_the_plan_follows_from_what_has_arrived(
    checkpoint: StreamCheckpoint, plan: RecoveryPlan, dropped: str | None
) -> None:
    interruption = interruption_of(checkpoint)
    assert (interruption.plan, interruption.call_id) == (plan, dropped)


def test_a_lost_worker_does_not_count_as_a_stream_retry() -> None:
    assert interruption_of(arrived("x")).cause == RESUMED
    assert interruption_of(arrived("x", broken="idle stall")).cause == "idle stall"
    causes = ("idle stall", RESUMED, "connection reset")
    interruptions = tuple(Interruption(cause=cause, plan=RecoveryPlan.CONTINUE_TEXT) for cause in causes)
    assert stream_retries(arrived("x", interruptions=interruptions)) == 2


def test_the_complete_calls_of_an_interrupted_answer_are_the_answer() -> None:
    checkpoint = arrived("Both.", COMPLETE, INCOMPLETE, broken="connection reset", usage=Usage(prompt_tokens=5))
    response = synthesized_response(checkpoint, interruption_of(checkpoint))
    assert [call.id for call in response.tool_calls] == ["1-1"]
    assert (response.text, response.stop_reason, response.usage.prompt_tokens) == ("Both.", StopReason.TOOL_USE, 5)
    assert [(i.cause, i.call_name) for i in response.interruptions] == [("connection reset", "search")]


def test_the_model_is_asked_to_continue_its_own_text() -> None:
    request = ModelRequest(model="m", messages=())
    assert continuing(request, "") is request
    partial, note = continuing(request, "Once upon").messages
    assert (partial.role, partial.text) == (Role.ASSISTANT, "Once upon")
    assert (note.role, note.text, note.visibility) == (Role.USER, CONTINUE_INTERRUPTED, Visibility.INTERNAL)


def test_the_note_tells_the_model_what_happened_and_what_to_do() -> None:
    assert "was interrupted by a connection failure" in CONTINUE_INTERRUPTED
    assert "Continue exactly where it ended." in CONTINUE_INTERRUPTED
    assert "Do not repeat" in CONTINUE_INTERRUPTED
