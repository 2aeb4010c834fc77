"""Context messages: what a request adds to the conversation, stored by key, throttled by cooldown and placed by target.

`ContextMessages` is a value: every change returns a new one. The loop and hooks decide which messages to add.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from wakeful.contract.context import AgentContext, ContextMessage, ContextTarget, LastShown
from wakeful.contract.messages import Message, Role

_TARGETS = tuple(ContextTarget)


@dataclass(frozen=True, slots=True)
class PlacedMessages:
    """The context messages of one request, by target."""

    system: tuple[Message, ...] = ()
    session: tuple[Message, ...] = ()
    conversation: tuple[Message, ...] = ()
    suffix_system: tuple[Message, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of them, in the order in which the model reads them."""
        return (*self.system, *self.session, *self.conversation, *self.suffix_system)


@dataclass(frozen=True, slots=True)
class ContextMessages:
    """One message per key. When a message was last sent is remembered after it is removed, for its cooldown."""

    messages: tuple[ContextMessage, ...] = ()
    """Sorted by target, priority and key, so that every worker sends them in the same order."""
    shown: tuple[LastShown, ...] = ()
    declared: tuple[str, ...] = ()
    """Keys of the messages that the agent itself declares."""

    @classmethod
    def of(cls, context: AgentContext) -> "ContextMessages":
        """The messages of an agent that answers again."""
        return cls(context.messages, context.shown, context.declared)

    def as_context(self, agent_id: str) -> AgentContext:
        return AgentContext(agent_id=agent_id, messages=self.messages, declared=self.declared, shown=self.shown)

    def declaring(self, messages: Sequence[ContextMessage]) -> "ContextMessages":
        """With the messages that the agent declares now, instead of those that it declared before."""
        changed = self._with_messages(message for message in self.messages if message.key not in self.declared)
        for message in messages:
            changed = changed.upserting(message)
        return replace(changed, declared=tuple(message.key for message in messages))

    def upserting(self, message: ContextMessage) -> "ContextMessages":
        """With this message, which replaces the one with its key."""
        others = (other for other in self.messages if other.key != message.key)
        return replace(self, messages=tuple(sorted((*others, message), key=_order)))

    def removing(self, key: str) -> "ContextMessages":
        return self._with_messages(message for message in self.messages if message.key != key)

    def removing_prefix(self, prefix: str) -> "ContextMessages":
        return self._with_messages(message for message in self.messages if not message.key.startswith(prefix))

    def removing_ephemeral(self) -> "ContextMessages":
        """Without the messages that are for one request only."""
        return self._with_messages(message for message in self.messages if message.persistent)

    def consuming(self, keys: Iterable[str]) -> "ContextMessages":
        """Without the messages with these keys, which were sent, except those that stay."""
        consumed = frozenset(keys)
        return self._with_messages(message for message in self.messages if message.stays or message.key not in consumed)

    def cleared(self) -> "ContextMessages":
        """Without messages, and without a record of what was sent."""
        return ContextMessages()

    def emit(self, step: int) -> tuple[PlacedMessages, "ContextMessages"]:
        """The messages that this step's request includes, and what is left afterwards.

        Args:
            step: the number of the step in the thread, which is the number of its completed steps plus one.
        """
        return by_place(self.due(step)), self.after(step)

    def due(self, step: int) -> tuple[ContextMessage, ...]:
        """The messages that this step's request includes."""
        last = {shown.key: shown for shown in self.shown}
        return tuple(message for message in self.messages if _is_due(message, last.get(message.key), step))

    def after(self, step: int) -> "ContextMessages":
        """What is left after this step's request was sent."""
        due, last = self.due(step), {shown.key: shown for shown in self.shown}
        for message in due:
            if message.cooldown_turns:
                last[message.key] = LastShown(key=message.key, step=step, content=_digest(message))
        # A message for one request is dropped even if its cooldown held it back: at a later step it would be stale.
        left = self.consuming(message.key for message in due).removing_ephemeral()
        return replace(left, shown=tuple(last[key] for key in sorted(last)))

    def _with_messages(self, messages: Iterable[ContextMessage]) -> "ContextMessages":
        return replace(self, messages=tuple(messages))


def place(instructions: Sequence[Message], history: Sequence[Message], placed: PlacedMessages) -> tuple[Message, ...]:
    """The request's messages in order: instructions and history, with the context messages at their targets."""
    leading = sum(1 for _ in takewhile(lambda message: message.role is Role.SYSTEM, history))
    return (
        *instructions,
        *placed.system,
        *history[:leading],
        *placed.session,
        *placed.conversation,
        *history[leading:],
        *placed.suffix_system,
    )


def _order(message: ContextMessage) -> tuple[int, int, str]:
    return _TARGETS.index(message.target), message.priority, message.key


def _is_due(message: ContextMessage, last: LastShown | None, step: int) -> bool:
    if message.cooldown_turns == 0 or last is None:
        return True
    return last.content != _digest(message) or step - last.step >= message.cooldown_turns


def _digest(message: ContextMessage) -> str:
    return hashlib.sha256(message.model_dump_json(include={"content"}).encode()).hexdigest()[:32]


def by_place(due: Sequence[ContextMessage]) -> PlacedMessages:
    """Messages grouped by target."""

    def at(target: ContextTarget) -> tuple[Message, ...]:
        return tuple(message.as_message() for message in due if message.target is target)

    return PlacedMessages(
        system=at(ContextTarget.SYSTEM),
        session=at(ContextTarget.SESSION),
        conversation=at(ContextTarget.CONVERSATION),
        suffix_system=at(ContextTarget.SUFFIX_SYSTEM),
    )
