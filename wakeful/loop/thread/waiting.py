"""How much input may wait in a thread: messages, mail and held decisions.

What waits is part of every snapshot. Without a bound, a thread that waits for a person could not continue as new any
more while others keep sending, and the server would terminate it when its history is full.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from wakeful.contract.base import Once, json_bytes
from wakeful.contract.decisions import Decision
from wakeful.contract.settings import RunSettings, part_of
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.state import Thread

T = TypeVar("T")

WAITING_COUNT = 500
WAITING_BYTES = 1_050_000
"""Of all input that waits, as JSON. The largest message fits alone."""

_OVERHEAD = 100
"""Bytes of a waiting message's JSON besides its content and the settings of its run."""


def no_room_for(thread: Thread, messages: Iterable[Submitted]) -> str | None:
    """Why these messages cannot wait in the thread, too; None if they can."""
    new = tuple(messages)
    return _no_room(thread, len(new), sum(map(_message_bytes, new)))


def no_room_for_batch(thread: Thread, batch: tuple[Decision, ...]) -> str | None:
    """Why these decisions cannot be held in the thread, too; None if they can."""
    return _no_room(thread, len(batch), _batch_bytes(batch))


def _no_room(thread: Thread, count: int, size: int) -> str | None:
    held = thread.run.held if thread.run else ()
    waiting_count = len(thread.queued) + len(thread.steering) + _held_count(held)
    waiting_size = _queued_bytes(thread.queued) + _steering_bytes(thread.steering) + _held_bytes(held)
    if waiting_count + count <= WAITING_COUNT and waiting_size + size <= WAITING_BYTES:
        return None
    return (
        f"{waiting_count:,} messages and decisions with {waiting_size:,} bytes wait already, and this has {size:,}; "
        f"at most {WAITING_COUNT:,} with {WAITING_BYTES:,} bytes can wait: send it again when the run has read them"
    )


@Once
def _message_bytes(submitted: Submitted) -> int:
    given = part_of(submitted, RunSettings).given.values()
    each = (one for value in given for one in (value if isinstance(value, tuple) else (value,)))
    settings = sum(map(json_bytes, each))
    settings += len(submitted.user or "") + json_bytes(submitted.metadata)
    return _OVERHEAD + len(submitted.message.model_dump_json().encode()) + settings


def _batch_bytes(batch: tuple[Decision, ...]) -> int:
    return 1 + sum(_decision_bytes(decision) + 1 for decision in batch)


@Once
def _decision_bytes(decision: Decision) -> int:
    return json_bytes(decision)


class _Total(Generic[T]):
    """A sum over values that wait. Most follow others that wait already, so that only the new ones are counted."""

    def __init__(self, measure: Callable[[T], int]) -> None:
        self._measure = measure
        self._known: tuple[tuple[T, ...], int] = (), 0

    def __call__(self, values: tuple[T, ...]) -> int:
        before, total = self._known  # read at once, because other threads of this process have workflows, too
        if values[: len(before)] != before:
            before, total = (), 0
        total += sum(map(self._measure, values[len(before) :]))
        self._known = values, total
        return total


_queued_bytes, _steering_bytes = _Total(_message_bytes), _Total(_message_bytes)
_held_bytes: _Total[tuple[Decision, ...]] = _Total(_batch_bytes)
_held_count: _Total[tuple[Decision, ...]] = _Total(len)
