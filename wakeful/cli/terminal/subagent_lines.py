"""Sub-agents on a terminal: folded to one line each, or in lines of their own, under their paths."""

from dataclasses import dataclass, replace

from wakeful.cli.terminal.render import called, event_lines, printable, readable, tool_mark, tool_words
from wakeful.cli.terminal.screen import Scroll
from wakeful.contract import events as e
from wakeful.contract.events import EventRecord
from wakeful.contract.runs import Suspended

TAIL = 200
"""Characters of what a sub-agent says: the newest."""


@dataclass(frozen=True)
class Line:
    """A sub-agent: who it is, and the newest thing that it does or says."""

    who: str
    depth: int
    does: str = ""
    says: str = ""

    @property
    def words(self) -> str:
        newest = printable(self.says[-TAIL:]) or self.does or "starting"
        return f"{'  ' * self.depth}· {printable(self.who)}: {newest}"


class Folded:
    """Sub-agents that run, in a line each."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    @property
    def lines(self) -> list[str]:
        return [line.words for line in self._lines.values()]

    def clear(self) -> None:
        self._lines.clear()

    def tell(self, record: EventRecord) -> None:
        thread = record.path[-1]
        known = self._lines.get(thread) or Line(who=record.agent_id or thread, depth=len(record.path))
        match record.event:
            case e.RunFinish(termination=Suspended()):
                known = replace(known, does="‖ waits for a decision", says="")
            case e.RunFinish():
                self._lines.pop(thread, None)
                return
            case e.StepStart():
                known = replace(known, does="thinking", says="")
            case e.TextDelta(delta=text):
                known = replace(known, says=(known.says + text)[-2 * TAIL :])
            case e.ToolCallReady(name=name, arguments=arguments):
                known = replace(known, does=f"→ {called(name, arguments)}", says="")
            case e.ToolCallDone(result=result):
                known = replace(known, does=f"{tool_mark(result)} {result.tool_name}: {tool_words(result)}", says="")
            case _:
                pass
        self._lines[thread] = known


class Unfolded:
    """Sub-agents in lines of their own, each under its path; their text comes a whole line at a time."""

    def __init__(self, scroll: Scroll) -> None:
        self._scroll = scroll
        self._speaker: tuple[str, ...] = ()
        self._texts: dict[tuple[str, ...], str] = {}

    def tell(self, record: EventRecord) -> None:
        match record.event:
            case e.TextDelta(delta=text):
                *whole, rest = (self._texts.get(record.path, "") + text).split("\n")
                self._texts[record.path] = rest
                self._print(record.path, [f"  {line}" for line in whole])
            case e.StreamReset(reason=reason):
                self._texts.pop(record.path, None)
                self._print(record.path, [f"↻ {printable(reason)}: it begins anew"])
            case _:
                rest = self._texts.pop(record.path, "") if not record.provisional else ""
                self._print(record.path, [*([f"  {rest}"] if rest else []), *event_lines(record.event)])

    def _print(self, path: tuple[str, ...], lines: list[str]) -> None:
        if not lines:
            return
        indent = "  " * len(path)
        if path != self._speaker:
            self._speaker = path
            self._scroll.line(indent + self._scroll.colours.dim(path_words(path)))
        for line in lines:
            self._scroll.line(indent + self._scroll.colours.marked(readable(line)))


def path_words(path: tuple[str, ...]) -> str:
    """Where a sub-agent stands."""
    return " > ".join(printable(thread) for thread in path)
