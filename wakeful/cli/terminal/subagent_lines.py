"""Sub-agents on a terminal: folded into one line each, or printed in full under their paths."""

from dataclasses import dataclass, replace

from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.render import event_lines, tool_mark, tool_text
from wakeful.cli.terminal.screen import Screen
from wakeful.cli.terminal.text import printable, short_call, thread_path
from wakeful.contract import events as e
from wakeful.contract.events import EventRecord
from wakeful.contract.runs import Suspended

TAIL_CHARACTERS = 200
"""Of a sub-agent's text: the newest."""


@dataclass(frozen=True)
class SubagentLine:
    """A sub-agent, and the newest thing that it does or says."""

    agent: str
    depth: int
    activity: str = ""
    answer: str = ""

    @property
    def text(self) -> str:
        newest = printable(self.answer[-TAIL_CHARACTERS:]) or self.activity or "starting"
        return f"{'  ' * self.depth}· {printable(self.agent)}: {newest}"


class FoldedSubagents:
    """One line for each sub-agent that runs."""

    def __init__(self) -> None:
        self._lines: dict[str, SubagentLine] = {}

    @property
    def lines(self) -> list[str]:
        return [line.text for line in self._lines.values()]

    def clear(self) -> None:
        self._lines.clear()

    def update(self, record: EventRecord) -> None:
        thread = record.path[-1]
        line = self._lines.get(thread) or SubagentLine(agent=record.agent_id or thread, depth=len(record.path))
        match record.event:
            case e.RunFinish(termination=Suspended()):
                line = replace(line, activity="‖ waiting for a decision", answer="")
            case e.RunFinish() | e.ErrorEvent():
                self._lines.pop(thread, None)
                return
            case e.StepStart():
                line = replace(line, activity="waiting for its model", answer="")
            case e.ReasoningDelta():
                line = replace(line, activity="thinking")
            case e.TextDelta(delta=text):
                line = replace(line, answer=(line.answer + text)[-2 * TAIL_CHARACTERS :])
            case e.ToolCallReady(name=name, arguments=arguments):
                line = replace(line, activity=f"→ {short_call(name, arguments)}", answer="")
            case e.ToolCallDone(result=result):
                activity = f"{tool_mark(result)} {result.tool_name}: {tool_text(result)}"
                line = replace(line, activity=activity, answer="")
            case _:
                pass
        self._lines[thread] = line


class UnfoldedSubagents:
    """The events of sub-agents, each under its path; text is printed when a line is complete."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._printed_path: tuple[str, ...] = ()
        self._partial_lines: dict[tuple[str, ...], str] = {}

    def show(self, record: EventRecord) -> None:
        match record.event:
            case e.TextDelta(delta=text):
                *whole, rest = (self._partial_lines.get(record.path, "") + text).split("\n")
                self._partial_lines[record.path] = rest
                self._print(record.path, [f"  {line}" for line in whole])
            case e.StreamReset(reason=reason):
                self._partial_lines.pop(record.path, None)
                self._print(record.path, [f"↻ {printable(reason)}: the answer starts over"])
            case _:
                rest = self._partial_lines.pop(record.path, "") if not record.provisional else ""
                self._print(record.path, [*([f"  {rest}"] if rest else []), *event_lines(record.event)])

    def _print(self, path: tuple[str, ...], lines: list[str]) -> None:
        if not lines:
            return
        indent = "  " * len(path)
        if path != self._printed_path:
            self._printed_path = path
            self._screen.line(indent + self._screen.colours.dim(thread_path(path)))
        for line in lines:
            self._screen.line(indent + self._screen.colours.marked(readable(line)))
