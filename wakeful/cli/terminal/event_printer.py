"""Where the events of a watched run are printed: a line per event, JSON, or a live view."""

import sys
from dataclasses import dataclass

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
        """Live with sub-agents on a terminal; otherwise only the events of the thread that are in history."""
        live = not as_json and can_redraw(sys.stdout)
        return cls(live=live, descendants=live, folds=True, as_json=as_json)


class EventPrinter:
    """Prints a line per event."""

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
        print(line, flush=True)

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
    """Prints records as JSON, one per line, and nothing else on standard output."""

    def show(self, record: EventRecord) -> None:
        print(record.model_dump_json(), flush=True)

    def line(self, line: str) -> None:
        pass


class LiveEventPrinter(EventPrinter):
    """Shows answers on a terminal while they arrive."""

    def __init__(self, view: LiveView) -> None:
        self._view = view

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


def event_printer(options: ViewOptions) -> EventPrinter:
    if options.as_json:
        return JsonEventPrinter()
    if options.live:
        return LiveEventPrinter(LiveView(Screen.of(sys.stdout), folds=options.folds))
    return EventPrinter()
