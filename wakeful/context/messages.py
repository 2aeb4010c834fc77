"""Context messages: what a request tells the model besides the conversation, kept by key, throttled and placed.

A value: every change makes the next one. Who adds messages, and for whom they are kept, is decided above.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from wakeful.contract.context import ContextMessage, ContextTarget
from wakeful.contract.messages import Message, Role

_PLACES = tuple(ContextTarget)


@dataclass(frozen=True, slots=True)
class LastShown:
    """When a throttled message was last shown, and what it said."""

    key: str
    step: int
    content: str
    """The digest of the content."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """The messages of one request, by their place."""

    system: tuple[Message, ...] = ()
    session: tuple[Message, ...] = ()
    conversation: tuple[Message, ...] = ()
    suffix_system: tuple[Message, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of them, in the order the model reads them."""
        return (*self.system, *self.session, *self.conversation, *self.suffix_system)


@dataclass(frozen=True, slots=True)
class ContextMessages:
    """Each key has one message. What was shown is remembered beyond the message, for the throttle."""

    messages: tuple[ContextMessage, ...] = ()
    """By place, priority and key, so that every worker sends them in the same order."""
    shown: tuple[LastShown, ...] = ()

    def upserting(self, message: ContextMessage) -> "ContextMessages":
        """With this message, in place of the one that had its key."""
        others = (other for other in self.messages if other.key != message.key)
        return replace(self, messages=tuple(sorted((*others, message), key=_order)))

    def removing(self, key: str) -> "ContextMessages":
        return self._keeping(message for message in self.messages if message.key != key)

    def removing_prefix(self, prefix: str) -> "ContextMessages":
        return self._keeping(message for message in self.messages if not message.key.startswith(prefix))

    def removing_ephemeral(self) -> "ContextMessages":
        """Without the messages that are meant for one request only."""
        return self._keeping(message for message in self.messages if message.persistent)

    def consuming(self, keys: Iterable[str]) -> "ContextMessages":
        """Without those of these, which have been shown, that do not outlive it."""
        gone = frozenset(keys)
        return self._keeping(message for message in self.messages if message.stays or message.key not in gone)

    def cleared(self) -> "ContextMessages":
        """Without any message, and with no memory of what was shown."""
        return ContextMessages()

    def emit(self, step: int) -> tuple[Emitted, "ContextMessages"]:
        """What the request of this step shows, and what is left after it.

        Args:
            step: the number of the step, which is one more than the steps that are complete.
        """
        return by_place(self.due(step)), self.after(step)

    def due(self, step: int) -> tuple[ContextMessage, ...]:
        """The messages that the request of this step shows."""
        last = {shown.key: shown for shown in self.shown}
        return tuple(message for message in self.messages if _is_due(message, last.get(message.key), step))

    def after(self, step: int) -> "ContextMessages":
        """What is left when the request of this step has shown what is due."""
        due, last = self.due(step), {shown.key: shown for shown in self.shown}
        for message in due:
            if message.cooldown_turns:
                last[message.key] = LastShown(message.key, step, _digest(message))
        # A message for one request is gone even if the throttle held it back: shown at a later step, it would be stale.
        left = self.consuming(message.key for message in due).removing_ephemeral()
        return replace(left, shown=tuple(last[key] for key in sorted(last)))

    def _keeping(self, messages: Iterable[ContextMessage]) -> "ContextMessages":
        return replace(self, messages=tuple(messages))


def place(instructions: Sequence[Message], history: Sequence[Message], emitted: Emitted) -> tuple[Message, ...]:
    """The request's messages in order: instructions, history, and what was emitted at its places around them."""
    leading = sum(1 for _ in takewhile(lambda message: message.role is Role.SYSTEM, history))
    return (
        *instructions,
        *emitted.system,
        *history[:leading],
        *emitted.session,
        *emitted.conversation,
        *history[leading:],
        *emitted.suffix_system,
    )


def _order(message: ContextMessage) -> tuple[int, int, str]:
    return _PLACES.index(message.target), message.priority, message.key


def _is_due(message: ContextMessage, last: LastShown | None, step: int) -> bool:
    if message.cooldown_turns == 0 or last is None:
        return True
    return last.content != _digest(message) or step - last.step >= message.cooldown_turns


def _digest(message: ContextMessage) -> str:
    return hashlib.sha256(message.model_dump_json(include={"content"}).encode()).hexdigest()[:32]


def by_place(due: Sequence[ContextMessage]) -> Emitted:
    """Messages that are due, sorted into the places of a request."""

    def at(target: ContextTarget) -> tuple[Message, ...]:
        return tuple(message.as_message() for message in due if message.target is target)

    return Emitted(
        system=at(ContextTarget.SYSTEM),
        session=at(ContextTarget.SESSION),
        conversation=at(ContextTarget.CONVERSATION),
        suffix_system=at(ContextTarget.SUFFIX_SYSTEM),
    )
