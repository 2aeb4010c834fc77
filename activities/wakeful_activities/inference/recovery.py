"""What becomes of an answer that broke off: the four plans, chosen by what has come of it."""

from wakeful.contract.inference import RESUMED, Interruption, ModelRequest, RecoveryPlan
from wakeful.contract.messages import Message, Role, TextBlock, Visibility
from wakeful.contract.streaming import StreamCheckpoint
from wakeful_activities.inference.stream_assembly import read_calls

CONTINUE = "Your previous response was interrupted mid-stream. Continue from where you left off."


def interruption_of(came: StreamCheckpoint) -> Interruption:
    """Why the answer broke off, and how to go on. Only a call that was written to its end can be kept."""
    complete, unread = read_calls(call for call in came.calls if call.closed)
    half = next((call for call in reversed(came.calls) if not call.closed or call.name in unread), None)
    if complete:
        plan = RecoveryPlan.SYNTHESIZE_TOOL_USE
    elif came.text and half:
        plan = RecoveryPlan.TRUNCATE_BEFORE_TOOL
    elif came.text:
        plan = RecoveryPlan.CONTINUE_TEXT
    else:
        plan = RecoveryPlan.RESTART
    return Interruption(
        cause=came.broken or RESUMED,
        plan=plan,
        call_id=half.id if half else None,
        call_name=half.name if half else None,
    )


def noticed(came: StreamCheckpoint) -> int:
    """How often the answer broke off under a worker that lived to notice; a lost worker is nobody's fault."""
    return sum(1 for interruption in came.interruptions if interruption.cause != RESUMED)


def continuing(request: ModelRequest, text: str) -> ModelRequest:
    """The request that asks the model to go on from what it has written."""
    if not text:
        return request
    said = Message(id="partial", role=Role.ASSISTANT, content=(TextBlock(text=text),))
    go_on = Message(id="continue", role=Role.USER, content=(TextBlock(text=CONTINUE),), visibility=Visibility.INTERNAL)
    return request.model_copy(update={"messages": (*request.messages, said, go_on)})
