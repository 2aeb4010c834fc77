"""Follow a run until it ends: what `run`, `watch` and `fork` have in common.

On a terminal it is told while it happens, by `telling.py`; otherwise a line an event, or an event as JSON. A run
without a worker is silent: whoever waits for it is told so, and goes on waiting.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from wakeful.cli.terminal.live_view import Telling
from wakeful.cli.terminal.render import event_lines, pending_lines
from wakeful.cli.terminal.screen import Scroll, can_move
from wakeful.cli.terminal.subagent_lines import path_words
from wakeful.cli.terminal.task_lines import below_lines
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.client.wake import describe
from wakeful.contract import names
from wakeful.contract.errors import NoAnswer, WakefulError
from wakeful.contract.events import AgentEvent, EventRecord, RunFinish, TaskChanged, ToolCallReady
from wakeful.contract.runs import RunResult, Suspended

LOOK_BELOW_SECONDS = 2.0
QUIET_SECONDS = 4.0
"""How long nothing may come before somebody asks whether anybody works."""
QUIETEST_SECONDS = 60.0
TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Showing:
    """What is shown of a run, and how."""

    live: bool
    below: bool = False
    folds: bool = False
    """Sub-agents are a line each, on a terminal."""
    as_json: bool = False

    @classmethod
    def usual(cls, *, as_json: bool) -> "Showing":
        """Live for a person; whole events for whatever reads them otherwise."""
        live = not as_json and can_move(sys.stdout)
        return cls(live=live, below=live, folds=True, as_json=as_json)


async def follow(client: Client, thread_id: str, *, wait: bool, as_json: bool) -> RunResult | None:
    """Show a run until its end, and give its result; nothing if it suspends and nobody wants to `wait`."""
    showing = Showing.usual(as_json=as_json)
    teller = teller_of(showing)
    watched = records(client, thread_id, showing, teller)
    async with Below(client, thread_id, teller.line) as below, contextlib.aclosing(watched):
        async for record in watched:
            teller.tell(record)
            if record.path:
                continue
            below.notice(record.event)
            if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
                for pending in () if as_json else pending_of(await client.status(thread_id)):
                    teller.lines(pending_lines(pending))
                if not wait:
                    teller.over()
                    return None
        teller.over()
        return await client.result(thread_id)


async def records(
    client: Client,
    thread_id: str,
    showing: Showing,
    teller: "Teller",
    *,
    after: int | Mapping[str, int] = 0,
) -> AsyncGenerator[EventRecord, None]:
    """What happens on the thread; meanwhile times go on, and who waits in vain is told so."""
    async with Quiet(client, thread_id, teller.trouble) as quiet, ticking(teller):
        watched = client.watch(
            thread_id, after=after, live=showing.live, descendants=showing.below, on_trouble=quiet.troubled
        )
        async for record in watched:
            quiet.heard()
            yield record


class Teller:
    """Where records go: a line an event."""

    def tell(self, record: EventRecord) -> None:
        if record.provisional:
            return
        indent = "  " * len(record.path)
        lines = event_lines(record.event)
        if lines and record.path:
            lines = [f"{path_words(record.path)}: {lines[0]}", *lines[1:]]
        self.lines([f"{indent}{line}" for line in lines])

    def line(self, line: str) -> None:
        print(line, flush=True)

    def lines(self, lines: list[str]) -> None:
        for line in lines:
            self.line(line)

    def trouble(self, words: str) -> None:
        print(f"! {words}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Times go on."""

    def over(self) -> None:
        """Nothing follows."""


class JsonTeller(Teller):
    """An event a line, for programs; nothing else is for them."""

    def tell(self, record: EventRecord) -> None:
        print(record.model_dump_json(), flush=True)

    def line(self, line: str) -> None:
        pass


class LiveTeller(Teller):
    """A terminal on which answers are written as they come."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    def tell(self, record: EventRecord) -> None:
        self._telling.tell(record)

    def line(self, line: str) -> None:
        self._telling.line(line)

    def trouble(self, words: str) -> None:
        self._telling.line(f"! {words}")

    def tick(self) -> None:
        self._telling.tick()

    def over(self) -> None:
        self._telling.over()


def teller_of(showing: Showing) -> Teller:
    if showing.as_json:
        return JsonTeller()
    if showing.live:
        return LiveTeller(Telling(Scroll.of(sys.stdout), folds=showing.folds))
    return Teller()


@contextlib.asynccontextmanager
async def ticking(teller: Teller) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            teller.tick()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()


class Quiet:
    """Tells once that nobody answers, and again only after something was heard.

    A thread that no worker has seen yet has no event, and a watcher waits for it in silence: so it is asked.
    """

    def __init__(self, client: Client, thread_id: str, tell: Callable[[str], None]) -> None:
        self._client = client
        self._thread_id = thread_id
        self._tell = tell
        self._heard = asyncio.Event()
        self._is_told = False
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.cancel()

    def heard(self) -> None:
        self._is_told = False
        self._heard.set()

    def troubled(self, error: WakefulError) -> None:
        """The watcher has noticed by itself that something is wrong."""
        if not self._is_told:
            self._is_told = True
            self._tell(f"{error}; waiting")

    async def _listen(self) -> None:
        quiet = QUIET_SECONDS
        while True:
            self._heard.clear()
            try:
                await asyncio.wait_for(self._heard.wait(), quiet)
                quiet = QUIET_SECONDS
            except TimeoutError:
                quiet = min(quiet * 2, QUIETEST_SECONDS)
                if not self._is_told:
                    await self._ask()

    async def _ask(self) -> None:
        try:
            await self._client.status(self._thread_id, within=timedelta(seconds=QUIET_SECONDS))
        except NoAnswer:
            with contextlib.suppress(WakefulError):
                described = await describe(self._client.temporal, self._thread_id)
                queue = described.task_queue if described else self._client.task_queue
                self.troubled(NoAnswer(f"no worker answers on task queue {queue!r}"))
        except WakefulError:
            pass  # the thread is watched, and who watches says what is wrong


class Below:
    """Tells what sub-agents wait for: they are threads of their own, so a watched run has no event of it."""

    def __init__(self, client: Client, thread_id: str, tell: Callable[[str], None]) -> None:
        self._client = client
        self._thread_id = thread_id
        self._tell_line = tell
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._telling is not None:
            self._telling.cancel()

    def notice(self, event: AgentEvent) -> None:
        """Begin to look below as soon as something may run there."""
        delegates = isinstance(event, ToolCallReady) and event.name.startswith(names.TOOL_DELEGATE)
        if self._telling is None and (delegates or isinstance(event, TaskChanged)):
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        told: set[tuple[str, int | None]] = set()
        while True:
            await asyncio.sleep(LOOK_BELOW_SECONDS)
            with contextlib.suppress(WakefulError):  # the run itself is watched, and says what is wrong
                async for pending in self._client.inbox(thread_id=self._thread_id):
                    named = pending.ticket, pending.since  # a call may ask again
                    if pending.thread_id != self._thread_id and pending.unknown is None and named not in told:
                        told.add(named)
                        for line in below_lines(pending):
                            self._tell_line(line)
