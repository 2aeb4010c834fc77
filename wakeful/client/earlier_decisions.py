"""The first decision on a call: what the error of a second one says."""

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime

from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.errors import AlreadyDecided, DecisionRefused, WakefulError
from wakeful.contract.outcomes import newest_decision
from wakeful.contract.views import OutcomesView


def already_decided(thread_id: str, reason: str, decided: AppliedDecision) -> AlreadyDecided:
    """The error for a decision that a thread refused for this reason, because its call was decided before."""
    at = f"{datetime.fromtimestamp(decided.at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return AlreadyDecided(
        thread_id, f"{reason} at {at}", action=decided.action.value, actor=decided.actor, at=decided.at
    )


async def refusal_after_end(
    reader: ThreadReader, thread_id: str, targets: Iterable[str], *, tenant: str | None = None
) -> DecisionRefused:
    """The error for decisions that came after the end of the run, by the calls that they name.

    Args:
        tenant: of the decider, who does not learn who has decided for another tenant.
    """
    is_own = tenant is None or await _tenant_of(reader, thread_id) == tenant
    earlier = await find_earlier(reader, thread_id, targets) if is_own else None
    return DecisionRefused(thread_id, "the run has ended") if earlier is None else earlier


async def _tenant_of(reader: ThreadReader, thread_id: str) -> str | None:
    with contextlib.suppress(WakefulError):  # as in `find_earlier`
        return (await reader.status(thread_id)).identity.tenant
    return None


async def find_earlier(reader: ThreadReader, thread_id: str, targets: Iterable[str]) -> AlreadyDecided | None:
    """The error for the first of these calls, or suspensions, that was decided, as far as the thread remembers."""
    try:
        view = await reader.query(thread_id, names.QUERY_OUTCOMES, OutcomesView)
    except WakefulError:  # the caller knows without it that the decision changes nothing
        return None
    for target in targets:
        if (decided := newest_decision(view.outcomes, target)) is not None:
            return already_decided(thread_id, decided.of(target), decided)
    return None
