"""The events of a run on a terminal, while they happen.

Answers are written as they arrive. A tool call is one line that shows its progress and then its result. A sub-agent is
one line that shows its activity, or, unfolded, prints its own events. `render.py` has the lines for everything else;
`screen.py` writes them.
"""

import time
from collections import deque
from dataclasses import replace

from wakeful.cli.terminal.call_lines import ShownCall, ShownResult, progress_text, resumed_result
from wakeful.cli.terminal.colours import DIM
from wakeful.cli.terminal.render import event_lines, tool_mark, tool_text
from wakeful.cli.terminal.screen import Screen, truncated
from wakeful.cli.terminal.subagent_lines import FoldedSubagents, UnfoldedSubagents
from wakeful.cli.terminal.text import duration, printable
from wakeful.contract import events as e
from wakeful.contract.events import AgentEvent, EventRecord
from wakeful.contract.tools import ToolResult, ToolStatus

REMEMBERED_RESULTS = 20
SHOW_ELAPSED_AFTER_SECONDS = 2.0
SHOW_DURATION_FROM_MS = 100

WAITING = "waiting for the model"
"""What a step shows until something of the answer arrives; that a model thinks is known when its reasoning comes."""

CallKey = tuple[str, str]
"""A thread's id and a call's."""


class LiveView:
    """Shows records, one after the other."""

    def __init__(self, screen: Screen, *, folds: bool, asks: bool = False) -> None:
        """With `folds`, sub-agents are a line each; with `asks`, suspended calls are not shown: the caller asks."""
        self.screen = screen
        self.results: deque[ShownResult] = deque(maxlen=REMEMBERED_RESULTS)
        self.answer = ""
        """The text of the newest answer."""
        self._folds = folds
        self._asks = asks
        self._waiting_since: float | None = None
        self._calls: dict[CallKey, ShownCall] = {}
        self._suspended: dict[CallKey, ShownCall] = {}
        self._folded = FoldedSubagents()
        self._unfolded = UnfoldedSubagents(screen)
        self._open_text: str | None = None
        """The kind of text that is being written."""

    def show(self, record: EventRecord) -> None:
        if record.path and not self._folds:
            self._open_text = None
            self._unfolded.show(record)
        elif record.path:
            self._folded.update(record)
        else:
            self._show_event(record, record.event)
        self.tick()

    def tick(self) -> None:
        """Redraw the live lines, with the time that has passed."""
        now, columns = time.monotonic(), self.screen.columns - 1
        lines = [] if self._waiting_since is None else [f"· {WAITING}{_elapsed(now - self._waiting_since)}"]
        lines += [f"→ {call.text}{call.progress}{_elapsed(now - call.seen)}" for call in self._calls.values()]
        lines += self._folded.lines
        self.screen.live([self.screen.colours.marked(truncated(line, columns)) for line in lines])

    def line(self, line: str) -> None:
        """Print a line that is not an event."""
        self._open_text = None
        self.screen.line(self.screen.colours.marked(line))

    def release(self) -> None:
        """Let other code write on the screen."""
        self._open_text = None
        self.screen.release()

    def decided(self, thread_id: str, call_id: str, *, is_approved: bool) -> None:
        """A suspended call was decided here; the next event about it is its result."""
        if call := self._suspended.pop((thread_id, call_id), None):
            call = replace(call, at=int(time.time() * 1000), seen=time.monotonic())
            (self._calls if is_approved else self._suspended)[thread_id, call_id] = call

    def finish(self) -> None:
        """The run has ended: erase the live lines."""
        self._waiting_since = None
        self._calls.clear()
        self._folded.clear()
        self.release()

    def _show_event(self, record: EventRecord, event: AgentEvent) -> None:
        match event:
            case e.StepStart():
                self._waiting_since, self.answer = time.monotonic(), ""
            case e.TextDelta(delta=text):
                self.answer += text
                self._append("text", text)
            case e.AnswerGiven(text=text):
                self.answer = text
                self._append("text", text)
                self._end_text()
            case e.ReasoningDelta(delta=text):
                self._append("reasoning", text, DIM)
            case e.StreamReset(reason=reason):
                self.answer, self._open_text = "", None
                self._calls = {key: call for key, call in self._calls.items() if call.at}
                self.line(f"↻ {printable(reason)}: the answer starts over")
            case e.StepEnd():
                self._waiting_since = None
                self._end_text()
            case _:
                self._show_call_event(record, event)

    def _append(self, kind: str, text: str, *codes: str) -> None:
        self._waiting_since = None
        if self._open_text != kind:
            self._end_text()
            self.screen.gap()
            text = text.lstrip("\n")  # some models begin with empty lines
        if text:
            self._open_text = kind
            self.screen.text(text, *codes)

    def _end_text(self) -> None:
        if self._open_text is not None:
            self.release()
            self.screen.gap()

    def _show_call_event(self, record: EventRecord, event: AgentEvent) -> None:
        thread = record.thread_id
        match event:
            case e.ToolCallStart(id=id, name=name):
                self._waiting_since = None
                self._calls[thread, id] = ShownCall(name, at=0 if record.provisional else record.at)
            case e.ToolCallDelta(id=id, args_delta=text):
                if call := self._calls.get((thread, id)):
                    self._calls[thread, id] = replace(call, partial=call.partial + text)
            case e.ToolCallReady(id=id, name=name, arguments=arguments):
                self._end_text()
                self._calls[thread, id] = ShownCall(name, arguments, at=record.at)
                if not self.screen.in_place:
                    self._print(event)
            case e.ActivitySnapshot(activity_type="tool-call-progress", content=dict(content)):
                key = thread, str(content.get("call_id", ""))
                if call := self._calls.get(key):
                    self._calls[key] = replace(call, progress=progress_text(content))
            case e.ToolCallStreamDelta(id=id, delta=text):
                newest = text.rstrip().rpartition("\n")[2]  # the line of a call has room for one
                if newest and (call := self._calls.get((thread, id))):
                    self._calls[thread, id] = replace(call, progress=f"  {printable(newest)}")
            case e.ToolCallResumed(target_id=id):
                suspended = self._suspended.pop((thread, id), None)
                if call := self._calls.pop((thread, id), suspended):
                    self._show_result(record, event, call, resumed_result(call, event))
                else:
                    self._print(event)
            case e.ToolCallCancel(id=id):
                self._calls.pop((thread, id), None)
                self._print(event)
            case e.ToolCallDone(id=id, result=result):
                known = self._calls.pop((thread, id), None) or self._suspended.get((thread, id))
                self._show_result(record, event, known or ShownCall(result.tool_name), result)
            case _:
                self._print(event)

    def _show_result(self, record: EventRecord, event: AgentEvent, call: ShownCall, result: ToolResult) -> None:
        self._end_text()
        if isinstance(event, e.ToolCallDone) and result.status is ToolStatus.PENDING:
            self._suspended[record.thread_id, event.id] = replace(call, progress="")
            if self._asks:
                return
        else:
            self.results.append(ShownResult(call.text, result))
        if not self.screen.in_place:
            self._print(event)
            return
        colours, columns = self.screen.colours, self.screen.columns - 1
        took = f"  {_seconds(record.at - call.at)}" if call.at and record.at - call.at >= SHOW_DURATION_FROM_MS else ""
        head = truncated(f"{tool_mark(result)} {call.text}", max(columns * 3 // 5, 20))
        rest = truncated(f"  {tool_text(result)}", max(columns - len(head) - len(took), 10))
        self.screen.line(colours.marked(head) + colours.dim(rest + took))

    def _print(self, event: AgentEvent) -> None:
        lines = event_lines(event)
        if lines:
            self._waiting_since = None
            self._end_text()
        for line in lines:
            self.line(line)


def _elapsed(seconds: float) -> str:
    return f"  {duration(seconds)}" if seconds >= SHOW_ELAPSED_AFTER_SECONDS else ""


def _seconds(milliseconds: int) -> str:
    seconds = max(0, milliseconds) / 1000
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)
