"""Which result answers which call. The request view and compaction both read it, and so split a conversation alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.contract.messages import Message, Role, ToolCall


@dataclass(frozen=True, slots=True)
class Round:
    """A model's message and the results of the calls it asked for."""

    at: int
    """Where the model's message stands."""
    end: int
    """The position after the last result."""
    unanswered: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    rounds: tuple[Round, ...]
    orphans: frozenset[int]
    """Where results stand that answer no call."""

    @property
    def seams(self) -> frozenset[int]:
        """The positions where a split would part a call from one of its results."""
        return frozenset(index for round in self.rounds for index in range(round.at + 1, round.end))


def read_rounds(messages: Sequence[Message]) -> Rounds:
    """Pair calls with results. A call is open until the model speaks again: what comes later answers nothing."""
    starts: list[int] = []
    ends: list[int] = []
    open_calls: list[dict[str | None, ToolCall]] = []
    orphans: set[int] = set()
    for index, message in enumerate(messages):
        if message.role is Role.ASSISTANT:
            starts.append(index)
            ends.append(index + 1)
            open_calls.append({call.id: call for call in message.tool_calls})
        elif message.role is Role.TOOL:
            if open_calls and open_calls[-1].pop(message.tool_call_id, None) is not None:
                ends[-1] = index + 1
            else:
                orphans.add(index)
    unanswered = (tuple(calls.values()) for calls in open_calls)
    return Rounds(tuple(map(Round, starts, ends, unanswered)), frozenset(orphans))
