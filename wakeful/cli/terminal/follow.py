"""Follow a run until it ends: what `run`, `fork` and `watch` share."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

from wakeful.cli.terminal.descendant_decisions import DescendantDecisions
from wakeful.cli.terminal.event_printer import EventPrinter, ViewOptions, event_printer
from wakeful.cli.terminal.outage_notice import OutageNotice
from wakeful.cli.terminal.pending_lines import pending_lines
from wakeful.cli.terminal.result_lines import ending_text, result_lines
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.events import EventRecord, RunFinish
from wakeful.contract.runs import NaturalEnd, RunResult, Suspended

TICK_SECONDS = 1.0


async def follow(client: Client, thread_id: str, *, wait: bool, as_json: bool) -> RunResult | None:
    """Show a run until it ends, and return its result; without `wait`, return None as soon as the run suspends."""
    options = ViewOptions.default(as_json=as_json)
    printer = event_printer(options)
    records = watch_records(client, thread_id, options, printer)
    async with (
        DescendantDecisions(client, thread_id, printer.line) as decisions,
        contextlib.aclosing(records),
    ):
        async for record in records:
            printer.show(record)
            if record.path:
                continue
            decisions.on_event(record.event)
            if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
                for pending in () if as_json else pending_of(await client.status(thread_id)):
                    printer.lines(pending_lines(pending))
                if not wait:
                    printer.finish()
                    return None
        printer.finish()
        return await client.result(thread_id)


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
    """Print the result of a run that was followed; `last_line` is for a person.

    Raises:
        CallerError: the run did not end naturally.
    """
    if as_json:
        print(result.model_dump_json(), flush=True)
    else:
        if not ViewOptions.default(as_json=False).live:  # a live view has shown the answer
            print(result.response, flush=True)
        for line in [*result_lines(result), *([last_line] if last_line else [])]:
            print(line, file=sys.stderr)
    if not isinstance(result.termination, NaturalEnd):
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
