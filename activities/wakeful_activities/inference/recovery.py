"""How an interrupted stream is recovered: one of four plans, chosen by what has arrived."""

from wakeful.contract.inference import RESUMED, Interruption, ModelRequest, RecoveryPlan
from wakeful.contract.messages import Message, Role, TextBlock, Visibility
from wakeful.contract.streaming import StreamCheckpoint
from wakeful_activities.inference.stream_assembly import parse_calls

CONTINUE_INTERRUPTED = (
    "Your last response was interrupted by a connection failure. Continue exactly where it ended. "
    "Do not repeat what you have already written."
)


def interruption_of(arrived: StreamCheckpoint) -> Interruption:
    """Why the stream was interrupted, and how to recover it. Only complete calls can be kept."""
    complete, malformed = parse_calls(call for call in arrived.calls if call.closed)
    incomplete = next((call for call in reversed(arrived.calls) if not call.closed or call.name in malformed), None)
    if complete:
        plan = RecoveryPlan.SYNTHESIZE_TOOL_USE
    elif arrived.text and incomplete:
        plan = RecoveryPlan.TRUNCATE_BEFORE_TOOL
    elif arrived.text:
        plan = RecoveryPlan.CONTINUE_TEXT
    else:
        plan = RecoveryPlan.RESTART
    return Interruption(
        cause=arrived.broken or RESUMED,
        plan=plan,
        call_id=incomplete.id if incomplete else None,
        call_name=incomplete.name if incomplete else None,
    )


def stream_retries(arrived: StreamCheckpoint) -> int:
    """How often the stream was interrupted under a live worker; a lost worker does not count as a retry."""
    return sum(1 for interruption in arrived.interruptions if interruption.cause != RESUMED)


def continuing(request: ModelRequest, text: str) -> ModelRequest:
    """The request that asks the model to continue what it has written."""
    if not text:
        return request
    partial = Message(id="partial", role=Role.ASSISTANT, content=(TextBlock(text=text),))
    note = Message(
        id="continue",
        role=Role.USER,
        content=(TextBlock(text=CONTINUE_INTERRUPTED),),
        visibility=Visibility.INTERNAL,
    )
    return request.model_copy(update={"messages": (*request.messages, partial, note)})
