"""Parse the front matter of a SKILL.md: the small subset of YAML that skills use.

    name: invoices
    description: >
      Write and check invoices.
    allowed-tools: read_file pay
    paths: ["*.md", notes]
    metadata:
      author: "Ada"

Values are strings, lists of strings, or one level of nested keys. Everything else is rejected: a line that was
misunderstood would change what a skill may do.
"""

import re
from dataclasses import dataclass

Value = str | list[str] | dict[str, str]

FENCE = "---"
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ ]+(.*))?")
_BLOCK = re.compile(r"[|>][+-]?")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_NOT_PLAIN = ("&", "*", "!", "{", "}", "[", "]", "@", "`", "%", "|", ">", "?", "'", '"')


class FrontmatterError(ValueError):
    """The front matter is malformed; the message has the line."""


def split(text: str) -> tuple[dict[str, Value], str]:
    """The keys of the front matter, and the text after it.

    Raises:
        FrontmatterError: there is no front matter, or it is malformed.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        raise FrontmatterError(f"line 1: the file must start with {FENCE!r} and front matter")
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == FENCE), None)
    if end is None:
        raise FrontmatterError(f"line {len(lines)}: the front matter has no end: write {FENCE!r} after it")
    return _Parser(lines[1:end]).mapping(), "\n".join(lines[end + 1 :]).strip()


@dataclass
class _Parser:
    """The lines, and the index of the next one."""

    lines: list[str]
    at: int = 0

    def mapping(self) -> dict[str, Value]:
        read: dict[str, Value] = {}
        while (line := self._next()) is not None:
            key, rest = self._key(line)
            if key in read:
                raise self._error(f"{key!r} is repeated")
            read[key] = self._value(rest)
        return read

    def _value(self, rest: str) -> Value:
        if _BLOCK.fullmatch(rest):
            return self._block(folded=rest[0] == ">")
        if rest:
            return self._flow(rest)
        nested = self._indented()
        if not nested:
            return ""
        if nested[0][1].startswith("- "):
            return [self._scalar(line.removeprefix("- "), at) for at, line in nested if self._is_item(line, at)]
        inner: dict[str, str] = {}
        for at, line in nested:
            key, value = self._key(line, at=at)
            inner[key] = self._scalar(value, at)
        return inner

    def _flow(self, rest: str) -> str | list[str]:
        if not rest.startswith("["):
            return self._scalar(rest)
        if not rest.endswith("]"):
            raise self._error("a list in brackets must end on its line, with ']'")
        inside = rest[1:-1].strip()
        if any(char in inside for char in "[]{}"):
            raise self._error("nested lists are not supported")
        entries = re.findall(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]+)""", inside)
        return [self._scalar(entry.strip()) for entry in entries if entry.strip()]

    def _block(self, *, folded: bool) -> str:
        """The indented lines that follow: as they are, or each paragraph folded into one line."""
        taken = []
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.lines[self.at].startswith(" ")):
            taken.append(self.lines[self.at])
            self.at += 1
        margin = min((len(line) - len(line.lstrip()) for line in taken if line.strip()), default=0)
        text = "\n".join(line[margin:].rstrip() for line in taken).strip("\n")
        return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text

    def _indented(self) -> list[tuple[int, str]]:
        """The indented lines that follow, with their numbers; all have the same indentation."""
        taken: list[tuple[int, str]] = []
        depth = None
        while self.at < len(self.lines):
            line = self.lines[self.at]
            is_item = line.startswith("- ") and (not taken or taken[0][1].startswith("- "))
            if line.strip() and not line.startswith((" ", "\t")) and not is_item:
                break
            self.at += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            margin = len(line) - len(line.lstrip())
            if line[:margin].strip(" ") or (depth is not None and margin != depth):
                raise self._error("its indentation differs from the line before it")
            depth = margin
            taken.append((self.at, line.strip()))
        return taken

    def _is_item(self, line: str, at: int) -> bool:
        if not line.startswith("- "):
            raise self._error("every entry of a list must start with '- '", at=at)
        return True

    def _key(self, line: str, *, at: int | None = None) -> tuple[str, str]:
        found = _KEY.fullmatch(line.rstrip())
        if found is None:
            raise self._error(f"{line.strip()!r} is not 'key: value'", at=at)
        return found[1], (found[2] or "").strip()

    def _scalar(self, text: str, at: int | None = None) -> str:
        text = text.strip()
        if text.startswith('"') and (quoted := re.fullmatch(r'"((?:[^"\\]|\\.)*)"', text)):
            return re.sub(r"\\(.)", lambda found: self._unescaped(found[1], at), quoted[1])
        if text.startswith("'") and (quoted := re.fullmatch(r"'((?:[^']|'')*)'", text)):
            return quoted[1].replace("''", "'")
        if text.startswith(_NOT_PLAIN):
            raise self._error(f"{text!r} is not supported; put it in quotes", at=at)
        plain = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
        if ": " in plain or plain.endswith(":"):
            raise self._error(f"{plain!r} has a colon; put it in quotes", at=at)
        return plain

    def _unescaped(self, char: str, at: int | None) -> str:
        if char not in _ESCAPES:
            raise self._error(f"the escape '\\{char}' is not supported", at=at)
        return _ESCAPES[char]

    def _next(self) -> str | None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if line.strip() and not line.lstrip().startswith("#"):
                return line
        return None

    def _error(self, message: str, *, at: int | None = None) -> FrontmatterError:
        return FrontmatterError(f"line {(self.at if at is None else at) + 1}: {message}")
