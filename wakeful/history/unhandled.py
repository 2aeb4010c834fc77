"""What was sent to a thread and is in history, and no workflow task has handled: no status shows it yet.

While a worker has a workflow task, the server keeps new signals in a buffer, which no client can read.
"""

from collections.abc import Callable
from typing import TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.requests import (
    parse_cancel,
    parse_close,
    parse_decide,
    parse_edit,
    parse_revoke,
    parse_submission,
    parse_withdraw,
)
from wakeful.contract.views import Sent, SentKind
from wakeful.history.decoder import ExecutionRef, Payloads, moment_of
from wakeful.history.moments import CancelRequested, SignalReceived, TaskCompleted

PAGE = 50
MAX_PAGES = 20
"""Pages of newest events that are read: a thread may have been sent thousands of messages while no worker ran."""

T = TypeVar("T")


async def read_unhandled(temporal: Client, execution: ExecutionRef) -> tuple[Sent, ...]:
    """What an execution was sent since its last workflow task that was completed, the oldest first."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=execution.thread_id, run_id=execution.run_id),
        maximum_page_size=PAGE,
    )
    payloads = Payloads(temporal.data_converter)
    found: list[Sent] = []
    for _ in range(MAX_PAGES):
        page = await temporal.workflow_service.get_workflow_execution_history_reverse(request)
        for event in page.history.events:
            if isinstance(moment_of(event), TaskCompleted):
                return tuple(reversed(found))
            found += reversed(await sent_in(payloads, event))
        if not page.next_page_token:
            break
        request.next_page_token = page.next_page_token
    return tuple(reversed(found))


async def sent_in(payloads: Payloads, event: HistoryEvent) -> tuple[Sent, ...]:
    """What a client or another thread sent with this event; nothing, if it is malformed."""
    match moment_of(event):
        case SignalReceived() as signal:
            return await _of_signal(payloads, signal)
        case CancelRequested(at=at, identity=identity):
            return (Sent(kind=SentKind.CANCEL, at=at, by=identity or None),)
        case _:
            return ()


async def _of_signal(payloads: Payloads, signal: SignalReceived) -> tuple[Sent, ...]:
    at, sender = signal.at, signal.sender_thread_id or signal.identity or None

    async def request_id(parse: Callable[[object], T], id_of: Callable[[T], str | None]) -> tuple[Sent, ...]:
        parsed = await payloads.signal(signal.input, parse)
        return (Sent(kind=SentKind.CHANGE, at=at, by=sender, id=id_of(parsed)),)

    try:
        match signal.signal:
            case names.SIGNAL_DECIDE:
                batch = await payloads.signal(signal.input, parse_decide)
                return tuple(
                    Sent(
                        kind=SentKind.DECISION,
                        at=at,
                        by=decision.actor or sender,
                        id=decision.decision_id,
                        target=decision.target,
                        action=decision.action,
                        run_id=batch.run_id,
                    )
                    for decision in batch.decisions
                )
            case names.SIGNAL_SUBMIT:
                submission = await payloads.signal(signal.input, parse_submission)
                by = submission.user or sender
                return tuple(Sent(kind=SentKind.MESSAGE, at=at, by=by, id=each.id) for each in submission.messages)
            case names.SIGNAL_CANCEL:
                cancel = await payloads.signal(signal.input, parse_cancel)
                return (Sent(kind=SentKind.CANCEL, at=at, by=sender, run_id=cancel.run_id),)
            case names.SIGNAL_CLOSE:
                await payloads.signal(signal.input, parse_close)
                return (Sent(kind=SentKind.CLOSE, at=at, by=sender),)
            case names.SIGNAL_WITHDRAW:
                return await request_id(parse_withdraw, lambda request: request.request_id)
            case names.SIGNAL_EDIT:
                return await request_id(parse_edit, lambda request: request.request_id)
            case names.SIGNAL_REVOKE:
                return await request_id(parse_revoke, lambda request: request.request_id)
            case _:
                return ()
    except CallerError:  # another client's; the thread refuses it
        return ()
