"""The runs of a thread, made of its events: also those of closed executions and of archived parts.

Events say how a run ended, but not what its sub-agents spent: the thread's status has that of the newest run.
"""

from collections.abc import Callable
from contextlib import aclosing

from pydantic import JsonValue

from wakeful.client.answers import result_of
from wakeful.client.watching.reading import read_events
from wakeful.client.watching.watcher import WatchContext, Watcher
from wakeful.contract import names
from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.errors import NoAnswer
from wakeful.contract.events import (
    ErrorEvent,
    EventRecord,
    MessagesRead,
    RunFinish,
    RunStart,
    StepStart,
    ToolCallDecided,
    ToolCallDone,
    ToolCallReady,
)
from wakeful.contract.runs import Errored, RunIdentity, RunResult, RunStatus, status_reason
from wakeful.contract.views import StatusView

FIRST_WINDOW = 1_000
"""How many of the newest events are read first, if only the newest runs are wanted."""

_AFTER_ALL = 2**31


class DecisionRecord(Wire):
    """A decision about a tool call, with what it was about."""

    thread_id: str
    run_id: Few[str] = ""
    agent_id: Few[str] = ""
    tenant: Maybe[str] = None
    user: Maybe[str] = None
    """For whom the run acts; `decision.actor` is who decided."""
    call_id: Few[str] = ""
    tool_name: Few[str] = ""
    suspension_id: Maybe[str] = None
    arguments: Maybe[JsonValue] = None
    """The arguments of the call that was decided; `decision.arguments` are those that replaced them."""
    question: Maybe[str] = None
    """What was asked, if the tool, a gate or a rule asked something."""
    decision: Maybe[AppliedDecision] = None
    unknown: Maybe[str] = None
    """Why the decisions of the thread cannot be read; then there is no decision here."""


class ThreadRun(Wire):
    """One run of a thread."""

    run_id: str
    agent_id: str
    user: Maybe[str] = None
    """For whom it acts."""
    status: RunStatus
    message_ids: Few[tuple[str, ...]] = ()
    """The messages that it has read: those that began it, and those that steered it."""
    steps: int = 0
    started_at: int
    """Milliseconds since 1970, as is `ended_at`."""
    ended_at: Maybe[int] = None
    rolled_back: Few[bool] = False
    """A message rolled it back: the conversation does not have it."""
    decisions: Few[tuple[DecisionRecord, ...]] = ()
    """Who decided about its tool calls, the oldest first."""
    result: Maybe[RunResult] = None
    """How it ended; absent while it is under way. Only of the newest run, it has `spent` and `receipt`."""


class RunsFold:
    """The runs that the events of a thread tell of, the oldest first. Pure.

    Args:
        is_from_start: the first event is the thread's first; else the run that it belongs to is left out.
    """

    def __init__(self, thread_id: str, *, is_from_start: bool = True) -> None:
        self._thread_id = thread_id
        self.runs: list[ThreadRun] = []
        self._is_from_start = is_from_start
        self._identity: RunIdentity | None = None
        self._calls: dict[str, DecisionRecord] = {}
        """The calls of the current step, as a person is asked about them."""

    def on_record(self, record: EventRecord) -> None:
        """Take the next event of the thread."""
        match record.event:
            case RunStart() as start:
                self._on_start(start, record.at)
            case RunFinish() as finish if (run := self._newest(finish.run_id)) is not None:
                self._on_finish(run, finish, record.at)
            case ErrorEvent(message=message) if self.runs and self.runs[-1].result is None:
                self._on_error(self.runs[-1], message, record.at)
            case MessagesRead(message_ids=ids) if (run := self._newest(record.run_id)) is not None:
                self._change(run, message_ids=(*run.message_ids, *ids))
            case StepStart() if (run := self._newest(record.run_id)) is not None:
                self._change(run, steps=run.steps + 1)
                self._calls.clear()
            case ToolCallReady(id=id, name=name, arguments=arguments):
                self._calls[id] = self._about(record, id, name, arguments)
            case ToolCallDone(id=id, result=result) if (ticket := result.suspension) is not None:
                asked = self._about(record, id, result.tool_name, ticket.pending.arguments)
                self._calls[id] = asked.model_copy(update={"question": ticket.suspension.message})
            case ToolCallDecided() as decided if (run := self._newest(record.run_id)) is not None:
                self._change(run, decisions=(*run.decisions, self._decided(record, decided)))
            case _:
                pass

    def _about(self, record: EventRecord, call_id: str, tool_name: str, arguments: JsonValue) -> DecisionRecord:
        identity = self._identity
        return DecisionRecord(
            thread_id=self._thread_id,
            run_id=record.run_id,
            agent_id=record.agent_id,
            tenant=identity.tenant if identity is not None else None,
            user=identity.user if identity is not None else None,
            call_id=call_id,
            tool_name=tool_name,
            arguments=arguments,
        )

    def _decided(self, record: EventRecord, decided: ToolCallDecided) -> DecisionRecord:
        id, applied = decided.call_id, decided.decision
        known = self._calls.get(id) or self._about(record, id, decided.tool_name, None)
        self._calls[id] = known if applied.arguments is None else _with_arguments(known, applied.arguments)
        return known.model_copy(update={"suspension_id": decided.suspension_id, "decision": applied})

    def _newest(self, run_id: str) -> ThreadRun | None:
        return self.runs[-1] if self.runs and self.runs[-1].run_id == run_id else None

    def _on_start(self, start: RunStart, at: int) -> None:
        self._identity = start.identity
        if (run := self._newest(start.run_id)) is not None:  # it continues after a pause
            self._change(run, status=RunStatus.RUNNING)
        elif start.message_ids or self._is_from_start:  # else it began before the first event, and continues here
            identity = start.identity
            self.runs.append(
                ThreadRun(
                    run_id=start.run_id,
                    agent_id=identity.agent_id if identity is not None else "",
                    user=identity.user if identity is not None else None,
                    status=RunStatus.RUNNING,
                    message_ids=start.message_ids,
                    started_at=at,
                )
            )

    def _on_finish(self, run: ThreadRun, finish: RunFinish, at: int) -> None:
        if finish.result is not None and finish.result.status is RunStatus.WAITING:
            self._change(run, status=RunStatus.WAITING)
        else:
            result = result_of(finish, steps=run.steps)
            self._change(run, status=RunStatus.DONE, ended_at=at, rolled_back=finish.rolled_back, result=result)

    def _on_error(self, run: ThreadRun, message: str, at: int) -> None:
        ended = Errored(value=message)
        result = RunResult(
            thread_id=self._thread_id,
            run_id=run.run_id,
            agent_id=run.agent_id,
            status_reason=status_reason(ended),
            termination=ended,
            steps=run.steps,
        )
        self._change(run, status=RunStatus.DONE, ended_at=at, result=result)

    def _change(self, run: ThreadRun, **changes: object) -> None:
        self.runs[-1] = run.model_copy(update=changes)


def _with_arguments(record: DecisionRecord, arguments: JsonValue) -> DecisionRecord:
    return record.model_copy(update={"arguments": arguments})


async def read_runs(context: WatchContext, thread_id: str, *, limit: int | None = None) -> list[ThreadRun]:
    """The runs of a thread, the newest last and with its whole result; with a limit, only its newest events are read.

    Raises:
        ThreadNotFound: no workflow has this id.
    """
    if limit is None:
        return await _with_status(context, thread_id, await _read_after(context, thread_id, 0))
    runs = await _read_back(context, thread_id, lambda runs: len(runs) >= limit)
    return await _with_status(context, thread_id, runs[max(0, len(runs) - limit) :])


async def read_runs_since(context: WatchContext, thread_id: str, *, since: int | None) -> list[ThreadRun]:
    """The runs of a thread that were under way at this time, in milliseconds since 1970, or began later.

    Raises:
        ThreadNotFound: no workflow has this id.
    """
    if since is None:
        return await _read_after(context, thread_id, 0)
    return await _read_back(context, thread_id, lambda runs: bool(runs) and runs[0].started_at < since)


async def _read_back(
    context: WatchContext, thread_id: str, is_enough: Callable[[list[ThreadRun]], bool]
) -> list[ThreadRun]:
    """The newest runs: as many as are enough, or all."""
    last, window = await _last_event(context, thread_id), FIRST_WINDOW
    while True:
        start = max(0, last - window)
        runs = await _read_after(context, thread_id, start)
        if start == 0 or is_enough(runs):
            return runs
        window *= 4


async def _last_event(context: WatchContext, thread_id: str) -> int:
    try:
        page = await read_events(context.reader, thread_id, after=_AFTER_ALL, run_id=None)
    except NoAnswer:  # no worker has started it
        return 0
    return 0 if page.restoring else page.last


async def _read_after(context: WatchContext, thread_id: str, start: int) -> list[ThreadRun]:
    fold = RunsFold(thread_id, is_from_start=start == 0)
    watcher = Watcher(context, thread_id, after=start, live=False, stop_at_newest=True)
    async with aclosing(watcher.records()) as records:
        async for record in records:
            fold.on_record(record)
    return fold.runs


async def _with_status(context: WatchContext, thread_id: str, runs: list[ThreadRun]) -> list[ThreadRun]:
    """The runs, with the whole result of the newest."""
    if not runs or runs[-1].result is None:
        return runs
    try:
        result = (await context.reader.query(thread_id, names.QUERY_STATUS, StatusView)).result
    except NoAnswer:
        return runs
    if result is None or result.run_id != runs[-1].run_id:
        return runs
    return [*runs[:-1], runs[-1].model_copy(update={"result": result})]
