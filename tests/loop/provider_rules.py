"""What three providers require of a conversation, each as a small function over a transcript.

They are stricter than the providers: a transcript that passes all of them can be sent to any provider.
"""

from collections.abc import Sequence
from itertools import pairwise

from wakeful.contract.messages import Message, Role, TextBlock


def check_every_provider(messages: Sequence[Message]) -> None:
    check_openai_chat(messages)
    check_openai_responses(messages)
    check_anthropic(messages)


def check_openai_chat(messages: Sequence[Message]) -> None:
    """Directly after an assistant's calls comes one tool message for each, in any order, before anything else."""
    missing: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in missing, "a tool message must answer a call right before it, once"
            missing.remove(message.tool_call_id)
        else:
            assert not missing, f"calls must be followed by their results: {missing}"
            missing = {call.id for call in message.tool_calls}
            assert len(missing) == len(message.tool_calls)
    assert not missing


def check_openai_responses(messages: Sequence[Message]) -> None:
    """Each function_call has its one function_call_output somewhere after it, and no output is without a call."""
    called: set[str] = set()
    answered: set[str] = set()
    for message in messages:
        if message.tool_call_id is not None:
            assert message.tool_call_id in called - answered, "an output without a call, or a second one"
            answered.add(message.tool_call_id)
        for call in message.tool_calls:
            assert call.id not in called, "a call id must not be used twice"
            called.add(call.id)
    assert called == answered


def check_anthropic(messages: Sequence[Message]) -> None:
    """User and assistant alternate; results come first in the turn after their calls; no text is empty."""
    turns = _turns(messages)
    assert [role for role, _ in turns] == [("user", "assistant")[index % 2] for index in range(len(turns))]
    for message in messages:
        assert all(block.text.strip() for block in message.content if isinstance(block, TextBlock))
    for (_, calls), (_, results) in pairwise([("assistant", []), *turns, ("user", [])]):
        wanted = [id for kind, id in calls if kind == "tool_use"]
        answers = [id for kind, id in results[: len(wanted)] if kind == "tool_result"]
        assert sorted(wanted) == sorted(answers), "results come first in the turn after their calls"
        assert len([kind for kind, _ in results if kind == "tool_result"]) == len(wanted)


Turn = tuple[str, list[tuple[str, str]]]


def _turns(messages: Sequence[Message]) -> list[Turn]:
    """Consecutive messages of one role are one turn; an empty message is none."""
    turns: list[Turn] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = [("tool_use", call.id) for call in message.tool_calls]
        if message.tool_call_id is not None:
            blocks.append(("tool_result", message.tool_call_id))
        elif message.content:
            blocks.insert(0, ("text", message.text))
        if blocks and turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((role, blocks))
    return turns
