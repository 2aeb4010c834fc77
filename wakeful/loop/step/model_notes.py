"""Notes to the model: internal messages with which the loop follows up an answer that falls short."""

from wakeful.contract.base import replace
from wakeful.contract.events import NoteAdded
from wakeful.contract.inference import ModelResponse, RecoveryPlan, StopReason
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, Visibility
from wakeful.loop.machine.events import next_message_id
from wakeful.loop.machine.state import Advance, Thread

TOO_LONG = "Your last response was cut off at the output token limit."
CONTINUE = f"{TOO_LONG} Continue exactly where it ended. Do not repeat or summarise what you have already written."


def append_notes(thread: Thread, *notes: str) -> Advance:
    """Append these notes to the transcript: the model reads them in its next step, people do not see them."""
    metadata = MessageMetadata(run_id=thread.identity.run_id, step_index=thread.current.step.number)
    events = []
    for note in notes:
        message = Message(
            id=next_message_id(thread),
            role=Role.USER,
            content=(TextBlock(text=note),),
            visibility=Visibility.INTERNAL,
            metadata=metadata,
        )
        thread = replace(thread, transcript=thread.transcript.appending(message, message))
        events.append(NoteAdded(message_id=message.id, text=note))
    return Advance(thread, events=tuple(events))


def unexecuted_call_notes(response: ModelResponse) -> tuple[str, ...]:
    """What the model has to know about calls that it asked for and that were not executed."""
    notes = []
    if interrupted := _interrupted_calls(response):
        notes.append(
            f"Your last response was interrupted while you were writing a call of {interrupted}. That call was not "
            "executed. If you still need it, call the tool again."
        )
    if response.incomplete_calls:
        tools = ", ".join(dict.fromkeys(response.incomplete_calls))
        cut_off = f"{TOO_LONG} " if response.stop_reason is StopReason.MAX_TOKENS else ""
        shorter = " Use shorter arguments, or split the work into several calls." if cut_off else ""
        notes.append(
            f"{cut_off}These tool calls were not executed because their arguments are not valid JSON: {tools}. If you "
            f"still need them, call the tools again with complete, valid JSON arguments.{shorter}"
        )
    if response.dropped_calls:
        notes.append(
            f"Only the first {len(response.tool_calls)} tool calls of your last response were executed, and "
            f"{response.dropped_calls} were not. If you still need those, call the tools again, fewer at once."
        )
    return tuple(notes)


def output_note(problem: str) -> str:
    """What the model reads about an answer that does not match the agent's output type."""
    return (
        f"Your last response does not match the required output schema: {problem}. "
        "Respond again with only a JSON value that matches the schema: no other text, no code fence."
    )


def _interrupted_calls(response: ModelResponse) -> str:
    """The tools whose calls were incomplete when the stream was interrupted, if its complete calls were taken."""
    return ", ".join(
        interruption.call_name
        for interruption in response.interruptions
        if interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE and interruption.call_name
    )
