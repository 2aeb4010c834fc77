"""One turn of a chat: the events of a thread from a message until the thread is idle again.

In between, the person is asked for the decisions that the run or its sub-agents wait for. Ctrl-C cancels the run, but
not the thread; a second Ctrl-C leaves at once. The records come from a feed, which runs also while the person types.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator, Mapping

from wakeful.cli.chat.feed import RecordFeed
from wakeful.cli.chat.prompt import Dismissed, Interrupted, Prompts, hidden_typing
from wakeful.cli.chat.questions import Questions
from wakeful.cli.session import read_status
from wakeful.cli.terminal.event_printer import ViewOptions
from wakeful.cli.terminal.follow import TICK_SECONDS, watch_thread
from wakeful.cli.terminal.live_view import LiveView
from wakeful.cli.terminal.outage_notice import OutageNotice
from wakeful.cli.terminal.render import event_lines
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.events import (
    EventRecord,
    MessageReceived,
    RunFinish,
    RunStart,
    SignalRefused,
    ToolCallCancel,
    ToolCallDecided,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.runs import BehaviorRequested, NaturalEnd, Suspended

INTERRUPT_REASON = "interrupted in the chat"
DISMISS_SECONDS = 0.05
OPTIONS = ViewOptions(live=True, descendants=True)


class LeftTurn(Exception):
    """A second Ctrl-C: the person does not wait for the run's end."""


class Interrupts:
    """Ctrl-C while an answer arrives."""

    def __init__(self) -> None:
        self.pressed = asyncio.Event()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        self.pressed.clear()
        loop.add_signal_handler(signal.SIGINT, self.pressed.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


class ChatTurns:
    """Shows the turns of one thread."""

    def __init__(
        self, client: Client, thread_id: str, *, after: int, is_busy: bool, view: LiveView, prompts: Prompts
    ) -> None:
        self._client = client
        self._thread_id = thread_id
        self._view = view
        self._prompts = prompts
        self._feed = RecordFeed(self._watch, {thread_id: after})
        self._questions = Questions(client, prompts, view)
        self._interrupts = Interrupts()
        self._notice: OutageNotice | None = None
        self._asked: set[tuple[str, int | None]] = set()
        self._cancelling: asyncio.Task[None] | None = None
        self._warning: asyncio.Task[None] | None = None
        self._has_sent = False
        self._is_closed = False
        self._is_busy = is_busy

    def open(self) -> None:
        """Watch the thread, which exists."""
        self._feed.open()

    def close(self) -> None:
        self._feed.close()

    def expect_run(self) -> None:
        """A message was sent: a run follows."""
        self._is_busy = self._has_sent = True
        self._is_closed = False
        self._feed.open()

    @property
    def has_more(self) -> bool:
        """A run is under way or expected, or there are records to show."""
        return self._is_busy or self._feed.has_put_back

    async def follow(self) -> None:
        """Show records until the thread is idle, and ask for decisions.

        Raises:
            LeftTurn: Ctrl-C was pressed again after it had cancelled the run.
            LeftPrompt: Ctrl-D was pressed at a question.
        """
        self._cancelling = None
        self._view.screen.gap()
        try:
            async with OutageNotice(self._client, self._thread_id, self._warn) as self._notice:
                with hidden_typing(), self._interrupts.handled():
                    while self.has_more:
                        record = await self._next()
                        if record is None:
                            self._is_busy = False
                        else:
                            await self._process(record)
        finally:
            self._notice = None
            self._view.finish()

    async def listen(self) -> None:
        """While the person types, print events above the prompt; dismiss it when a run starts or a call suspends."""
        while (record := await self._feed.next()) is not None:
            self._track_run(record)
            if self._is_busy or _suspends_call(record):
                self._feed.put_back([record])
                self._prompts.dismiss()
                return
            if lines := [] if record.path or record.provisional else event_lines(record.event):
                await self._prompts.print_above(map(self._view.screen.colours.marked, lines))

    async def _watch(self, seen: Mapping[str, int]) -> AsyncIterator[EventRecord]:
        async for record in watch_thread(
            self._client, self._thread_id, OPTIONS, after=seen, on_trouble=self._on_trouble
        ):
            if self._notice is not None:
                self._notice.on_record()
            yield record

    def _on_trouble(self, error: WakefulError) -> None:
        if self._notice is not None:  # at the prompt, nothing waits for the thread
            self._notice.on_trouble(error)

    def _warn(self, message: str) -> None:
        if self._prompts.is_open:
            self._warning = asyncio.create_task(self._prompts.print_above([f"! {message}"]))
        else:
            self._view.line(f"! {message}")

    async def _next(self) -> EventRecord | None:
        """The next record; meanwhile, redraw the times and react to Ctrl-C."""
        record = asyncio.ensure_future(self._feed.next())
        pressed = asyncio.ensure_future(self._interrupts.pressed.wait())
        try:
            while not record.done():
                await asyncio.wait({record, pressed}, timeout=TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if pressed.done() and not record.done():
                    self._interrupt()
                    pressed = asyncio.ensure_future(self._interrupts.pressed.wait())
                self._view.tick()
            return record.result()
        finally:
            record.cancel()
            pressed.cancel()

    def _interrupt(self) -> None:
        self._interrupts.pressed.clear()
        if self._cancelling is not None:
            raise LeftTurn
        self._view.line("· cancelling the run; Ctrl-C again leaves without waiting for its end")
        self._cancelling = asyncio.create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self._client.cancel(self._thread_id, reason=INTERRUPT_REASON)
        except WakefulError as error:
            self._view.line(f"! {error}")

    async def _process(self, record: EventRecord) -> None:
        self._track_run(record)
        if not _is_obvious(record):
            self._view.show(record)
        if _suspends_call(record) or _suspends_run(record):
            await self._ask_for_decisions(record)

    def _track_run(self, record: EventRecord) -> None:
        """Update whether a run is under way."""
        if record.path:
            return
        match record.event:
            case RunStart():
                self._is_busy, self._has_sent = True, False
            case RunFinish(termination=Suspended()):
                pass
            case RunFinish():
                self._is_busy = False
            case SignalRefused(signal=names.SIGNAL_SUBMIT) if self._has_sent:
                self._is_busy = self._has_sent = False  # the message starts no run
            case _:
                pass

    async def _ask_for_decisions(self, record: EventRecord) -> None:
        """Ask for every decision that the record's thread waited for then, once."""
        try:
            waiting = pending_of(await read_status(self._client.reader, record.thread_id or self._thread_id))
        except WakefulError:
            return  # the thread has ended or does not answer, which is reported elsewhere
        for pending in waiting:
            key = pending.ticket, pending.since  # a call may suspend again
            # The thread may be ahead of the screen: what came between is shown before the question that followed it.
            is_shown = (pending.since or 0) <= record.at
            if is_shown and key not in self._asked and self._cancelling is None:
                self._asked.add(key)
                await self._ask(pending)

    async def _ask(self, pending: PendingDecision) -> None:
        """Ask until there is an answer, or the decision is made elsewhere."""
        asking = asyncio.create_task(self._questions.ask(pending))
        held: list[EventRecord] = []
        try:
            while not asking.done():
                if self._is_decided(held, pending):
                    self._prompts.dismiss()
                    await asyncio.wait({asking}, timeout=DISMISS_SECONDS)  # the prompt may not be open yet
                else:
                    await self._hold(held, asking)
            await asking
        except Dismissed:
            self._view.line("· no decision is needed any more")
        except Interrupted:
            self._interrupt()
        finally:
            asking.cancel()
            self._feed.put_back(held)

    async def _hold(self, held: list[EventRecord], asking: asyncio.Task[None]) -> None:
        """Hold back a record that arrives during a question."""
        arriving = asyncio.ensure_future(self._feed.next())
        await asyncio.wait({asking, arriving}, return_when=asyncio.FIRST_COMPLETED)
        if not arriving.done():
            arriving.cancel()
        elif (record := arriving.result()) is not None:
            held.append(record)
        else:
            self._is_busy, self._is_closed = False, True

    def _is_decided(self, held: list[EventRecord], pending: PendingDecision) -> bool:
        return self._is_closed or any(_decides(record, pending) for record in held)


def _suspends_call(record: EventRecord) -> bool:
    return isinstance(record.event, ToolCallDone) and record.event.outcome is ToolCallOutcome.SUSPENDED


def _suspends_run(record: EventRecord) -> bool:
    return isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended)


def _decides(record: EventRecord, pending: PendingDecision) -> bool:
    """Whether the call does not wait for this decision any more."""
    if record.thread_id != pending.thread_id:
        return False
    match record.event:
        case ToolCallDecided(call_id=id) | ToolCallResumed(target_id=id) | ToolCallCancel(id=id):
            return id == pending.call_id
        case ToolCallDone(id=id):
            return id == pending.call_id and not _suspends_call(record)
        case RunFinish(termination=termination):
            return not isinstance(termination, Suspended)
        case _:
            return False


def _is_obvious(record: EventRecord) -> bool:
    """The screen shows what the person wrote, the prompt that a run has ended, and a question that it has suspended."""
    if isinstance(record.event, MessageReceived) and not record.path:
        return True
    if record.path or not isinstance(record.event, RunFinish):
        return False
    result = record.event.result
    if result is not None and result.status_reason in (names.AWAITING_TASKS, names.PENDING_WORK):
        return False
    return isinstance(record.event.termination, NaturalEnd | BehaviorRequested | Suspended)
