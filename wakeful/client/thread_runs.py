"""The runs of a thread, made of its events: also those of closed executions and of archived parts.

Events say how a run ended, but not what its sub-agents spent: the thread's status has that of the newest run.
"""

from contextlib import aclosing

from wakeful.client.answers import result_of
from wakeful.client.watching.reading import read_events
from wakeful.client.watching.watcher import WatchContext, Watcher
from wakeful.contract import names
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.errors import NoAnswer
from wakeful.contract.events import (
    ErrorEvent,
    EventRecord,
    MessagesRead,
    RunFinish,
    RunStart,
    StepStart,
)
from wakeful.contract.runs import Errored, RunResult, RunStatus, status_reason
from wakeful.contract.views import StatusView

FIRST_WINDOW = 1_000
"""How many of the newest events are read first, if only the newest runs are wanted."""

_AFTER_ALL = 2**31


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
            case _:
                pass

    def _newest(self, run_id: str) -> ThreadRun | None:
        return self.runs[-1] if self.runs and self.runs[-1].run_id == run_id else None

    def _on_start(self, start: RunStart, at: int) -> None:
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


async def read_runs(context: WatchContext, thread_id: str, *, limit: int | None = None) -> list[ThreadRun]:
    """The runs of a thread, the newest last; with a limit, only its newest events are read.

    Raises:
        ThreadNotFound: no workflow has this id.
    """
    last = await _last_event(context, thread_id) if limit is not None else 0
    window = FIRST_WINDOW
    while True:
        start = max(0, last - window) if limit is not None else 0
        runs = await _read_after(context, thread_id, start)
        if limit is None or start == 0 or len(runs) >= limit:
            break
        window *= 4
    return await _with_status(context, thread_id, runs if limit is None else runs[max(0, len(runs) - limit) :])


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
