"""A terminal with `wakeful` in it: a test reads an emulated screen, and types keys as a person does.

The emulator is fed each byte as it arrives, so a test can see the screen at any moment.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pyte

from tests.support.processes import Program
from tests.support.waiting import BOUND_SECONDS

COLUMNS, ROWS = 100, 40

ENTER, ALT_ENTER, CTRL_C, CTRL_D, CTRL_O, TAB = "\r", "\x1b\r", "\x03", "\x04", "\x0f", "\t"


class _EmulatedScreen(pyte.HistoryScreen):
    """Answers a program's queries to its terminal, for instance where the cursor is."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, ROWS, history=1000)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def select_graphic_rendition(self, *attributes: int, **more: bool) -> None:
        """The emulator has no dim text: show it as grey."""
        super().select_graphic_rendition(*(90 if code == 2 else code for code in attributes), **more)


class Terminal:
    """The near side of a pseudo-terminal."""

    def __init__(self, fd: int, process: Program) -> None:
        self.process = process
        self.raw: list[tuple[float, bytes]] = []
        """Every byte with its time: a recording."""
        self.screen = _EmulatedScreen(self.type)
        self._fd = fd
        self._stream = pyte.ByteStream(self.screen)
        self._began = time.monotonic()
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read)

    @property
    def lines(self) -> list[str]:
        """The screen, without the empty lines at its end."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def paste(self, text: str) -> None:
        """Bracketed paste, with carriage returns as line ends."""
        self.type(f"\x1b[200~{text.replace(chr(10), chr(13))}\x1b[201~")

    async def until(self, met: Callable[["Terminal"], bool] | str) -> str:
        """Wait, with a bound, until the screen meets a condition, and return its text.

        It looks only when the program has written something: reading an emulated screen takes milliseconds.
        """
        is_met = (lambda terminal: met in terminal.text) if isinstance(met, str) else met
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while not is_met(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never seen: {met!r}; the screen is\n{self.text}") from None
        return self.text

    async def ended(self) -> int:
        """The program's exit code, once all that it wrote is on the screen."""
        async with asyncio.timeout(BOUND_SECONDS):
            code = await self.process.wait()
            await self._closed.wait()
        return code

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(ValueError):
            asyncio.get_running_loop().remove_reader(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the program has ended
            data = b""
        if not data:
            self.close()
            return
        self.raw.append((time.monotonic() - self._began, data))
        self._stream.feed(data)
        self._changed.set()


@contextlib.asynccontextmanager
async def terminal(*args: str, out: Path | None = None, **environ: str) -> AsyncIterator[Terminal]:
    """Run the `wakeful` command in a terminal of its own. It is killed in the end, if it still runs.

    Args:
        out: a file for its standard output, as a shell redirects it.
    """
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    env = {**plain, "TERM": "xterm-256color", **environ}
    stdout = os.dup(far) if out is None else os.open(out, os.O_WRONLY | os.O_CREAT)
    shown = Terminal(near, await Program.start(args, env, os.dup(far), stdout, far))
    try:
        yield shown
    finally:
        shown.close()
        shown.process.kill()
        await shown.process.wait()
        os.close(near)
