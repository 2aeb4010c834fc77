"""The steps of a thread, counted over all its runs: `fork` and `rewind` name a position by them. Pure.

A step is one answer of the model with the results of its tool calls. One whose answer was discarded has left no
message, and is not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest

from wakeful.contract.base import Wire
from wakeful.contract.messages import Message, Role


@dataclass(frozen=True)
class Step:
    """One step, and its messages in the transcript."""

    number: int
    """Over all runs of the thread, from 1."""
    run_id: str
    index: int
    """Its number within its run."""
    start: int
    """The position of its answer in the transcript; the model was called with the messages before it."""
    end: int
    """The position after its last tool result."""


def steps_of(messages: Sequence[Message]) -> tuple[Step, ...]:
    """The steps of a whole transcript, in order."""
    steps: list[Step] = []
    for position, message in enumerate(messages):
        if message.metadata is None or message.role is Role.USER:
            continue
        run_id, index = message.metadata.run_id, message.metadata.step_index
        if not steps or (steps[-1].run_id, steps[-1].index) != (run_id, index):
            steps.append(Step(len(steps) + 1, run_id, index, start=position, end=position + 1))
        else:
            steps[-1] = replace(steps[-1], end=position + 1)
    return tuple(steps)


class StepPair(Wire):
    """One step of each thread: the messages before it, the answer, and the results of its calls."""

    step: int
    a: tuple[Message, ...] = ()
    b: tuple[Message, ...] = ()


class Comparison(Wire):
    """Where two conversations differ: the part that they share comes first."""

    same_messages: int
    same_steps: int
    pairs: tuple[StepPair, ...] = ()
    """From the first step that differs; messages without an answer yet have the number after the last step."""
    steps_a: int
    steps_b: int


def compare(a: Sequence[Message], b: Sequence[Message]) -> Comparison:
    """Compare two whole transcripts."""
    steps_a, steps_b = steps_of(a), steps_of(b)
    equal = sum(1 for _ in takewhile(lambda pair: _content(pair[0]) == _content(pair[1]), zip(a, b, strict=False)))
    # An answer whose calls had other results is part of the difference.
    same = min(_step_boundary(steps_a, equal), _step_boundary(steps_b, equal))
    rests = zip_longest(_by_step(a, steps_a, same), _by_step(b, steps_b, same), fillvalue=())
    first = sum(1 for step in steps_a if step.end <= same)
    pairs = (StepPair(step=first + number, a=left, b=right) for number, (left, right) in enumerate(rests, 1))
    return Comparison(
        same_messages=same, same_steps=first, pairs=tuple(pairs), steps_a=len(steps_a), steps_b=len(steps_b)
    )


def _content(message: Message) -> object:
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return message.role, message.content, calls


def _step_boundary(steps: Sequence[Step], position: int) -> int:
    """This position, or the start of the step that it is within."""
    return next((step.start for step in steps if step.start < position < step.end), position)


def _by_step(messages: Sequence[Message], steps: Sequence[Step], start: int) -> list[tuple[Message, ...]]:
    """The messages from `start` on, by the step that they belong to or precede."""
    parts, position = [], start
    for step in steps:
        if step.end > start:
            parts.append(tuple(messages[position : step.end]))
            position = step.end
    if position < len(messages):
        parts.append(tuple(messages[position:]))
    return parts
