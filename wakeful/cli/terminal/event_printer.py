"""How the events of a watched run are printed: a line per event, JSON, or a live view."""

import sys
from dataclasses import dataclass
from typing import TextIO

from wakeful.cli.terminal.live_view import LiveView
from wakeful.cli.terminal.render import event_lines
from wakeful.cli.terminal.screen import Screen, can_redraw
from wakeful.cli.terminal.text import thread_path
from wakeful.contract.events import ErrorEvent, EventRecord


@dataclass(frozen=True)
class ViewOptions:
    """What is shown of a run, and how."""

    live: bool
    descendants: bool = False
    folds: bool = False
    """On a terminal, sub-agents are a line each."""
    as_json: bool = False

    @classmethod
    def default(cls, *, as_json: bool) -> "ViewOptions":
        """Of a run that is followed on standard error: live with sub-agents on a terminal, otherwise from history."""
        live = not as_json and can_redraw(sys.stderr)
        return cls(live=live, descendants=live, folds=True, as_json=as_json)


class EventPrinter:
    """Prints a line per event."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def show(self, record: EventRecord) -> None:
        if record.provisional and not isinstance(record.event, ErrorEvent):
            return
        indent = "  " * len(record.path)
        lines = event_lines(record.event)
        if lines and record.path:
            lines = [f"{thread_path(record.path)}: {lines[0]}", *lines[1:]]
        self.lines([f"{indent}{line}" for line in lines])

    def line(self, line: str) -> None:
        """Print a line that is not an event."""
        print(line, file=self.out, flush=True)

    def lines(self, lines: list[str]) -> None:
        for line in lines:
            self.line(line)

    def warn(self, message: str) -> None:
        print(f"! {message}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Redraw the times that are on the screen."""

    def finish(self) -> None:
        """Nothing follows."""


class JsonEventPrinter(EventPrinter):
    """Prints records as JSON, one per line, and nothing else."""

    def show(self, record: EventRecord) -> None:
        print(record.model_dump_json(), file=self.out, flush=True)

    def line(self, line: str) -> None:
        pass


class LiveEventPrinter(EventPrinter):
    """Shows answers on a terminal while they arrive."""

    def __init__(self, out: TextIO, *, folds: bool) -> None:
        super().__init__(out)
        self._view = LiveView(Screen.of(out), folds=folds)

    def show(self, record: EventRecord) -> None:
        self._view.show(record)

    def line(self, line: str) -> None:
        self._view.line(line)

    def warn(self, message: str) -> None:
        self._view.line(f"! {message}")

    def tick(self) -> None:
        self._view.tick()

    def finish(self) -> None:
        self._view.finish()


def event_printer(options: ViewOptions, out: TextIO) -> EventPrinter:
    """What prints events on a stream, as the options say; JSON is for programs, which read standard output."""
    if options.as_json:
        return JsonEventPrinter(sys.stdout)
    if options.live:
        return LiveEventPrinter(out, folds=options.folds)
    return EventPrinter(out)
