"""Values that depend on one message, computed once: a request has the whole conversation, and most of it is old."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

from wakeful.contract.messages import Message

V = TypeVar("V")


class PerMessage(Generic[V]):
    """Remembers a value for each message object, for as long as that object exists.

    The value must not refer to the message object itself, which would then exist for ever.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Message], V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, message: Message, compute: Callable[[Message], V]) -> V:
        """The remembered value, or a computed one, which is then remembered."""
        key = id(message)  # of no other object while this one exists, and then the entry is dropped
        if (known := self._known.get(key)) is None:
            known = self._known[key] = (ref(message, lambda _: self._known.pop(key, None)), compute(message))
        return known[1]
