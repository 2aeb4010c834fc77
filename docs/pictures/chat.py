"""Take the picture of `wakeful chat`, and a recording of it: the real program in an emulated terminal.

The server and the worker are real, and this program types into the terminal: nothing is drawn by hand. Run it from the
root of the repository, as `make picture` does: `python -m docs.pictures.chat`. `asciinema play docs/pictures/chat.cast`
plays it.
"""

import asyncio
import base64
import html
import json
import tempfile
from itertools import groupby
from pathlib import Path

from pydantic import JsonValue
from pyte.screens import Char

from docs.pictures.take import FOLDER, SHARPNESS, TIMEOUT_SECONDS, Browser, Params, chromium, chromium_command
from tests.support.processes import dev_process
from tests.support.terminal import ALT_ENTER, COLUMNS, ENTER, Terminal, terminal
from wakeful.cli.process import run_and_leave

ROWS_SHOWN = 27
KEY_SECONDS = 0.04
COLOURS = {
    "default": "#d6deeb",
    "black": "#697098",
    "brightblack": "#7c86a8",
    "red": "#ff6b7a",
    "green": "#7fdb9a",
    "brown": "#f2c76b",
    "blue": "#82aaff",
    "magenta": "#c792ea",
    "cyan": "#6fd6e8",
    "white": "#ffffff",
}
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ display: inline-block; margin: 0; padding: 26px; background: #e9edf5; }}
main {{ width: max-content; border-radius: 10px; background: #10182b; box-shadow: 0 10px 30px #10182b55; }}
header {{ padding: 11px 16px; color: #8d97b5; font: 13px "DejaVu Sans", sans-serif; text-align: center; }}
header i {{ float: left; width: 12px; height: 12px; margin-right: 8px; border-radius: 50%; }}
pre {{ margin: 0; padding: 6px 20px 20px; color: #d6deeb; font: 15px/1.45 "DejaVu Sans Mono", monospace; }}
</style><main><header><i style="background:#ff6b7a"></i><i style="background:#f2c76b"></i>
<i style="background:#7fdb9a"></i>wakeful chat buyer</header><pre>{rows}</pre></main>"""


async def take() -> None:
    """Hold the conversation, and photograph it while a tool is at work."""
    command = chromium_command()
    async with dev_process("--app", "docs.pictures.chat_app:registry") as where:
        options = ("--thread", "coffee-bar", "--address", where["address"])
        async with terminal("chat", "buyer", *options) as seen:
            await talk(seen)
            page = PAGE.format(rows="\n".join(row(seen, number) for number in range(ROWS_SHOWN)))
            keep(FOLDER / "chat.cast", recording(seen))
    async with chromium(command) as browser:
        keep(FOLDER / "chat.png", await photograph(browser, page))


async def talk(seen: Terminal) -> None:
    await seen.until("Enter sends")
    await write(seen, "We are low on espresso machines and grinders.", ALT_ENTER, "Keep at least ten of each.", ENTER)
    await seen.until("[y]es")
    await write(seen, "y", ENTER)
    await seen.until("enough of them.")
    await seen.until(lambda seen: "Enter sends" in seen.lines[-1])
    await write(seen, "Thanks! How many filters are there?", ENTER)
    await seen.until("shelf 3 of 8")


async def write(seen: Terminal, *keys: str) -> None:
    """Type as fast as a person does: it is recorded."""
    for part in keys:
        for key in [part] if part in (ENTER, ALT_ENTER) else part:
            seen.type(key)
            await asyncio.sleep(KEY_SECONDS)


def row(seen: Terminal, number: int) -> str:
    """A row of the screen as HTML."""
    cells = [seen.screen.buffer[number][column] for column in range(COLUMNS)]
    parts = ["".join(cell.data for cell in run) for _, run in groupby(cells, key=style)]
    styles = [found for found, _ in groupby(cells, key=style)]
    return "".join(
        f'<span style="{found}">{html.escape(part)}</span>' for part, found in zip(parts, styles, strict=True)
    )


def style(cell: Char) -> str:
    return f"color:{COLOURS.get(cell.fg, COLOURS['default'])};font-weight:{700 if cell.bold else 400}"


def recording(seen: Terminal) -> bytes:
    """What the terminal was sent, and when, as asciinema keeps it."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS_SHOWN, "title": "wakeful chat"}
    lines = [json.dumps(head)]
    lines += [json.dumps([round(at, 3), "o", data.decode(errors="replace")]) for at, data in seen.raw]
    return "\n".join([*lines, ""]).encode()


def keep(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    print(path)


async def photograph(browser: Browser, page: str) -> bytes:
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(page)
        file.flush()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await show(browser, width=10, height=10)
            await browser.call("Page.navigate", {"url": f"file://{file.name}"})
            await browser.evaluate("document.fonts.ready")
            size = (await browser.call("Page.getLayoutMetrics", {}))["cssContentSize"]
            assert isinstance(size, dict)  # it is the page's
            await show(browser, width=size["width"], height=size["height"])
            await browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            screenshot = await browser.call("Page.captureScreenshot", {"format": "png"})
    return base64.b64decode(str(screenshot["data"]))


async def show(browser: Browser, *, width: JsonValue, height: JsonValue) -> None:
    view: Params = {"width": width, "height": height, "deviceScaleFactor": SHARPNESS, "mobile": False}
    await browser.call("Emulation.setDeviceMetricsOverride", view)


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(take()), name="chat.py")
