"""Confirm decisions, messages and changes: wait until the thread has handled their signal, and read the outcome.

The server has the signal before this begins, so nothing that happens here can lose it. It was handled when a workflow
task has completed that started after it; the worker that ran this task then has the outcome in memory. While a worker
has a workflow task, the server keeps new signals in a buffer, and history does not have them: that they are not in
history says nothing then.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Literal

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from wakeful.client.earlier_decisions import already_decided, refusal_after_end
from wakeful.client.queries import query
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.decisions import Decision
from wakeful.contract.errors import CallerError, ChangeRefused, DecisionRefused, MessageRefused, NoAnswer
from wakeful.contract.outcomes import Outcome, OutcomeStatus, remembered_id
from wakeful.contract.views import OutcomesView
from wakeful.history.decoder import Payloads
from wakeful.history.pending_task import pending_task
from wakeful.history.unhandled import sent_in
from wakeful.rpc_errors import error_of

HANDLED_WITHIN_SECONDS = 10.0
"""Longer than the sticky timeout, after which another worker handles the task of one that has died."""

OUTCOME_WITHIN = timedelta(seconds=2)
"""For the worker that has just handled the signal; history has the outcome, too."""

FIRST_PAUSE_SECONDS = 0.03
MAX_PAUSE_SECONDS = 0.5
PAGE = 50

DecisionStatus = Literal["applied", "held", "repeated"]
"""What became of a decision: `held` for a call that has not suspended yet, `repeated` if it is applied and its id was
sent more than once."""

_ENDED_BY_FORCE = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    }
)


async def confirm(reader: ThreadReader, thread_id: str, decisions: Sequence[Decision]) -> DecisionStatus:
    """What became of decisions whose signal was sent; each has an id.

    Raises:
        DecisionRefused: they changed nothing; `AlreadyDecided` if a call was decided before.
        NoAnswer: no worker handled the signal in time.
    """
    temporal = reader.temporal
    ids = tuple(dict.fromkeys(decision.decision_id for decision in decisions if decision.decision_id is not None))
    try:
        async with asyncio.timeout(HANDLED_WITHIN_SECONDS):
            await _wait_until_handled(temporal, thread_id, frozenset(ids))
    except TimeoutError as error:
        raise NoAnswer(_not_handled(thread_id, ids)) from error
    except RPCError as error:
        raise error_of(error, thread_id) from error
    outcomes = await _read_outcomes(reader, thread_id, ids)
    found = [_outcome_of(decision, outcomes) for decision in decisions]
    for outcome in found:
        if outcome is not None and outcome.status is OutcomeStatus.REFUSED:
            if outcome.decided is not None:
                raise already_decided(thread_id, outcome.reason, outcome.decided)
            raise DecisionRefused(thread_id, outcome.reason)
    known = [outcome for outcome in found if outcome is not None]
    if len(known) < len(found):
        raise await _unknown(reader, thread_id, decisions)
    if any(outcome.status is OutcomeStatus.HELD for outcome in known):
        return "held"
    return "repeated" if known and all(outcome.repeats for outcome in known) else "applied"


async def confirm_message(reader: ThreadReader, thread_id: str, message_id: str) -> OutcomeStatus:
    """What became of a message whose signal was sent.

    Raises:
        MessageRefused: no run reads it.
        NoAnswer: no worker handled the signal in time.
    """
    try:
        async with asyncio.timeout(HANDLED_WITHIN_SECONDS):
            await _wait_until_handled(reader.temporal, thread_id, frozenset((message_id,)))
            outcome = await _message_outcome(reader, thread_id, message_id)
    except TimeoutError as error:
        raise NoAnswer(
            f"no worker has handled the message in time; it is recorded in the history of thread {thread_id!r} and "
            f"will be read as soon as a worker runs on its task queue (message id {message_id!r}; sending it again "
            "with the same id is safe)"
        ) from error
    except RPCError as error:
        raise error_of(error, thread_id) from error
    if outcome.status is OutcomeStatus.REFUSED:
        raise MessageRefused(thread_id, outcome.reason)
    return outcome.status


async def confirm_change(reader: ThreadReader, thread_id: str, request_id: str) -> tuple[Outcome, ...]:
    """What became of a change whose signal was sent, for each message or rule that it names.

    Raises:
        ChangeRefused: the thread was terminated before it handled the signal.
        NoAnswer: no worker handled the signal in time.
    """
    try:
        async with asyncio.timeout(HANDLED_WITHIN_SECONDS):
            await _wait_until_handled(reader.temporal, thread_id, frozenset((request_id,)))
            return await _read_outcomes(reader, thread_id, (request_id,))
    except DecisionRefused as error:
        raise ChangeRefused(thread_id, error.reason) from error
    except TimeoutError as error:
        raise NoAnswer(
            f"no worker has handled the change in time; it is recorded in the history of thread {thread_id!r} and will "
            f"be handled as soon as a worker runs on its task queue (request id {request_id!r}; sending it again with "
            "the same id is safe)"
        ) from error
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def _message_outcome(reader: ThreadReader, thread_id: str, message_id: str) -> Outcome:
    """The outcome, as soon as the thread knows it: one that is being woken reads its conversation first."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        outcomes = await _read_outcomes(reader, thread_id, (message_id,))
        if found := [outcome for outcome in outcomes if outcome.is_message]:
            return found[0]
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)


async def _wait_until_handled(temporal: Client, thread_id: str, ids: frozenset[str]) -> None:
    # The signal is in this execution, or in an earlier one, which has closed.
    run_id, pause = await _newest_execution(temporal, thread_id), FIRST_PAUSE_SECONDS
    done = (_Progress.HANDLED, _Progress.ABSENT)
    while (progress := await _progress(temporal, thread_id, run_id, ids)) not in done:
        if progress is _Progress.ENDED:
            before, run_id = run_id, await _newest_execution(temporal, thread_id)
            if run_id == before:
                raise DecisionRefused(thread_id, "the run has ended")
            continue  # a reset has terminated the execution, and gives the signal to the next one
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)


async def _newest_execution(temporal: Client, thread_id: str) -> str:
    return (await temporal.get_workflow_handle(thread_id).describe()).run_id or ""


class _Progress(Enum):
    """How far a signal has come in an execution."""

    WAITING = auto()
    HANDLED = auto()
    """A workflow task has completed that started after it."""
    ABSENT = auto()
    """It is not in this execution: an earlier one has handled it, or was terminated before that."""
    ENDED = auto()
    """The execution was terminated before that; it could neither complete nor continue as new."""


async def _progress(temporal: Client, thread_id: str, run_id: str, ids: frozenset[str]) -> _Progress:
    progress = await _recorded_progress(temporal, thread_id, run_id, ids)
    if progress is not _Progress.ABSENT:
        return progress
    described = await temporal.get_workflow_handle(thread_id, run_id=run_id).describe()
    if (task := pending_task(described)) is not None and task.is_started:
        return _Progress.WAITING  # perhaps in the server's buffer
    # The buffer is empty, so history has the signal now, if this execution got it.
    return await _recorded_progress(temporal, thread_id, run_id, ids)


async def _recorded_progress(temporal: Client, thread_id: str, run_id: str, ids: frozenset[str]) -> _Progress:
    payloads, newest_task, has_ended = Payloads(temporal.data_converter), 0, False
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        maximum_page_size=PAGE,
    )
    while True:
        page = await temporal.workflow_service.get_workflow_execution_history_reverse(request)
        for event in page.history.events:
            has_ended |= event.event_type in _ENDED_BY_FORCE
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                newest_task = max(newest_task, event.workflow_task_completed_event_attributes.started_event_id)
            elif not ids.isdisjoint(sent.id for sent in await sent_in(payloads, event)):
                if newest_task > event.event_id:
                    return _Progress.HANDLED
                return _Progress.ENDED if has_ended else _Progress.WAITING
        if not page.next_page_token:
            return _Progress.ABSENT
        request.next_page_token = page.next_page_token


async def _read_outcomes(reader: ThreadReader, thread_id: str, ids: Sequence[str]) -> tuple[Outcome, ...]:
    request = {"ids": list(ids)}
    try:
        view = await query(
            reader.temporal, thread_id, names.QUERY_OUTCOMES, OutcomesView, request, within=OUTCOME_WITHIN
        )
    except NoAnswer:  # the worker was lost meanwhile
        view = await reader.query(thread_id, names.QUERY_OUTCOMES, OutcomesView, request)
    return view.outcomes


def _outcome_of(decision: Decision, outcomes: Sequence[Outcome]) -> Outcome | None:
    id, target = remembered_id(decision.decision_id or ""), remembered_id(decision.target)
    return next((outcome for outcome in outcomes if outcome.id == id and target in outcome.calls), None)


async def _unknown(reader: ThreadReader, thread_id: str, decisions: Sequence[Decision]) -> CallerError | NoAnswer:
    """The thread does not know the decisions: it was terminated before it handled them, or has been rewound since."""
    try:
        described = await reader.temporal.get_workflow_handle(thread_id).describe()
    except RPCError as error:
        raise error_of(error, thread_id) from error
    if described.status is not WorkflowExecutionStatus.RUNNING:
        return await refusal_after_end(reader, thread_id, [decision.target for decision in decisions])
    ids = ", ".join(repr(decision.decision_id) for decision in decisions)
    return NoAnswer(
        f"thread {thread_id!r} does not know what became of the decision (decision id {ids}): it was terminated or "
        "rewound meanwhile, or has forgotten it; its status shows what the run waits for, and sending the decision "
        "again with the same id is safe"
    )


def _not_handled(thread_id: str, ids: Sequence[str]) -> str:
    return (
        f"no worker has handled the decision in time; it is recorded in the history of thread {thread_id!r} and will "
        f"be applied as soon as a worker runs on its task queue (decision id {', '.join(map(repr, ids))}; sending it "
        "again with the same id is safe)"
    )
