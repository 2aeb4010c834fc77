"""Follow a run until it ends: what `run`, `fork` and `watch` share.

`run` and `fork` show events on standard error, so that standard output has the answer alone.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Self

from wakeful.cli.terminal.event_printer import EventPrinter, ViewOptions, event_printer
from wakeful.cli.terminal.outage_notice import OutageNotice
from wakeful.cli.terminal.pending_lines import descendant_lines, pending_lines
from wakeful.cli.terminal.result_lines import ending_text, result_lines
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.events import (
    AgentEvent,
    ErrorEvent,
    EventRecord,
    MessageReceived,
    RunFinish,
    TaskChanged,
    ToolCallReady,
)
from wakeful.contract.runs import BehaviorRequested, NaturalEnd, RunResult, Suspended

TICK_SECONDS = 1.0
POLL_SECONDS = 2.0


async def follow(client: Client, thread_id: str, *, as_json: bool, until_suspended: bool = False) -> RunResult | None:
    """Show a run until it ends, and return its result; with `until_suspended`, None as soon as the run suspends."""
    options = ViewOptions.default(as_json=as_json)
    printer = event_printer(options, sys.stderr)
    records = watch_records(client, thread_id, options, printer)
    async with (
        DescendantDecisions(client, thread_id, printer.line) as decisions,
        contextlib.aclosing(records),
    ):
        async for record in records:
            if as_json or not _is_obvious(record):
                printer.show(record)
            if record.path:
                continue
            decisions.on_event(record.event)
            if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
                for pending in () if as_json else pending_of(await client.status(thread_id)):
                    printer.lines(pending_lines(pending))
                if until_suspended:
                    printer.finish()
                    return None
        printer.finish()
        return await client.result(thread_id)


def _is_obvious(record: EventRecord) -> bool:
    """The person who started the run has just written its message; waiting for its result raises the error."""
    return isinstance(record.event, MessageReceived | ErrorEvent) and not record.path


async def watch_records(
    client: Client,
    thread_id: str,
    options: ViewOptions,
    printer: EventPrinter,
    *,
    after: int | Mapping[str, int] = 0,
) -> AsyncGenerator[EventRecord, None]:
    """The records of a thread. Meanwhile, the printer redraws its times, and warns when no worker answers."""
    async with OutageNotice(client, thread_id, printer.warn) as notice, _ticking(printer):
        async for record in watch_thread(client, thread_id, options, after=after, on_trouble=notice.on_trouble):
            notice.on_record()
            yield record


def watch_thread(
    client: Client,
    thread_id: str,
    options: ViewOptions,
    *,
    after: int | Mapping[str, int],
    on_trouble: Callable[[WakefulError], None],
) -> AsyncIterator[EventRecord]:
    """Watch as much of a thread as the options show."""
    return client.watch(
        thread_id, after=after, live=options.live, descendants=options.descendants, on_trouble=on_trouble
    )


def print_result(result: RunResult, *, as_json: bool, last_line: str | None = None) -> None:
    """Print the answer of a run that was followed on standard output; `last_line` is for a person.

    At a terminal that shows both streams, the events have just shown it.

    Raises:
        CallerError: the run did not complete.
    """
    if as_json:
        print(result.model_dump_json(), flush=True)
    else:
        if result.response and not (sys.stdout.isatty() and sys.stderr.isatty()):
            print(result.response, flush=True)
        for line in [*result_lines(result), *([last_line] if last_line else [])]:
            print(line, file=sys.stderr)
    if not isinstance(result.termination, NaturalEnd | BehaviorRequested):
        raise CallerError(ending_text(result))


@contextlib.asynccontextmanager
async def _ticking(printer: EventPrinter) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            printer.tick()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()


class DescendantDecisions:
    """Polls the inbox of the tree: sub-agents are threads of their own, so the run has no event for their decisions."""

    def __init__(self, client: Client, thread_id: str, print_line: Callable[[str], None]) -> None:
        self._client = client
        self._thread_id = thread_id
        self._print_line = print_line
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    def on_event(self, event: AgentEvent) -> None:
        """Start to poll when the run starts its first sub-agent or task."""
        delegates = isinstance(event, ToolCallReady) and event.name.startswith(names.TOOL_DELEGATE)
        if self._task is None and (delegates or isinstance(event, TaskChanged)):
            self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        printed: set[tuple[str, int | None]] = set()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(WakefulError):  # the watcher of the run reports it
                async for pending in self._client.inbox(thread_id=self._thread_id):
                    key = pending.ticket, pending.since  # a call may suspend again
                    if pending.thread_id != self._thread_id and pending.unknown is None and key not in printed:
                        printed.add(key)
                        for line in descendant_lines(pending):
                            self._print_line(line)
