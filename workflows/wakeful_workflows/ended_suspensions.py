"""Which suspended calls a fact has ended, by which decision, and who sent that."""

from collections.abc import Iterator
from dataclasses import dataclass

from wakeful.loop.calls.batch import SuspendedCall
from wakeful.loop.machine.facts import DecisionsReceived, Fact, TimerFired
from wakeful.loop.machine.state import Thread
from wakeful.telemetry import names
from wakeful.telemetry.spans import Carrier

KEPT_DECISIONS = 100
"""Decisions whose calls have not suspended yet, or that were refused."""


@dataclass(frozen=True)
class EndedSuspension:
    """A call that was suspended; `action` says how that ended."""

    call: SuspendedCall
    action: str
    sender: Carrier | None = None


class Suspensions:
    """Remembers decisions until their calls are suspended no longer: a decision may come before the suspension."""

    def __init__(self) -> None:
        self._decisions: dict[str, tuple[str, Carrier | None]] = {}
        """What was decided and by whom, by the call or suspension that the decision names."""

    def take(
        self, before: Thread | None, after: Thread, fact: Fact | None, sender: Carrier | None = None
    ) -> Iterator[EndedSuspension]:
        """The suspensions that a fact has ended."""
        if isinstance(fact, DecisionsReceived):
            self._decisions |= {decision.target: (decision.action.value, sender) for decision in fact.decisions}
            for target in list(self._decisions)[:-KEPT_DECISIONS]:
                del self._decisions[target]
        if before is None or before.batch is None or not before.batch.suspended:
            return
        still = {_key(call) for call in after.batch.suspended} if after.batch else set()
        otherwise = (names.EXPIRED if isinstance(fact, TimerFired) else names.CANCELLED), None
        for call in before.batch.suspended:
            if _key(call) not in still:
                by_call = self._decisions.pop(call.call.id, otherwise)
                yield EndedSuspension(call, *self._decisions.pop(call.ticket.suspension.id, by_call))


def _key(call: SuspendedCall) -> tuple[str, str, int]:
    return call.call.id, call.ticket.suspension.id, call.since
