"""Plot history bytes against steps as an SVG, one panel per result size. Lines are clipped to their panel."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from benchmarks.plan import KB
from benchmarks.results import Results
from benchmarks.workload import BARE, WAKEFUL, WHOLE

MB = KB * KB
WIDTH, HEIGHT = 900, 400
PANEL_WIDTH, PANEL_HEIGHT = 370, 250
TOP, LEFT, GAP = 92, 62, 70
ROOM_ABOVE = 1.15
"""The upper end of the y axis, as a multiple of the largest value that must fit."""

_TITLE = "Workflow history of a run"


@dataclass(frozen=True)
class Style:
    label: str
    colour: str
    width: float
    dashes: str = "none"


STYLES = {
    WHOLE: Style("the whole conversation in every model call", "#c2410c", 2, "6 4"),
    BARE: Style("bare: hand-written, inputs of constant size", "#64748b", 2),
    WAKEFUL: Style("Wakeful", "#2563eb", 3),
}


@dataclass(frozen=True)
class Panel:
    """Maps steps and bytes to coordinates; `left` is the x coordinate of its y axis."""

    left: float
    steps: float
    bytes: float

    def x(self, steps: float) -> float:
        return self.left + PANEL_WIDTH * steps / self.steps

    def y(self, bytes: float) -> float:
        return TOP + PANEL_HEIGHT * (1 - bytes / self.bytes)


def plot(results: Results) -> str:
    """The SVG, for at most two result sizes."""
    sizes = sorted({history.size for history in results.histories})[:2]
    if not sizes:
        raise SystemExit("the results contain no histories: measure them with `--only history`")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>{_TITLE}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 26, _TITLE, size=17, weight=600),
        *_legend(),
    ]
    for index, size in enumerate(sizes):
        parts += _panel(results, size, LEFT + index * (PANEL_WIDTH + GAP), id=f"panel{index}")
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    x = float(LEFT)
    for style in reversed(STYLES.values()):
        yield _line(x, 49, x + 26, 49, style.colour, width=style.width, dashes=style.dashes)
        yield _text(x + 33, 53.5, style.label)
        x += 33 + 6.5 * len(style.label) + 22


def _panel(results: Results, size: int, left: float, *, id: str) -> Iterator[str]:
    fitting = [point for side in (WAKEFUL, BARE) for point in results.points(side, size)]
    panel = Panel(left, max(p.steps for p in fitting), max(p.bytes for p in fitting) * ROOM_ABOVE)
    yield _text(left, TOP - 12, f"tool results of {size // KB} KB", weight=600)
    yield from _axes(panel)
    inside = f'x="{left}" y="{TOP}" width="{PANEL_WIDTH + 6}" height="{PANEL_HEIGHT}"'
    yield f'<clipPath id="{id}"><rect {inside}/></clipPath><g clip-path="url(#{id})">'
    for side, style in STYLES.items():
        points = [(panel.x(p.steps), panel.y(p.bytes)) for p in results.points(side, size)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{style.dashes}"' if style.dashes != "none" else ""
        yield (
            f'<polyline points="{path}" fill="none" stroke="{style.colour}" stroke-width="{style.width}"'
            f' stroke-linejoin="round"{dashes}/>'
        )
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{style.width + 1}" fill="{style.colour}"/>'
    yield "</g>"
    yield from _clipped_label(results, size, panel)


def _clipped_label(results: Results, size: int, panel: Panel) -> Iterator[str]:
    """The final value of a clipped line, beside the point where it leaves the panel."""
    points = results.points(WHOLE, size)
    for before, after in pairwise(points):
        if before.bytes <= panel.bytes < after.bytes:
            share = (panel.bytes - before.bytes) / (after.bytes - before.bytes)
            x = panel.x(before.steps + share * (after.steps - before.steps))
            label = f"{points[-1].bytes / MB:.0f} MB at {points[-1].steps} steps"
            yield _text(x + 10, TOP + 12, label, colour=STYLES[WHOLE].colour)


def _axes(panel: Panel) -> Iterator[str]:
    bottom, right = TOP + PANEL_HEIGHT, panel.left + PANEL_WIDTH
    tick = _round_step(panel.bytes / MB / 4)
    for count in range(int(panel.bytes / MB / tick) + 1):
        y = panel.y(count * tick * MB)
        yield _line(panel.left, y, right, y, "#e2e8f0")
        yield _text(panel.left - 8, y + 4.5, f"{count * tick:g} MB", anchor="end", colour="#475569")
    yield _line(panel.left, bottom, right, bottom, "#475569")
    for steps in range(0, int(panel.steps) + 1, int(_round_step(panel.steps / 4))):
        x = panel.x(steps)
        yield _line(x, bottom, x, bottom + 5, "#475569")
        yield _text(x, bottom + 20, str(steps), anchor="middle", colour="#475569")
    yield _text(panel.left + PANEL_WIDTH / 2, bottom + 42, "steps", anchor="middle", colour="#475569")


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10, times a power of ten, that is at least `least`."""
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(step * magnitude for step in (1, 2, 2.5, 5, 10) if step * magnitude >= least)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1, dashes: str = "none") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"/>'


def _text(
    x: float, y: float, text: str, *, size: int = 13, weight: int = 400, anchor: str = "start", colour: str = "#0f172a"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
