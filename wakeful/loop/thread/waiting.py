"""How much input may wait in a thread: messages, mail and held decisions.

What waits is part of every snapshot. Without a bound, a thread that waits for a person could not continue as new any
more while others keep sending, and the server would terminate it when its history is full.
"""

from collections.abc import Iterable

from pydantic import TypeAdapter

from wakeful.contract.base import json_bytes
from wakeful.contract.decisions import Decision
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.state import Thread

WAITING_COUNT = 500
WAITING_BYTES = 1_050_000
"""Of all input that waits, as JSON. The largest message fits alone."""

_OVERHEAD = 100
"""Bytes of a waiting message's JSON besides its content and the settings of its run."""

_BATCH = TypeAdapter(tuple[Decision, ...])


def no_room_for(thread: Thread, messages: Iterable[Submitted]) -> str | None:
    """Why these messages cannot wait in the thread, too; None if they can."""
    new = tuple(messages)
    return _no_room(thread, len(new), sum(map(_message_bytes, new)))


def no_room_for_batch(thread: Thread, batch: tuple[Decision, ...]) -> str | None:
    """Why these decisions cannot be held in the thread, too; None if they can."""
    return _no_room(thread, len(batch), _batch_bytes(batch))


def _no_room(thread: Thread, count: int, size: int) -> str | None:
    messages, held = (*thread.queued, *thread.steering), thread.run.held if thread.run else ()
    waiting_count = len(messages) + sum(map(len, held))
    waiting_size = sum(map(_message_bytes, messages)) + sum(map(_batch_bytes, held))
    if waiting_count + count <= WAITING_COUNT and waiting_size + size <= WAITING_BYTES:
        return None
    return (
        f"{waiting_count:,} messages and decisions with {waiting_size:,} bytes wait already, and this has {size:,}; "
        f"at most {WAITING_COUNT:,} with {WAITING_BYTES:,} bytes can wait: send it again when the run has read them"
    )


def _message_bytes(submitted: Submitted) -> int:
    set = (submitted.overrides, submitted.budget, *submitted.permissions, *submitted.frontend_tools)
    settings = sum(len(each.model_dump_json().encode()) for each in set if each is not None)
    settings += len(submitted.user or "") + json_bytes(submitted.metadata)
    return _OVERHEAD + len(submitted.message.model_dump_json().encode()) + settings


def _batch_bytes(batch: tuple[Decision, ...]) -> int:
    return len(_BATCH.dump_json(batch))
