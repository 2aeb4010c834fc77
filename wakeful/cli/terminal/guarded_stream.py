"""The one place through which everything passes that our programs print.

Models, tools and users write much of it. On a terminal, a control character of theirs could move the cursor, change
what other lines say or run a command of the terminal; a bidirectional override or a joiner could make a text look like
another. So the streams of a program show such characters as text, in the form that JSON has for them: a line of JSON
stays valid and means the same. Control sequences of our own pass, because `own` marks them with a number that no
content can know. It imports only what `--help` needs.
"""

import io
import os
import re
import sys
import unicodedata
from typing import TextIO

CSI = "\x1b["
"""Begins a control sequence: of colours, and of the cursor."""

_JOINER = re.compile("(?<=[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?=[\x00-\x7f])")
"""Joiners shape emoji and several scripts; beside ASCII they only make two texts look alike."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


class _Shown(dict[int, str]):
    """What each character is shown as; filled as characters appear."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        # Spaces of all kinds are harmless, though Python calls them unprintable.
        is_harmless = char.isprintable() or char in "\n\t\u200c\u200d" or unicodedata.category(char) == "Zs"
        self[code] = char if is_harmless else escaped(char)
        return self[code]


_SHOWN = _Shown()


def readable(text: str) -> str:
    """The text with its lines, spaces and tabs, and with characters escaped that control a terminal or deceive."""
    plain = _JOINER.sub(lambda joiner: escaped(joiner[0]), text)
    return plain.replace("\r\n", "\n").translate(_SHOWN)


def escaped(char: str) -> str:
    """The character as JSON escapes it."""
    units = char.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class GuardedStream(io.TextIOWrapper):
    """A standard stream of a program. It shows what could deceive as text, except our own control sequences."""

    colours_pass = False
    """Whether the colours of others pass, too: for programs that run an app, which may print and log as it likes."""

    replaced: TextIO
    """The stream that it replaces. When that is freed, it closes the file."""

    def write(self, text: str) -> int:
        super().write(CSI.join(self._shown(part) for part in text.split(_Mark.begin)))
        return len(text)

    def writelines(self, lines: object) -> None:
        for line in lines:  # type: ignore[attr-defined]  # typeshed's type of the parameter is private
            self.write(line)

    def _shown(self, text: str) -> str:
        if not self.colours_pass:
            return readable(text)
        texts, colours = _COLOUR.split(text), _COLOUR.findall(text)
        return "".join(readable(text) + colour for text, colour in zip(texts, [*colours, ""], strict=True))


class _Mark:
    """How control sequences of our own begin: as any do, until the streams are guarded."""

    begin = CSI


def own(sequence: str) -> str:
    """A control sequence of ours, so that a guarded stream lets it pass."""
    return sequence.replace(CSI, _Mark.begin)


def guard_streams() -> None:
    """Guard this program's standard output and standard error."""
    _Mark.begin = f"{CSI}{int.from_bytes(os.urandom(8), 'big')};"
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


def let_colours_pass() -> None:
    """From here on the program runs an app, whose own colours are shown."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, GuardedStream):
            stream.colours_pass = True


def _guarded(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # a test has replaced it
    stream.flush()
    guarded = GuardedStream(
        stream.buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    guarded.replaced = stream
    return guarded
