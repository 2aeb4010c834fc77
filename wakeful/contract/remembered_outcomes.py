"""The outcomes that a thread remembers, found by id and counted as they change.

A thread may have two thousand of them, and get a thousand messages in one workflow task: what takes time for each
outcome must not be done for each message.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wakeful.contract.outcomes import Outcome, OutcomeStatus

REMEMBERED_OUTCOMES = 1000
OUTCOMES_BYTES = 100_000
"""How many outcomes of accepted messages a thread remembers, and how many others, and the size of each; the oldest are
dropped. A thread may live for years."""

_OVERHEAD = 60
_DECIDED_OVERHEAD = 60
"""Bytes of an outcome's JSON besides its texts, and of what it says of a decision."""


class Remembered(tuple[Outcome, ...]):
    """Outcomes, from the oldest to the newest, with an index that moves on to the next version."""

    _moving: "_Index | None" = None

    def of(self, id: str) -> tuple[Outcome, ...]:
        """Those with this id, from the oldest to the newest."""
        return tuple(self._index.by_id.get(id, ()))

    def has_decided(self, calls: Iterable[str]) -> bool:
        """Whether one of these is the id of a call that an applied decision names."""
        return not self._index.decided.keys().isdisjoint(calls)

    def with_newest(self, new: tuple[Outcome, ...]) -> "Remembered":
        """With these as the newest, in place of the earlier ones of the same; as many as a thread remembers."""
        index, self._moving = self._index, None
        same = {id(known) for it in new for known in index.by_id.get(it.id, ()) if _is_same(known, it)}
        others = [known for known in self if id(known) not in same] if same else self
        for known in self if same else ():
            if id(known) in same:
                index.remove(known)
        for outcome in new:
            index.add(outcome)
        following = Remembered(index.newest((*others, *new)))
        following._moving = index
        return following

    @property
    def _index(self) -> "_Index":
        if self._moving is None:
            self._moving = _Index()
            for outcome in self:
                self._moving.add(outcome)
        return self._moving


def remembered(outcomes: Iterable[Outcome]) -> Remembered:
    return outcomes if isinstance(outcomes, Remembered) else Remembered(outcomes)


def newest(outcomes: Iterable[Outcome]) -> Remembered:
    """As many of the newest as a thread remembers, of accepted messages and of everything else."""
    return Remembered().with_newest(tuple(outcomes))


@dataclass
class _Room:
    """The outcomes of a kind by identity, from the oldest to the newest, and what they take."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    size: int = 0

    @property
    def is_exceeded(self) -> bool:
        return len(self.outcomes) > REMEMBERED_OUTCOMES or self.size > OUTCOMES_BYTES


@dataclass
class _Index:
    """Outcomes by id, and what they take: those of accepted messages, and the others."""

    by_id: dict[str, list[Outcome]] = field(default_factory=dict)
    kinds: dict[int, tuple[_Room, int]] = field(default_factory=dict)
    """The room of each outcome and its size, by identity: the index refers to them all."""
    decided: Counter[str] = field(default_factory=Counter)
    """How many applied decisions name a call."""
    accepted: _Room = field(default_factory=_Room)
    others: _Room = field(default_factory=_Room)

    def add(self, outcome: Outcome) -> None:
        room, size = self.accepted if outcome.is_accepted_message else self.others, _size(outcome)
        self.by_id.setdefault(outcome.id, []).append(outcome)
        self.kinds[id(outcome)] = room, size
        if outcome.status is OutcomeStatus.APPLIED:
            self.decided.update(outcome.calls)
        room.outcomes[id(outcome)] = outcome
        room.size += size

    def remove(self, outcome: Outcome) -> None:
        room, size = self.kinds.pop(id(outcome))
        del room.outcomes[id(outcome)]
        room.size -= size
        if outcome.status is OutcomeStatus.APPLIED:
            self.decided.subtract(outcome.calls)
            for call in outcome.calls:
                if not self.decided[call]:
                    del self.decided[call]
        left = [it for it in self.by_id.pop(outcome.id) if it is not outcome]
        if left:
            self.by_id[outcome.id] = left

    def newest(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Without the oldest of the kinds that take more room than there is."""
        dropped = {id(outcome) for room in (self.accepted, self.others) for outcome in self._dropping(room)}
        return tuple([it for it in outcomes if id(it) not in dropped]) if dropped else outcomes

    def _dropping(self, room: _Room) -> Iterator[Outcome]:
        while room.is_exceeded:
            oldest = next(iter(room.outcomes.values()))
            self.remove(oldest)
            yield oldest


def _is_same(one: Outcome, other: Outcome) -> bool:
    """Whether both are of the same message, or of the same decision or change for the same call or subject."""
    if one.subject != other.subject:
        return False
    if not one.calls or not other.calls:
        return not one.calls and not other.calls
    return not set(one.calls).isdisjoint(other.calls)


def _size(outcome: Outcome) -> int:
    texts = (outcome.id, outcome.reason, outcome.subject, *outcome.calls)
    size = _OVERHEAD + sum(map(_bytes, texts))
    return size if outcome.decided is None else size + _DECIDED_OVERHEAD + _bytes(outcome.decided.actor or "")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
