"""The steps of a thread, counted over all its runs: how `fork` and `rewind` name a place in it. Pure.

A step is one answer of the model with the calls it asked for. One whose answer was thrown away has left no message, and
is not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
