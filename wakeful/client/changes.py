"""Change what a thread has accepted: withdraw and edit messages that no run has read, revoke permission rules.

A change is a signal with an id, under which the `outcomes` query has what became of it. It is durable once it is sent;
confirming it waits until the thread has handled it, as for decisions.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from temporalio.service import RPCError

from wakeful.client.confirming import confirm_change
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import check_tenant, describe
from wakeful.contract import names
from wakeful.contract.errors import ChangeRefused, NoAnswer
from wakeful.contract.outcomes import OutcomeStatus, remembered_id
from wakeful.contract.requests import EditRequest, PageRequest, RevokeRequest, WithdrawRequest
from wakeful.contract.views import QueuedMessage, QueuedPage
from wakeful.rpc_errors import error_of, is_run_ended

ChangeRequest = WithdrawRequest | EditRequest | RevokeRequest

_SIGNALS: Mapping[type[ChangeRequest], str] = {
    WithdrawRequest: names.SIGNAL_WITHDRAW,
    EditRequest: names.SIGNAL_EDIT,
    RevokeRequest: names.SIGNAL_REVOKE,
}


@dataclass(frozen=True)
class Changed:
    """What became of a change: the messages, by their ids, or the rules, by their `tool`."""

    applied: tuple[str, ...]
    refused: Mapping[str, str]
    """Why the others did not change, such as that a run has read the message."""


async def change(reader: ThreadReader, thread_id: str, request: ChangeRequest, *, is_confirmed: bool) -> Changed | None:
    """Send a change, and, if it is to be confirmed, wait for what becomes of it.

    Raises:
        ChangeRefused: the thread is closed; or, if it is to be confirmed, nothing has changed.
        OtherTenant: the thread belongs to another tenant than the request names.
        CannotDecode: the thread needs a payload codec, and this client has none.
        NoAnswer: no worker has handled the signal in time; only if it is to be confirmed.
    """
    request = request if request.request_id else request.model_copy(update={"request_id": uuid.uuid4().hex})
    # Without the thread's codec, an edit would be stored in the clear.
    described = await describe(reader.temporal, thread_id)
    check_tenant(described, request.tenant, sent="change")
    try:
        await reader.temporal.get_workflow_handle(thread_id).signal(_SIGNALS[type(request)], request)
    except RPCError as error:
        if is_run_ended(error):
            raise ChangeRefused(thread_id, "it is closed; a run reads what waits when the thread is woken") from error
        raise error_of(error, thread_id) from error
    return await confirmed(reader, thread_id, request) if is_confirmed else None


async def confirmed(reader: ThreadReader, thread_id: str, request: ChangeRequest) -> Changed:
    """Wait for what becomes of a change whose signal was sent.

    Raises:
        ChangeRefused: nothing has changed.
        NoAnswer: no worker has handled the signal in time, or the thread does not know what became of it.
    """
    outcomes = await confirm_change(reader, thread_id, request.request_id or "")
    by_subject = {outcome.subject: outcome for outcome in outcomes}
    applied, refused, unknown = list[str](), dict[str, str](), list[str]()
    for subject in _subjects(request):
        outcome = by_subject.get(remembered_id(subject))
        if outcome is None:
            unknown.append(subject)
        elif outcome.status is OutcomeStatus.APPLIED:
            applied.append(subject)
        else:
            refused[subject] = outcome.reason
    if unknown:
        raise NoAnswer(
            f"thread {thread_id!r} does not know what became of the change of {', '.join(map(repr, unknown))} (request "
            f"id {request.request_id!r}): it was terminated or rewound, or has forgotten it; client.queued has "
            "what waits, and sending the change again with the same id is safe"
        )
    if not applied:
        raise ChangeRefused(thread_id, "; ".join(refused.values()))
    return Changed(tuple(applied), refused)


def _subjects(request: ChangeRequest) -> tuple[str, ...]:
    """What the request names, each once."""
    match request:
        case WithdrawRequest(message_ids=named) | RevokeRequest(tools=named):
            return tuple(dict.fromkeys(named))
        case EditRequest(message=message):
            return (message.id or "",)


async def read_queued(reader: ThreadReader, thread_id: str) -> list[QueuedMessage]:
    """What no run of the thread has read, in the order in which runs read it."""
    found: list[QueuedMessage] = []
    after: int | None = 0
    while after is not None:
        page = await reader.query(thread_id, names.QUERY_QUEUED, QueuedPage, PageRequest(after=after))
        found += page.messages
        after = page.next
    return found
