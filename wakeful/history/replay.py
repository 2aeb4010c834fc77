"""Replay histories on the workflow code that is installed, and name the event at which one breaks.

Run it before a deploy: no activity runs, and nothing is written to any history. Like the worker, this module needs the
workflows. The CLI chooses the histories and prints the results.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from google.protobuf.json_format import ParseError
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from wakeful.contract import names
from wakeful.contract.archive import ArchiveInput
from wakeful.contract.base import Maybe, Wire
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.history.decoder import Payloads, moment_of, moments_of
from wakeful.history.moments import ActivityCompleted, ActivityScheduled, Closed, Started
from wakeful.history.read_only_replayer import OURS, WORKFLOWS, ReadOnlyReplayer
from wakeful.history.replay_failure import (
    code_behaviour,
    event_type_name,
    failure_message,
    named_event,
    recorded_command,
)
from wakeful.rpc_errors import error_of

MAX_CONCURRENT_READS = 16


class Break(Wire):
    """Where a history and the installed code disagree."""

    event_id: int
    event_type: str
    history: str
    """What the event records."""
    code: str
    """What the installed code does instead."""
    message: str
    """The SDK's own message."""


Wake = Literal["whole", "archived", "conversation"]
"""What a wake of a closed thread continues with: all of it, because it replays; all of it, because the thread archived
it as its last act; or the conversation alone, unless a worker answers whose code replays it."""


class Replayed(Wire):
    """The result of replaying one history."""

    source: str
    """The thread, or the file."""
    outcome: Literal["ok", "broken", "unread"]
    workflow_id: str = ""
    run_id: str = ""
    workflow_type: str = ""
    events: int = 0
    broke: Maybe[Break] = None
    unread: Maybe[str] = None
    """Why the history could not be read or replayed."""
    wake: Maybe[Wake] = None
    """For a thread that is closed: what a wake continues with."""


@dataclass(frozen=True)
class Source:
    """A history that can be read: the thread or the file that has it."""

    name: str
    read: Callable[[], Awaitable[WorkflowHistory]]


def file_source(path: Path) -> Source:
    """A file that `temporal workflow show -o json`, the web UI or `wakeful replay --download` has written."""
    return Source(str(path), lambda: asyncio.to_thread(_read_file, path))


def thread_source(temporal: Client, thread_id: str, *, run_id: str | None = None) -> Source:
    """The newest execution of a thread, or the one with this Temporal run id."""

    async def read() -> WorkflowHistory:
        try:
            return await temporal.get_workflow_handle(thread_id, run_id=run_id).fetch_history()
        except RPCError as error:
            raise error_of(error, thread_id) from error

    return Source(thread_id, read)


async def query_sources(temporal: Client, query: str, *, limit: int | None = None) -> AsyncIterator[Source]:
    """The executions of Wakeful's workflows that a list query finds.

    Raises:
        CallerError: Temporal does not understand the query.
    """
    types = ", ".join(f"'{name}'" for name in OURS)
    try:
        async for execution in temporal.list_workflows(f"({query}) AND WorkflowType IN ({types})", limit=limit):
            yield thread_source(temporal, execution.id, run_id=execution.run_id)
    except RPCError as error:
        raise CallerError(f"Temporal refused the query {query!r}: {error.message}") from error


def saving(source: Source, directory: Path) -> Source:
    """The same source, which also writes what it reads to a file in the directory."""

    async def read() -> WorkflowHistory:
        history = await source.read()
        await asyncio.to_thread(_save, history, directory)
        return history

    return Source(source.name, read)


class HistoryReplayer:
    """Reads many histories concurrently, and replays one at a time.

    Args:
        converter: the data converter of the namespace's workers.
        workflows: the workflow code, if not the installed one.
    """

    def __init__(
        self, converter: DataConverter, *, namespace: str = "replay", workflows: Sequence[type] = WORKFLOWS
    ) -> None:
        self._replayer = ReadOnlyReplayer(converter, namespace=namespace, workflows=workflows)
        self._payloads = Payloads(converter)

    async def all(self, sources: AsyncIterable[Source]) -> AsyncIterator[Replayed]:
        """The result of each, in their order."""
        replays: deque[asyncio.Task[Replayed]] = deque()
        try:
            async for source in sources:
                replays.append(asyncio.create_task(self.one(source)))
                if len(replays) == MAX_CONCURRENT_READS:
                    yield await replays.popleft()
            while replays:
                yield await replays.popleft()
        finally:
            for task in replays:
                task.cancel()

    async def one(self, source: Source) -> Replayed:
        """The result of one."""
        try:
            history = await source.read()
            started = _check(history)
        except WakefulError as error:
            return Replayed(source=source.name, outcome="unread", unread=str(error))
        replayed = Replayed(
            source=source.name,
            outcome="ok",
            workflow_id=history.workflow_id,
            run_id=history.run_id,
            workflow_type=started.workflow_type,
            events=len(history.events),
        )
        try:
            failure = await self._replayer.failure(history)
            if failure and (undecodable := await self._replayer.undecodable(history)):
                return replayed.model_copy(update={"outcome": "unread", "unread": str(undecodable)})
            broke = await self._break(history, str(failure)) if failure else None
        except TimeoutError as timeout:
            return replayed.model_copy(update={"outcome": "unread", "unread": str(timeout)})
        wake = await self._wake(history, started, is_broken=broke is not None)
        outcome = "broken" if broke else "ok"
        return replayed.model_copy(update={"outcome": outcome, "broke": broke, "wake": wake})

    async def _wake(self, history: WorkflowHistory, started: Started, *, is_broken: bool) -> Wake | None:
        last = moment_of(history.events[-1])
        if started.workflow_type != names.WORKFLOW or not isinstance(last, Closed) or last.continued_as:
            return None
        if not is_broken:
            return "whole"
        return "archived" if await self._is_archived(history) else "conversation"

    async def _is_archived(self, history: WorkflowHistory) -> bool:
        """Whether the thread archived everything as its last act."""
        last_acts = set[int]()
        for moment in moments_of(history.events):
            match moment:
                case ActivityScheduled(activity_type=names.ACTIVITY_ARCHIVE, event_id=id, input=input):
                    if (await self._payloads.value(input, ArchiveInput)).closes:
                        last_acts.add(id)
                case ActivityCompleted(scheduled=int(scheduled)) if scheduled in last_acts:
                    return True
                case _:
                    pass
        return False

    async def _break(self, history: WorkflowHistory, failure: str) -> Break:
        message = failure_message(failure)
        event = history.events[(named_event(message) or await self._first_failing(history)) - 1]
        return Break(
            event_id=event.event_id,
            event_type=event_type_name(event),
            history=recorded_command(event),
            code=code_behaviour(message, failure),
            message=message,
        )

    async def _first_failing(self, history: WorkflowHistory) -> int:
        """The first event with which the history does not replay, by bisection: not every SDK message names one."""
        replays, fails = 0, len(history.events)
        while fails - replays > 1:
            middle = (replays + fails) // 2
            if await self._replayer.failure(WorkflowHistory(history.workflow_id, history.events[:middle])):
                fails = middle
            else:
                replays = middle
        return fails


def _read_file(path: Path) -> WorkflowHistory:
    try:
        history = WorkflowHistory.from_json(path.stem, json.loads(path.read_text()))
    except OSError as error:
        raise CallerError(f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CallerError(f"is not a history: it is not JSON: {error}") from error
    except (ParseError, AttributeError, TypeError, KeyError, ValueError) as error:
        raise CallerError('is not a history: it must be {"events": […]}, as Temporal writes it') from error
    # The ids of children contain the thread's id: under another workflow id the run would not replay.
    started = _started(history)
    return WorkflowHistory((started.thread_id if started else "") or path.stem, history.events)


def _save(history: WorkflowHistory, directory: Path) -> None:
    name = f"{quote(history.workflow_id, safe='')[:150]}.{history.run_id}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(history.to_json())
    except OSError as error:
        raise CallerError(f"cannot be saved in {str(directory)!r}: {error.strerror}") from error


def _check(history: WorkflowHistory) -> Started:
    """Reject an incomplete history, with which the SDK would panic or wait forever."""
    if not history.events:
        raise CallerError("is not a history: there are no events")
    if (started := _started(history)) is None:
        raise CallerError("is not a whole history: its first event is not the start of a workflow")
    for number, event in enumerate(history.events, start=1):
        if event.event_id != number:
            raise CallerError(f"is not a whole history: event {number} is missing")
    if started.workflow_type not in OURS:
        raise CallerError(f"is a history of the workflow {started.workflow_type!r}; replayed are {', '.join(OURS)}")
    return started


def _started(history: WorkflowHistory) -> Started | None:
    first = moment_of(history.events[0]) if history.events else None
    return first if isinstance(first, Started) else None
