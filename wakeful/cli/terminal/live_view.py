"""What a person at a terminal sees of a run while it happens.

Answers are written as they come. A tool call is one line that says how far it is, and stays with what came of it; a
sub-agent is one line that says what it does, or, unfolded, speaks in lines of its own. `showing.py` has the words for
everything else. Below is `scrolling.py`, which knows no events.
"""

import time
from collections import deque
from dataclasses import replace

from wakeful.cli.terminal.call_lines import Call, Result, progress_words, resumed
from wakeful.cli.terminal.colours import DIM
from wakeful.cli.terminal.render import duration, event_lines, printable, tool_mark, tool_words
from wakeful.cli.terminal.screen import Scroll, cut
from wakeful.cli.terminal.subagent_lines import Folded, Unfolded
from wakeful.contract import events as e
from wakeful.contract.events import AgentEvent, EventRecord
from wakeful.contract.tools import ToolResult, ToolStatus

SIGN = "> "
"""What a person's own words begin with."""

KEPT_RESULTS = 20
SHOW_SECONDS_AFTER = 2.0
WORTH_TELLING_MS = 100


class Telling:
    """Tells records, one after the other."""

    def __init__(self, scroll: Scroll, *, folds: bool, asks: bool = False) -> None:
        """With `folds`, sub-agents are a line each; with `asks`, what a call waits for is asked, and not told."""
        self.scroll = scroll
        self.results: deque[Result] = deque(maxlen=KEPT_RESULTS)
        self.said = ""
        """The text of the newest answer."""
        self._folds = folds
        self._asks = asks
        self._thinks_since: float | None = None
        self._calls: dict[tuple[str, str], Call] = {}
        self._suspended: dict[tuple[str, str], Call] = {}
        self._below = Folded()
        self._speaks: str | None = None
        self._unfolded = Unfolded(scroll)

    def tell(self, record: EventRecord) -> None:
        if record.path and not self._folds:
            self._speaks = None
            self._unfolded.tell(record)
        elif record.path:
            self._below.tell(record)
        else:
            self._tell_own(record, record.event)
        self.tick()

    def tick(self) -> None:
        """Draw the live lines again: times go on."""
        now, columns = time.monotonic(), self.scroll.columns - 1
        lines = [] if self._thinks_since is None else [f"· thinking{_elapsed(now - self._thinks_since)}"]
        lines += [f"→ {call.words}{call.progress}{_elapsed(now - call.seen)}" for call in self._calls.values()]
        lines += self._below.lines
        self.scroll.live([self.scroll.colours.marked(cut(line, columns)) for line in lines])

    def line(self, line: str) -> None:
        """Something that is no event: a line between them."""
        self._speaks = None
        self.scroll.line(self.scroll.colours.marked(line))

    def rest(self) -> None:
        """Leave the screen to somebody else."""
        self._speaks = None
        self.scroll.rest()

    def decided(self, thread_id: str, call_id: str, *, goes_on: bool) -> None:
        """A suspended call was decided here: no event says so before the call has come to something."""
        if call := self._suspended.pop((thread_id, call_id), None):
            call = replace(call, goes_on=goes_on, at=int(time.time() * 1000), seen=time.monotonic())
            (self._calls if goes_on else self._suspended)[thread_id, call_id] = call

    def over(self) -> None:
        """A turn has ended: nothing is live any more."""
        self._thinks_since = None
        self._calls.clear()
        self._below.clear()
        self.rest()

    def _tell_own(self, record: EventRecord, event: AgentEvent) -> None:
        match event:
            case e.StepStart():
                self._thinks_since, self.said = time.monotonic(), ""
            case e.TextDelta(delta=text):
                self.said += text
                self._speak("text", text)
            case e.ReasoningDelta(delta=text):
                self._speak("reasoning", text, DIM)
            case e.StreamReset(reason=reason):
                self.said, self._speaks = "", None
                self._calls = {key: call for key, call in self._calls.items() if call.at}
                self.line(f"↻ {printable(reason)}: it begins anew")
            case e.StepEnd():
                self._thinks_since = None
                self._end_text()
            case _:
                self._tell_call(record, event)

    def _speak(self, kind: str, text: str, *codes: str) -> None:
        self._thinks_since = None
        if self._speaks != kind:
            self._end_text()
            self.scroll.gap()
            text = text.lstrip("\n")  # some models begin with empty lines
        if text:
            self._speaks = kind
            self.scroll.text(text, *codes)

    def _end_text(self) -> None:
        if self._speaks is not None:
            self._speaks = None
            self.scroll.rest()
            self.scroll.gap()

    def _tell_call(self, record: EventRecord, event: AgentEvent) -> None:
        thread = record.thread_id
        match event:
            case e.ToolCallStart(id=id, name=name):
                self._thinks_since = None
                self._calls[thread, id] = Call(name, at=0 if record.provisional else record.at)
            case e.ToolCallDelta(id=id, args_delta=text):
                if call := self._calls.get((thread, id)):
                    self._calls[thread, id] = replace(call, partial=call.partial + text)
            case e.ToolCallReady(id=id, name=name, arguments=arguments):
                self._end_text()
                self._calls[thread, id] = Call(name, arguments, at=record.at)
                self._unless_in_place(event)
            case e.ActivitySnapshot(activity_type="tool-call-progress", content=dict(content)):
                key = thread, str(content.get("call_id", ""))
                if call := self._calls.get(key):
                    self._calls[key] = replace(call, progress=progress_words(content))
            case e.ToolCallResumed(target_id=id, result=payload):
                suspended = self._suspended.pop((thread, id), None)
                if call := self._calls.pop((thread, id), suspended):
                    self._settle(record, event, call, resumed(call, payload))
                else:
                    self._print(event)
            case e.ToolCallCancel(id=id):
                self._calls.pop((thread, id), None)
                self._print(event)
            case e.ToolCallDone(id=id, result=result):
                known = self._calls.pop((thread, id), None) or self._suspended.get((thread, id))
                self._settle(record, event, known or Call(result.tool_name), result)
            case _:
                self._print(event)

    def _settle(self, record: EventRecord, event: AgentEvent, call: Call, result: ToolResult) -> None:
        self._end_text()
        if isinstance(event, e.ToolCallDone) and result.status is ToolStatus.PENDING:
            self._suspended[record.thread_id, event.id] = replace(call, progress="")
            if self._asks:
                return
        else:
            self.results.append(Result(call.words, result))
        if not self.scroll.in_place:
            self._unless_in_place(event)
            return
        colours, columns = self.scroll.colours, self.scroll.columns - 1
        took = f"  {_took(record.at - call.at)}" if call.at and record.at - call.at >= WORTH_TELLING_MS else ""
        head = cut(f"{tool_mark(result)} {call.words}", max(columns * 3 // 5, 20))
        rest = cut(f"  {tool_words(result)}", max(columns - len(head) - len(took), 10))
        self.scroll.line(colours.marked(head) + colours.dim(rest + took))

    def _unless_in_place(self, event: AgentEvent) -> None:
        if not self.scroll.in_place:
            self._print(event)

    def _print(self, event: AgentEvent) -> None:
        lines = event_lines(event)
        if lines:
            self._thinks_since = None
            self._end_text()
        for line in lines:
            self.line(line)


def _elapsed(seconds: float) -> str:
    return f"  {duration(seconds)}" if seconds >= SHOW_SECONDS_AFTER else ""


def _took(milliseconds: int) -> str:
    seconds = max(0, milliseconds) / 1000
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)
