"""Replay histories on the workflow code that is installed, and name the event at which one breaks.

The gate before a deploy: no activity runs, and nothing is written to any history. Composition, as the worker is: it
needs the workflows. Which histories, and how it reads in a terminal, is the command's business.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from google.protobuf.json_format import ParseError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Replayer

from wakeful.contract import names
from wakeful.contract.base import Maybe, Wire
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.rpc_errors import error_of
from wakeful_workflows import AgentRun, ToolTask

OURS = (names.WORKFLOW, names.WORKFLOW_TOOL_TASK)
WORKFLOWS: Sequence[type] = (AgentRun, ToolTask)

AT_ONCE = 16
"""Histories that are read at the same time."""

PATIENCE_SECONDS = 300.0
"""How long one history may take; workflow code that hangs is noticed by the SDK within seconds."""


class Break(Wire):
    """Where a history and the code part."""

    event_id: int
    event_type: str
    history: str
    """What the event records."""
    code: str
    """What the installed code does instead."""
    message: str
    """The SDK's own words."""


class Replayed(Wire):
    """What came of one history."""

    source: str
    """The thread, or the file."""
    outcome: Literal["ok", "broken", "unread"]
    workflow_id: str = ""
    run_id: str = ""
    workflow_type: str = ""
    events: int = 0
    broke: Maybe[Break] = None
    unread: Maybe[str] = None
    """Why there was nothing that could be replayed."""


@dataclass(frozen=True)
class Source:
    """Where a history is, and how it is read."""

    name: str
    read: Callable[[], Awaitable[WorkflowHistory]]


def of_file(path: Path) -> Source:
    """What `temporal workflow show -o json`, the web UI or `wakeful replay --download` have written."""
    return Source(str(path), lambda: asyncio.to_thread(_parsed, path))


def of_thread(temporal: Client, thread_id: str, *, run_id: str | None = None) -> Source:
    """The newest execution of a thread, or the one that is named."""

    async def read() -> WorkflowHistory:
        try:
            return await temporal.get_workflow_handle(thread_id, run_id=run_id).fetch_history()
        except RPCError as error:
            raise error_of(error, thread_id) from error

    return Source(thread_id, read)


async def found(temporal: Client, query: str, *, limit: int | None = None) -> AsyncIterator[Source]:
    """Executions of ours that a list query finds.

    Raises:
        CallerError: Temporal does not understand the query.
    """
    types = ", ".join(f"'{name}'" for name in OURS)
    try:
        async for execution in temporal.list_workflows(f"({query}) AND WorkflowType IN ({types})", limit=limit):
            yield of_thread(temporal, execution.id, run_id=execution.run_id)
    except RPCError as error:
        raise CallerError(f"Temporal refused the query {query!r}: {error.message}") from error


def kept(source: Source, directory: Path) -> Source:
    """The same, which leaves a file in the directory when it is read."""

    async def read() -> WorkflowHistory:
        history = await source.read()
        await asyncio.to_thread(_keep, history, directory)
        return history

    return Source(source.name, read)


class Replaying:
    """Histories are read many at once and replayed one after another, which takes all of one processor.

    Args:
        converter: the one of the namespace's workers.
        workflows: other code than the installed one.
    """

    def __init__(
        self, converter: DataConverter, *, namespace: str = "replay", workflows: Sequence[type] = WORKFLOWS
    ) -> None:
        self._turn = asyncio.Lock()
        self._replayer = Replayer(
            workflows=workflows,
            data_converter=converter,
            namespace=namespace,
            # Of our own, since each call would make one otherwise; and without the SDK's log, which goes to stdout.
            workflow_task_executor=ThreadPoolExecutor(thread_name_prefix="wakeful-replay"),
            runtime=Runtime(telemetry=TelemetryConfig(logging=None)),
        )

    async def all(self, sources: AsyncIterable[Source]) -> AsyncIterator[Replayed]:
        """What came of each, in their order."""
        under_way: deque[asyncio.Task[Replayed]] = deque()
        try:
            async for source in sources:
                under_way.append(asyncio.create_task(self.one(source)))
                if len(under_way) == AT_ONCE:
                    yield await under_way.popleft()
            while under_way:
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()

    async def one(self, source: Source) -> Replayed:
        """What came of one."""
        try:
            history = await source.read()
            _check(history)
        except WakefulError as error:
            return Replayed(source=source.name, outcome="unread", unread=str(error))
        replayed = Replayed(
            source=source.name,
            outcome="ok",
            workflow_id=history.workflow_id,
            run_id=history.run_id,
            workflow_type=_type(history),
            events=len(history.events),
        )
        try:
            async with self._turn:
                failure = await self._failure(history, len(history.events))
                broke = await self._break(history, str(failure)) if failure else None
        except TimeoutError:
            late = f"the replay did not end within {PATIENCE_SECONDS:.0f} s"
            return replayed.model_copy(update={"outcome": "unread", "unread": late})
        return replayed.model_copy(update={"outcome": "broken", "broke": broke}) if broke else replayed

    async def _failure(self, history: WorkflowHistory, length: int) -> Exception | None:
        """How the first events of a history fail to replay, if they do."""
        part = WorkflowHistory(history.workflow_id, history.events[:length])
        if not _tasks(part):
            return None  # nothing has been decided yet; the SDK would wait for ever
        replay = asyncio.create_task(self._replayer.replay_workflow(part, raise_on_replay_failure=False))
        # Left behind and not cancelled: a replay that hangs would hang in its cancellation, too.
        done, _ = await asyncio.wait({replay}, timeout=PATIENCE_SECONDS)
        if not done:
            raise TimeoutError
        return replay.result().replay_failure

    async def _break(self, history: WorkflowHistory, failure: str) -> Break:
        message = _message(failure)
        told = _EVENT.search(message)
        event = history.events[(int(told[1]) if told else await self._first_unfit(history)) - 1]
        return Break(
            event_id=event.event_id,
            event_type=_spoken(event.event_type),
            history=_recorded(event),
            code=_done_instead(message, failure),
            message=message,
        )

    async def _first_unfit(self, history: WorkflowHistory) -> int:
        """The event without which everything before it replays: some of the SDK's messages name none."""
        fits, fails = 0, len(history.events)
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if await self._failure(history, middle):
                fails = middle
            else:
                fits = middle
        return fails


def _parsed(path: Path) -> WorkflowHistory:
    try:
        history = WorkflowHistory.from_json(path.stem, json.loads(path.read_text()))
    except OSError as error:
        raise CallerError(f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CallerError(f"is not a history: it is not JSON: {error}") from error
    except (ParseError, AttributeError, TypeError, KeyError, ValueError) as error:
        raise CallerError('is not a history: it must be {"events": […]}, as Temporal writes it') from error
    # Ids of children are made from the thread's own: under another name the run would not replay.
    named = history.events[0].workflow_execution_started_event_attributes.workflow_id if history.events else ""
    return WorkflowHistory(named or path.stem, history.events)


def _keep(history: WorkflowHistory, directory: Path) -> None:
    name = f"{quote(history.workflow_id, safe='')[:150]}.{history.run_id}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(history.to_json())
    except OSError as error:
        raise CallerError(f"cannot be kept in {str(directory)!r}: {error.strerror}") from error


def _check(history: WorkflowHistory) -> None:
    """What is not whole would break the SDK, or make it wait for ever."""
    if not history.events:
        raise CallerError("is not a history: there are no events")
    if not history.events[0].HasField("workflow_execution_started_event_attributes"):
        raise CallerError("is not a whole history: its first event is not the start of a workflow")
    for number, event in enumerate(history.events, start=1):
        if event.event_id != number:
            raise CallerError(f"is not a whole history: event {number} is missing")
    if _type(history) not in OURS:
        raise CallerError(f"is a history of the workflow {_type(history)!r}; replayed are {' and '.join(OURS)}")


def _type(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.workflow_type.name


def _tasks(history: WorkflowHistory) -> bool:
    return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED for event in history.events)


# The SDK's failure is the debug form of a Rust value: Failure { message: "…", …, r#type: "ValueError", … }.
_MESSAGE = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_RAISED = re.compile(r'r#type: "([^"]+)"')
_LINE = re.compile(r'File \\"([^"\\]+)\\", line (\d+)')
_EVENT = re.compile(r"HistoryEvent\(id: (\d+)")
_OTHER = re.compile(r"(?P<what>[A-Za-z ]+?) of [a-z ]+ '.*' does not match .* '(?P<now>.*)'$")
_MACHINE = re.compile(r"(?P<machine>[A-Za-z ]+?) ?[Mm]achine does not handle")

_ASKS = {
    "Activity": "schedules an activity",
    "Timer": "starts a timer",
    "Child workflow": "starts a child workflow",
    "Signal external WF": "signals another workflow",
    "Cancel external WF": "cancels another workflow",
    "UpsertWorkflowSearchAttributes": "sets search attributes",
    "ModifyWorkflowProperties": "changes the memo",
    "Continue as new workflow": "continues as new",
    "Complete workflow": "ends the run",
    "Cancel workflow": "ends the run as cancelled",
    "Fail workflow": "fails the run",
}


def _message(failure: str) -> str:
    found = _MESSAGE.search(failure)
    return (
        re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), found[1])
        if found
        else failure
    )


def _done_instead(message: str, failure: str) -> str:
    if raised := _RAISED.search(failure):
        lines = _LINE.findall(failure)
        return f"raises {raised[1]}: {message}" + (f" ({lines[-1][0]}, line {lines[-1][1]})" if lines else "")
    if machine := _MACHINE.search(message.rpartition("error: ")[2]):
        return _ASKS.get(machine["machine"], machine["machine"])
    if other := _OTHER.search(message.rpartition("error: ")[2]):
        return f"{other['what'].lower()} {other['now']!r}"
    return "nothing of the kind" if _EVENT.search(message) else message


def _spoken(kind: EventType.ValueType) -> str:
    return EventType.Name(kind).removeprefix("EVENT_TYPE_").title().replace("_", "")


def _recorded(event: HistoryEvent) -> str:
    """What an event records, as far as a workflow has asked for it."""
    match event.WhichOneof("attributes"):
        case "activity_task_scheduled_event_attributes":
            activity = event.activity_task_scheduled_event_attributes
            return f"activity {activity.activity_type.name!r}, id {activity.activity_id!r}"
        case "timer_started_event_attributes":
            timer = event.timer_started_event_attributes
            return f"timer {timer.timer_id!r} of {timer.start_to_fire_timeout.ToTimedelta()}"
        case "start_child_workflow_execution_initiated_event_attributes":
            child = event.start_child_workflow_execution_initiated_event_attributes
            return f"child workflow {child.workflow_type.name!r}, id {child.workflow_id!r}"
        case "signal_external_workflow_execution_initiated_event_attributes":
            signal = event.signal_external_workflow_execution_initiated_event_attributes
            return f"signal {signal.signal_name!r} to {signal.workflow_execution.workflow_id!r}"
        case "request_cancel_external_workflow_execution_initiated_event_attributes":
            asked = event.request_cancel_external_workflow_execution_initiated_event_attributes
            return f"a cancel of {asked.workflow_execution.workflow_id!r}"
        case "marker_recorded_event_attributes":
            return f"marker {event.marker_recorded_event_attributes.marker_name!r}"
        case "upsert_workflow_search_attributes_event_attributes":
            upserted = event.upsert_workflow_search_attributes_event_attributes
            return f"search attributes {', '.join(sorted(upserted.search_attributes.indexed_fields))}"
        case "workflow_task_completed_event_attributes":
            return "a workflow task that was done"
        case _:
            return _spoken(event.event_type)
