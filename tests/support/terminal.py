"""A terminal with a program in it: what it shows is read from an emulated screen, and keys are typed as a person would.

Bytes that come are fed to the emulator as they come, so a test can see how the screen looked at any moment.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import time
from collections.abc import AsyncIterator, Callable

import pyte

from tests.support.processes import ROOT
from tests.support.waiting import BOUND_SECONDS

COLUMNS, ROWS = 100, 40

ENTER, ALT_ENTER, CTRL_C, CTRL_D, CTRL_O, TAB = "\r", "\x1b\r", "\x03", "\x04", "\x0f", "\t"


class _Screen(pyte.HistoryScreen):
    """Answers what a program asks its terminal, for instance where the cursor is."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, ROWS, history=1000)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def select_graphic_rendition(self, *attributes: int, **more: bool) -> None:
        """The emulator knows no dim text: grey stands for it."""
        super().select_graphic_rendition(*(90 if code == 2 else code for code in attributes), **more)


class Terminal:
    """The near side of a pseudo-terminal."""

    def __init__(self, fd: int, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.raw: list[tuple[float, bytes]] = []
        """Everything that came, and when: a recording."""
        self.screen = _Screen(self.type)
        self._fd = fd
        self._stream = pyte.ByteStream(self.screen)
        self._began = time.monotonic()
        asyncio.get_running_loop().add_reader(fd, self._read)

    @property
    def lines(self) -> list[str]:
        """What is on the screen, from its first line to its last that has something."""
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
        """As a terminal gives it to a program that has asked for it: in brackets, with the line ends of Enter."""
        self.type(f"\x1b[200~{text.replace(chr(10), chr(13))}\x1b[201~")

    async def until(self, met: Callable[["Terminal"], bool] | str) -> str:
        """Wait, with a bound, until the screen has what is wanted, and give all of it."""
        is_met = (lambda terminal: met in terminal.text) if isinstance(met, str) else met
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while not is_met(self):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never seen: {met!r}; the screen is\n{self.text}") from None
        return self.text

    async def ended(self) -> int:
        """The program's exit code."""
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.process.wait()

    def close(self) -> None:
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


@contextlib.asynccontextmanager
async def terminal(*command: str, **environ: str) -> AsyncIterator[Terminal]:
    """Run a program in a terminal of its own. It is killed in the end, if it is still there."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={**plain, "TERM": "xterm-256color", **environ},
        stdin=far,
        stdout=far,
        stderr=far,
        preexec_fn=lambda: _own(far),
    )
    os.close(far)
    shown = Terminal(near, process)
    try:
        yield shown
    finally:
        shown.close()
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        os.close(near)


def _own(terminal: int) -> None:
    """Make it the terminal that controls the program: Ctrl-C is a signal to whoever it belongs to."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
