"""Ask a thread: send one message, and wait for the answer to this very message. `answers.py` finds it in the events.

Waiting is watching: a long poll of history, through every execution of the thread. It adds nothing to history.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, assert_never, get_args

from wakeful.client.answers import (
    AnswerFinder,
    PerhapsRefused,
    PerhapsSuspended,
    Rewound,
    RunEnded,
    Unanswerable,
)
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.client.queries import query
from wakeful.client.recent_submissions import recent_submissions
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.thread_runs import read_runs
from wakeful.client.wake import describe
from wakeful.client.watching.descendants import TreeWatcher
from wakeful.client.watching.reading import read_events
from wakeful.client.watching.watcher import WatchContext, Watcher
from wakeful.contract import names
from wakeful.contract.errors import CallerError, MessageRefused, NoAnswer, NotAnswered, ThreadNotFound, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.outcomes import Outcome, OutcomeStatus, remembered_id
from wakeful.contract.runs import RunResult, RunStatus
from wakeful.contract.views import OutcomesView, StatusView, WaitingFor
from wakeful.history.pending_task import pending_task

OnDecision = Literal["raise", "wait"]
"""What `ask` does when its answer waits for a person."""

STATUS_WITHIN = timedelta(seconds=2)
"""For the worker that has just ended the run; history has its result, too."""

_AFTER_ALL = 2**31


class DecisionNeeded(WakefulError):
    """The answer to a message waits for decisions, of its thread or of a sub-agent; `pending` has them.

    Decide, and ask again with the same `message_id`: the message is not sent twice.
    """

    def __init__(self, thread_id: str, message_id: str, pending: Sequence[PendingDecision]) -> None:
        tickets = ", ".join(repr(each.ticket) for each in pending)
        super().__init__(
            f"the answer to message {message_id!r} on thread {thread_id!r} waits for a decision on {tickets}: decide "
            "(client.decide, wakeful approve), and ask again with this message_id; or ask with on_decision='wait'"
        )
        self.thread_id = thread_id
        self.message_id = message_id
        self.pending = tuple(pending)


@dataclass(frozen=True)
class _Position:
    """Where a thread is before the message is sent."""

    after: int = 0
    """The number of its newest event."""
    children: tuple[str, ...] | None = None
    """The sub-agents that it has; None if they are not known."""
    is_busy: bool = False
    is_sent: bool = False
    """The thread has accepted the message before: this is a retry."""


@dataclass(frozen=True)
class _Ended:
    """The thread has ended, and its events so far do not have the answer."""

    after: int
    """The number of the newest event."""


class Asking:
    """One message, from before it is sent to its answer."""

    def __init__(self, context: WatchContext, thread_id: str, message_id: str, *, on_decision: OnDecision) -> None:
        self._context = context
        self._reader: ThreadReader = context.reader
        self._thread_id = thread_id
        self._message_id = message_id
        if on_decision not in get_args(OnDecision):
            raise CallerError(f"on_decision is {on_decision!r}: use one of 'raise', 'wait'")
        self._raises = on_decision == "raise"

    async def result(self, send: Callable[[], Awaitable[object]], *, is_new: bool) -> RunResult:
        """Send the message, unless the thread has it, and wait for the end of the run that reads it.

        Args:
            is_new: no message with this id can have been sent before.

        Raises:
            MessageRefused: no run reads it: the thread is busy, or too many messages wait already.
            NotAnswered: it was withdrawn or undone, or the thread ended before a run read it.
            DecisionNeeded: the answer waits for a decision, and `on_decision` is `raise`.
        """
        position = await self._position(is_new=is_new)
        if not position.is_sent:
            await send()
        while not isinstance(found := await self._follow(position), RunResult):
            if isinstance(found, Rewound):
                if not await self._is_known():
                    raise self._unanswered("it was undone: the thread was rewound, or started over")
                position = _Position()
            elif await self._waits_for_wake():
                await send()  # it wakes the thread; the message is a repeat
                position = _Position(found.after)
            elif await self._has_gone_on(found.after):
                position = _Position(found.after)
            else:
                raise self._unanswered("the thread ended before a run answered it")
        return found

    async def _position(self, *, is_new: bool) -> _Position:
        if await describe(self._reader.temporal, self._thread_id) is None:
            return _Position()
        try:
            page = await read_events(self._reader, self._thread_id, after=_AFTER_ALL, run_id=None)
            view = await self._reader.query(self._thread_id, names.QUERY_STATUS, StatusView)
        except NoAnswer:  # no worker has started it
            return _Position()
        outcome = None if is_new else await self._outcome()
        is_sent = outcome is not None and outcome.status not in (OutcomeStatus.REFUSED, OutcomeStatus.UNREAD)
        is_busy = view.status is not RunStatus.DONE
        if is_sent or page.restoring:
            return _Position(is_sent=is_sent, is_busy=is_busy)
        return _Position(page.last, _sub_agents(view, with_tasks=True), is_busy=is_busy)

    async def _follow(self, position: _Position) -> RunResult | Rewound | _Ended:
        """The result of the run that reads the message, unless the thread is rewound or ends before."""
        finder, is_first, after = AnswerFinder(self._thread_id, self._message_id), position.is_busy, position.after
        async with aclosing(self._records(position)) as records:
            async for record in records:
                if record.thread_id == self._thread_id and not record.provisional:
                    after = record.seq
                match finder.on_record(record):
                    case RunEnded(result=result, is_whole=is_whole):
                        return await self._whole(result, is_whole=is_whole)
                    case Unanswerable(reason=reason):
                        raise self._unanswered(reason)
                    case PerhapsRefused():
                        await self._raise_if_refused()
                    case PerhapsSuspended():
                        await self._raise_if_suspended()
                    case Rewound() as rewound:
                        return rewound
                    case None if is_first and finder.is_received:
                        # The thread was busy before: perhaps with a run that waits for a decision.
                        is_first = False
                        await self._raise_if_suspended()
                    case None:
                        pass
                    case unknown:
                        assert_never(unknown)
        return _Ended(after)

    async def _waits_for_wake(self) -> bool:
        """Whether the thread has closed, and its next execution reads the message, which came after the close."""
        outcome = await self._outcome()
        return outcome is not None and outcome.status in (OutcomeStatus.QUEUED, OutcomeStatus.STEERING)

    async def _has_gone_on(self, after: int) -> bool:
        """Whether something else has woken the thread since, such as its archive, and a run has read the message."""
        outcome = await self._outcome()
        if outcome is None or outcome.status is not OutcomeStatus.READ:
            return False
        try:
            page = await read_events(self._reader, self._thread_id, after=_AFTER_ALL, run_id=None)
        except NoAnswer:
            return False
        return page.last > after

    def _records(self, position: _Position) -> AsyncGenerator[EventRecord, None]:
        if not self._raises:
            return Watcher(self._context, self._thread_id, after=position.after, live=False).records()
        after, children = {self._thread_id: position.after}, position.children
        return TreeWatcher(self._context, self._thread_id, after=after, live=False, children=children).records()

    async def _whole(self, result: RunResult, *, is_whole: bool) -> RunResult:
        """The result with what its last event does not have: what sub-agents spent, and earlier steps."""
        with_status = await self._status_result()
        if with_status is not None and with_status.run_id == result.run_id:
            return with_status
        if is_whole:
            return result
        runs = await read_runs(self._context, self._thread_id)
        found = (run.result for run in runs if run.run_id == result.run_id and run.result is not None)
        return next(found, result)

    async def _status_result(self) -> RunResult | None:
        """The result of the newest run, if it has ended: from the worker that has just ended it, or from history."""
        temporal, name = self._reader.temporal, names.QUERY_STATUS
        try:
            return (await query(temporal, self._thread_id, name, StatusView, within=STATUS_WITHIN)).result
        except WakefulError:
            pass
        try:
            return (await self._reader.query(self._thread_id, name, StatusView)).result
        except NoAnswer:
            return None

    async def _outcome(self) -> Outcome | None:
        """What became of the message; None if the thread does not know it."""
        request = {"ids": [self._message_id]}
        try:
            view = await self._reader.query(self._thread_id, names.QUERY_OUTCOMES, OutcomesView, request)
        except (NoAnswer, ThreadNotFound):
            return None
        id = remembered_id(self._message_id)
        return next((each for each in view.outcomes if each.id == id and each.is_message), None)

    async def _raise_if_refused(self) -> None:
        outcome = await self._outcome()
        if outcome is not None and outcome.status is OutcomeStatus.REFUSED:
            raise MessageRefused(self._thread_id, outcome.reason)

    async def _raise_if_suspended(self) -> None:
        if self._raises and (pending := await waiting_decisions(self._reader, self._thread_id)):
            raise DecisionNeeded(self._thread_id, self._message_id, pending)

    async def _is_known(self) -> bool:
        """Whether the thread has the message, or will handle it."""
        if await self._outcome() is not None:
            return True
        described = await describe(self._reader.temporal, self._thread_id)
        if described is not None and (task := pending_task(described)) is not None and task.is_started:
            return True  # perhaps: history does not have signals that come while a worker has the task
        recent = await recent_submissions(self._reader.temporal, self._thread_id)
        return any(message.id == self._message_id for each in recent for message in each.submission.messages)

    def _unanswered(self, reason: str) -> NotAnswered:
        return NotAnswered(self._thread_id, self._message_id, reason)


async def waiting_decisions(reader: ThreadReader, thread_id: str) -> list[PendingDecision]:
    """The decisions without which a thread's run does not continue: its own, and those of sub-agents it waits for."""
    try:
        view = await reader.query(thread_id, names.QUERY_STATUS, StatusView)
    except (NoAnswer, ThreadNotFound):  # a sub-agent has its name a moment before it is started
        return []
    found = list(pending_of(view)) if view.waiting_for is WaitingFor.DECISIONS else []
    children = _sub_agents(view, with_tasks=view.waiting_for is WaitingFor.TASKS)
    deeper = await asyncio.gather(*(waiting_decisions(reader, child) for child in children))
    return [*found, *(decision for each in deeper for decision in each)]


def _sub_agents(view: StatusView, *, with_tasks: bool) -> tuple[str, ...]:
    """The threads of the running sub-agents that calls wait for, and of those that are tasks."""
    delegates = (call.child_thread_id for call in view.calls if call.child_thread_id is not None)
    tasks = (task.thread_id for task in view.tasks if task.agent_id and not task.status.is_terminal)
    return (*delegates, *(tasks if with_tasks else ()))
