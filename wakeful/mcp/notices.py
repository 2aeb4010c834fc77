"""What a client sees of a run while it waits: progress notifications, and log messages of the logger `agent/<id>`."""

import contextlib
import logging
import warnings
from collections import OrderedDict
from typing import Any, get_args

import anyio
from mcp.server import ServerRequestContext
from mcp_types import LoggingLevel
from pydantic import JsonValue

from wakeful.contract import events as e
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.runs import Suspended
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tool_progress import PROGRESS
from wakeful.mcp.in_flight import session_of

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 15.0
"""How often a client hears of a run in which nothing happens: many give up after a minute of silence."""

MOST_SESSIONS = 10_000
"""Sessions whose log level is remembered."""

LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The least severe first."""


class LogLevels:
    """The least severe level of the log messages that each session wants."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, LoggingLevel] = OrderedDict()

    def set(self, ctx: ServerRequestContext[None, Any], level: LoggingLevel) -> None:
        self._levels[session_of(ctx)] = level
        if len(self._levels) > MOST_SESSIONS:
            self._levels.popitem(last=False)

    def wants(self, ctx: ServerRequestContext[None, Any], level: LoggingLevel) -> bool:
        least = self._levels.get(session_of(ctx), "info")
        return LEVELS.index(level) >= LEVELS.index(least)


class Notices:
    """Tells the client of one request what happens in its run."""

    def __init__(self, ctx: ServerRequestContext[None, Any], levels: LogLevels, thread_id: str, agent_id: str) -> None:
        self._ctx = ctx
        self._levels = levels
        self._thread_id = thread_id
        self._agent_id = agent_id
        self._number = 0
        self._last = f"thread {thread_id}"

    async def opened(self) -> None:
        """Tell the thread's id at once: with it, a client that is cut off can ask for the result."""
        await self._tell("info", self._last, "run_opened")

    async def on_record(self, record: e.EventRecord) -> None:
        if (text := progress_text(record.event)) is None:
            return
        agent = f"{record.agent_id}: " if record.path else ""
        level: LoggingLevel = "debug" if record.provisional else "info"
        await self._tell(level, f"{agent}{text}", record.event.event_type)

    async def on_trouble(self, error: WakefulError) -> None:
        await self._tell("warning", str(error), "trouble")

    async def keep_alive(self) -> None:
        """Repeat the newest progress, so that the client does not give up while the run is busy or waits."""
        while True:
            await anyio.sleep(KEEP_ALIVE_SECONDS)
            await self._progress()

    async def _tell(self, level: LoggingLevel, text: str, kind: str) -> None:
        self._last = text
        await self._progress()
        if self._levels.wants(self._ctx, level):
            data: dict[str, JsonValue] = {"thread_id": self._thread_id, "event": kind, "text": text}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the newest protocol deprecates what its clients still ask for
                sending = self._ctx.session.send_log_message(
                    level, data, logger=f"agent/{self._agent_id}", related_request_id=self._ctx.request_id
                )
            with _ignoring_loss():
                await sending

    async def _progress(self) -> None:
        self._number += 1
        with _ignoring_loss():
            await self._ctx.session.report_progress(self._number, message=self._last)


def progress_text(event: e.AgentEvent) -> str | None:
    """What an event means for somebody who waits, in a few words; None for those that say nothing new."""
    match event:
        case e.StepStart():
            return "thinking"
        case e.ToolCallReady(name=name):
            return f"calls {name}"
        case e.ToolCallDone(result=result, outcome=e.ToolCallOutcome.SUSPENDED):
            return f"{result.tool_name} waits for a decision"
        case e.ToolCallDone(result=result, outcome=outcome):
            return f"{result.tool_name} {outcome.value}"
        case e.ToolCallResumed(target_id=call_id, outcome=outcome):
            return f"call {call_id} {outcome.value}"
        case e.ToolCallCancel(name=name):
            return f"{name} was cancelled"
        case e.ActivitySnapshot(activity_type=kind, content=dict() as content) if kind == PROGRESS:
            return _tool_progress(content)
        case e.Handoff(to_agent=agent):
            return f"handed off to {agent}"
        case e.TaskChanged(task=task):
            is_running = task.status is TaskStatus.RUNNING
            return f"{task.name or task.task_id} {'runs in the background' if is_running else task.status.value}"
        case e.RunFinish(termination=Suspended(), result=e.FinishSummary(status_reason=names.AWAITING_TASKS)):
            return "waits for background tasks"
        case _:
            return None


def _tool_progress(content: dict[str, JsonValue]) -> str | None:
    if content.get("status") != "running":
        return None
    message, progress = content.get("message"), content.get("progress")
    share = f" ({progress:.0%})" if isinstance(progress, int | float) else ""
    return f"{content.get('tool_name')}: {message or 'running'}{share}"


@contextlib.contextmanager
def _ignoring_loss() -> Any:
    """A client that has gone hears nothing; its run continues."""
    try:
        yield
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        logger.debug("a notification was dropped: the connection is closed")
