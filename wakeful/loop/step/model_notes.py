"""What the loop itself tells the model: messages of the transcript that people are not shown."""

from wakeful.contract.inference import ModelResponse, RecoveryPlan, StopReason
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, Visibility
from wakeful.loop.machine.events import next_message_id
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import RunState

TOO_LONG = "Your response exceeded the output token limit. Please break your work into smaller pieces."
CONTINUE = f"{TOO_LONG} Continue from where you left off."


def noting(state: RunState, *texts: str) -> RunState:
    """The state with these notes at the end of its transcript: the model reads them with its next step."""
    metadata = MessageMetadata(run_id=state.identity.run_id, step_index=state.steps)
    for text in texts:
        note = Message(
            id=next_message_id(state),
            role=Role.USER,
            content=(TextBlock(text=text),),
            visibility=Visibility.INTERNAL,
            metadata=metadata,
        )
        state = replace(state, transcript=state.transcript.appending(note, note))
    return state


def on_calls(response: ModelResponse) -> tuple[str, ...]:
    """What the model has to know of the calls it wanted and nobody made."""
    notes = []
    if interrupted := _interrupted(response):
        notes.append(
            f"Your response was interrupted while you called {interrupted}. That call was not executed. "
            "Call it again if it is still needed."
        )
    if response.incomplete_calls:
        named = ", ".join(dict.fromkeys(response.incomplete_calls))
        cut_off = f"{TOO_LONG} " if response.stop_reason is StopReason.MAX_TOKENS else ""
        notes.append(
            f"{cut_off}One or more of your tool calls had malformed arguments and were not executed: {named}. "
            "Call them again with arguments that are valid JSON if they are still needed."
        )
    return tuple(notes)


def on_output(problem: str) -> str:
    """What the model is told of an answer that does not fit the agent's output type."""
    return (
        f"Your answer does not fit the required output: {problem}. "
        "Answer again, with nothing but JSON that fits the schema."
    )


def _interrupted(response: ModelResponse) -> str:
    """The tools whose calls were half written when the answer broke off and its complete calls were taken for it."""
    return ", ".join(
        broken.call_name
        for broken in response.interruptions
        if broken.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE and broken.call_name
    )
