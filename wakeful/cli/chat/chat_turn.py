"""One turn of a chat: what happens on the thread from a message until it is free to hear the next.

Decisions that the run or a sub-agent waits for are asked in between. Ctrl-C ends the turn's run and not the thread; a
second one leaves at once. The records come from a feed that goes on while somebody types.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator, Mapping

from wakeful.cli.chat.feed import Feed
from wakeful.cli.chat.prompt import Dismissed, Interrupted, Prompts, unseen_keys
from wakeful.cli.chat.questions import Questions
from wakeful.cli.terminal.follow import TICK_SECONDS, Quiet
from wakeful.cli.terminal.live_view import Telling
from wakeful.cli.terminal.render import event_lines
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.client.client import Client
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.events import (
    EventRecord,
    RunFinish,
    RunStart,
    SignalRefused,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.runs import NaturalEnd, Suspended

INTERRUPTED = "interrupted in the chat"
DISMISS_SECONDS = 0.05


class LeftTurn(Exception):
    """A second Ctrl-C: whoever it was does not wait for the run's end."""


class Interrupts:
    """Ctrl-C, counted, while an answer comes."""

    def __init__(self) -> None:
        self.pressed = asyncio.Event()

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        self.pressed.clear()
        loop.add_signal_handler(signal.SIGINT, self.pressed.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


class Turns:
    """Follows the turns of one thread."""

    def __init__(
        self, client: Client, thread_id: str, *, after: int, busy: bool, telling: Telling, prompts: Prompts
    ) -> None:
        self._client = client
        self._thread_id = thread_id
        self._telling = telling
        self._prompts = prompts
        self._feed = Feed(self._watch, {thread_id: after})
        self._questions = Questions(client, prompts, telling)
        self._interrupts = Interrupts()
        self._quiet: Quiet | None = None
        self._asked: set[tuple[str, int | None]] = set()
        self._cancelling: asyncio.Task[None] | None = None
        self._saying: asyncio.Task[None] | None = None
        self._sent = False
        self._is_closed = False
        self._busy = busy

    def open(self) -> None:
        """Watch the thread, which is there."""
        self._feed.open()

    def close(self) -> None:
        self._feed.close()

    def expect(self) -> None:
        """A message was sent: a run follows."""
        self._busy = self._sent = True
        self._is_closed = False
        self._feed.open()

    @property
    def has_something(self) -> bool:
        """A run is under way or has been asked for, or something else is not to be missed."""
        return self._busy or self._feed.has_more

    async def follow(self) -> None:
        """Show what happens until the thread is free, asking what is to be decided.

        Raises:
            LeftTurn: Ctrl-C was pressed again after it had interrupted the run.
            LeftPrompt: Ctrl-D was pressed at a question.
        """
        self._cancelling = None
        self._telling.scroll.gap()
        try:
            async with Quiet(self._client, self._thread_id, self._trouble) as self._quiet:
                with unseen_keys(), self._interrupts.heard():
                    while self.has_something:
                        record = await self._next()
                        if record is None:
                            self._busy = False
                        else:
                            await self._heed(record)
        finally:
            self._quiet = None
            self._telling.over()

    async def listen(self) -> None:
        """Wait while somebody types, until something happens that is more than a line: then take the prompt away."""
        while (record := await self._feed.next()) is not None:
            self._note(record)
            if self._busy or _suspends(record):
                self._feed.put_back([record])
                self._prompts.dismiss()
                return
            if lines := [] if record.path or record.provisional else event_lines(record.event):
                await self._prompts.above(map(self._telling.scroll.colours.marked, lines))

    async def _watch(self, seen: Mapping[str, int]) -> AsyncIterator[EventRecord]:
        watched = self._client.watch(
            self._thread_id, after=seen, live=True, descendants=True, on_trouble=self._troubled
        )
        async for record in watched:
            if self._quiet is not None:
                self._quiet.heard()
            yield record

    def _troubled(self, error: WakefulError) -> None:
        if self._quiet is not None:  # whoever only types does not wait for anything
            self._quiet.troubled(error)

    def _trouble(self, words: str) -> None:
        if self._prompts.is_open:
            self._saying = asyncio.create_task(self._prompts.above([f"! {words}"]))
        else:
            self._telling.line(f"! {words}")

    async def _next(self) -> EventRecord | None:
        """The next record; meanwhile times go on, and Ctrl-C is heard."""
        coming = asyncio.ensure_future(self._feed.next())
        pressed = asyncio.ensure_future(self._interrupts.pressed.wait())
        try:
            while not coming.done():
                await asyncio.wait({coming, pressed}, timeout=TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if pressed.done() and not coming.done():
                    self._interrupt()
                    pressed = asyncio.ensure_future(self._interrupts.pressed.wait())
                self._telling.tick()
            return coming.result()
        finally:
            coming.cancel()
            pressed.cancel()

    def _interrupt(self) -> None:
        self._interrupts.pressed.clear()
        if self._cancelling is not None:
            raise LeftTurn
        self._telling.line("· interrupting this turn; Ctrl-C again leaves without waiting for its end")
        self._cancelling = asyncio.create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self._client.cancel(self._thread_id, reason=INTERRUPTED)
        except WakefulError as error:
            self._telling.line(f"! {error}")

    async def _heed(self, record: EventRecord) -> None:
        self._note(record)
        if not _goes_without_saying(record):
            self._telling.tell(record)
        if _suspends(record) or _pauses(record):
            await self._decide(record.thread_id or self._thread_id)

    def _note(self, record: EventRecord) -> None:
        """Whether a run is under way, as far as this record says."""
        if record.path:
            return
        match record.event:
            case RunStart():
                self._busy, self._sent = True, False
            case RunFinish(termination=Suspended()):
                pass
            case RunFinish():
                self._busy = False
            case SignalRefused(signal=names.SIGNAL_SUBMIT) if self._sent:
                self._busy = self._sent = False  # nothing will come of it
            case _:
                pass

    async def _decide(self, thread_id: str) -> None:
        """Ask for everything that this thread waits for and was not asked for yet."""
        try:
            waiting = pending_of(await self._client.status(thread_id, within=QUERY_TIMEOUT))
        except WakefulError:
            return  # it has ended, or nobody answers: either is seen elsewhere
        for pending in waiting:
            named = pending.ticket, pending.since  # a call may ask again
            if named not in self._asked and self._cancelling is None:
                self._asked.add(named)
                await self._ask(pending)

    async def _ask(self, pending: PendingDecision) -> None:
        """Ask, until there is an answer or none is needed any more."""
        asking = asyncio.create_task(self._questions.ask(pending))
        held: list[EventRecord] = []
        try:
            while not asking.done():
                if self._is_settled(held, pending):
                    self._prompts.dismiss()
                    await asyncio.wait({asking}, timeout=DISMISS_SECONDS)  # there may be no prompt yet
                else:
                    await self._hold(held, asking)
            await asking
        except Dismissed:
            self._telling.line("· needs no answer any more")
        except Interrupted:
            self._interrupt()
        finally:
            asking.cancel()
            self._feed.put_back(held)

    async def _hold(self, held: list[EventRecord], asking: asyncio.Task[None]) -> None:
        """Keep for later what comes while somebody is asked."""
        coming = asyncio.ensure_future(self._feed.next())
        await asyncio.wait({asking, coming}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            coming.cancel()
        elif (record := coming.result()) is not None:
            held.append(record)
        else:
            self._busy, self._is_closed = False, True

    def _is_settled(self, held: list[EventRecord], pending: PendingDecision) -> bool:
        return self._is_closed or any(_settles(record, pending) for record in held)


def _suspends(record: EventRecord) -> bool:
    return isinstance(record.event, ToolCallDone) and record.event.outcome is ToolCallOutcome.SUSPENDED


def _pauses(record: EventRecord) -> bool:
    return isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended)


def _settles(record: EventRecord, pending: PendingDecision) -> bool:
    """Whether a question needs no answer any more."""
    if record.thread_id != pending.thread_id:
        return False
    match record.event:
        case ToolCallResumed(target_id=id) | ToolCallCancel(id=id):
            return id == pending.call_id
        case ToolCallDone(id=id):
            return id == pending.call_id and not _suspends(record)
        case RunFinish(termination=termination):
            return not isinstance(termination, Suspended)
        case _:
            return False


def _goes_without_saying(record: EventRecord) -> bool:
    """A chat that goes on says so by its prompt, and one that pauses by its question."""
    if record.path or not isinstance(record.event, RunFinish):
        return False
    result = record.event.result
    if result is not None and result.status_reason == names.AWAITING_TASKS:
        return False
    return isinstance(record.event.termination, NaturalEnd | Suspended)
