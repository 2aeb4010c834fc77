"""The steps of a thread, counted over all its runs: how `fork` and `rewind` name a place in it. Pure.

A step is one answer of the model with the calls it asked for. One whose answer was thrown away has left no message, and
is not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest

from wakeful.contract.base import Wire
from wakeful.contract.messages import Message, Role


@dataclass(frozen=True)
class Step:
    """One step, with its place in the transcript."""

    number: int
    """From the thread's first step on, which is number 1."""
    run_id: str
    index: int
    """Its number within its run."""
    asked: int
    """How many messages the model was asked about: its answer is the next one."""
    end: int
    """How many messages there are after the step, its calls' results included."""


def steps_of(messages: Sequence[Message]) -> tuple[Step, ...]:
    """The steps of a whole transcript, in order."""
    steps: list[Step] = []
    for place, message in enumerate(messages):
        if message.metadata is None or message.role is Role.USER:
            continue
        run_id, index = message.metadata.run_id, message.metadata.step_index
        if not steps or (steps[-1].run_id, steps[-1].index) != (run_id, index):
            steps.append(Step(len(steps) + 1, run_id, index, asked=place, end=place + 1))
        else:
            steps[-1] = replace(steps[-1], end=place + 1)
    return tuple(steps)


class StepPair(Wire):
    """One step of each: what was said before it, the answer, and what its calls came to."""

    step: int
    a: tuple[Message, ...] = ()
    b: tuple[Message, ...] = ()


class Comparison(Wire):
    """What two conversations have in common, from their beginning on, and what they have not."""

    same_messages: int
    same_steps: int
    pairs: tuple[StepPair, ...] = ()
    """From the first step that differs; what nobody has answered yet stands under the number after the last step."""
    steps_a: int
    steps_b: int


def compare(a: Sequence[Message], b: Sequence[Message]) -> Comparison:
    """Compare two whole transcripts."""
    steps_a, steps_b = steps_of(a), steps_of(b)
    alike = sum(1 for _ in takewhile(lambda pair: _as_read(pair[0]) == _as_read(pair[1]), zip(a, b, strict=False)))
    # An answer whose calls came to something else is shown with them.
    same = min(_seam(steps_a, alike), _seam(steps_b, alike))
    rests = zip_longest(_by_step(a, steps_a, same), _by_step(b, steps_b, same), fillvalue=())
    first = sum(1 for step in steps_a if step.end <= same)
    pairs = (StepPair(step=first + number, a=left, b=right) for number, (left, right) in enumerate(rests, 1))
    return Comparison(
        same_messages=same, same_steps=first, pairs=tuple(pairs), steps_a=len(steps_a), steps_b=len(steps_b)
    )


def _as_read(message: Message) -> object:
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return message.role, message.content, calls


def _seam(steps: Sequence[Step], messages: int) -> int:
    """So many messages, or fewer if that is in the midst of a step."""
    return next((step.asked for step in steps if step.asked < messages < step.end), messages)


def _by_step(messages: Sequence[Message], steps: Sequence[Step], start: int) -> list[tuple[Message, ...]]:
    """The messages from `start` on, each with the step that it belongs to or that it was said before."""
    parts, begin = [], start
    for step in steps:
        if step.end > start:
            parts.append(tuple(messages[begin : step.end]))
            begin = step.end
    if begin < len(messages):
        parts.append(tuple(messages[begin:]))
    return parts
