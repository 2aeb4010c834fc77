"""TOML and YAML files as data, with the line of every key, which the parsers do not report.

The meaning of the data is up to the caller. YAML needs PyYAML, which is optional.
"""

import importlib
import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KeyPath = tuple[str | int, ...]
"""The path to a value in a file: names of tables and keys, and indices of arrays."""

TOML_SUFFIXES = frozenset({".toml"})
YAML_SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, order=True)
class SourceLocation:
    file: str
    line: int = 0
    """Counted from 1; 0 means the whole file."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and where, if it is in a file."""

    message: str
    location: SourceLocation | None = None

    def __str__(self) -> str:
        return self.message if self.location is None else f"{self.location}: {self.message}"


@dataclass(frozen=True)
class LocatedFile:
    path: Path
    data: dict[str, Any]  # unchecked
    lines: Mapping[KeyPath, int]

    def location(self, *key: str | int) -> SourceLocation:
        """Where the key is, or the nearest key around it."""
        while key and key not in self.lines:
            key = key[:-1]
        return SourceLocation(str(self.path), self.lines.get(key, 1))


def read_located_file(path: Path) -> LocatedFile | Problem:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Problem(f"the file cannot be read: {reason}", SourceLocation(str(path)))
    try:
        return _yaml_document(path, text) if path.suffix in YAML_SUFFIXES else _toml_document(path, text)
    except RecursionError:
        return Problem("the file cannot be read: it is nested too deeply or recursively", SourceLocation(str(path)))
    except ValueError as error:  # such as a date with month 13: PyYAML raises what Python raises
        return Problem(f"the file cannot be read: {error}", SourceLocation(str(path)))


def _toml_document(path: Path, text: str) -> LocatedFile | Problem:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(at[1]) if at and at[1] else max(1, len(text.splitlines()))
        message = str(error)[: at.start()] if at else str(error)
        return Problem(f"not TOML: {message}", SourceLocation(str(path), line))
    return LocatedFile(path, data, _TomlLines(text).read())


_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d[^\s,\]}#]*|[^\s,\]}#]+")


class _TomlLines:
    """Scans a text that tomllib has parsed, so it is valid, and records the line of every key."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._table: KeyPath = ()
        self._last_index: dict[KeyPath, int] = {}
        """The index of the last table of each array of tables."""

    def read(self) -> dict[KeyPath, int]:
        while self._next():
            if self._next() == "[":
                self._header()
            else:
                self._pair(self._table)
        return self._lines

    def _header(self) -> None:
        line, brackets = self._line(), 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        names = self._names()
        self._at += brackets
        path: KeyPath = ()
        for count, name in enumerate(names, start=1):
            path = (*path, name)
            if brackets == 2 and count == len(names):
                self._last_index[path] = self._last_index.get(path, -1) + 1
            self._lines.setdefault(path, line)
            if path in self._last_index:
                path = (*path, self._last_index[path])
        self._lines.setdefault(path, line)
        self._table = path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        for name in self._names():
            table = (*table, name)
            self._lines.setdefault(table, line)
        self._at += 1  # the '='
        self._value(table)

    def _names(self) -> list[str]:
        """A dotted key, up to the '=' or ']' after it."""
        names = []
        while self._next() not in "=]":
            if self._next() == ".":
                self._at += 1
            elif (bare := _BARE_KEY.match(self._text, self._at)) is not None:
                names.append(bare[0])
                self._at = bare.end()
            else:
                names.append(tomllib.loads(f"name = {self._take(_STRING)}")["name"])
        return names

    def _value(self, path: KeyPath) -> None:
        match self._next():
            case "[":
                self._items(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._take(_STRING)
            case _:
                self._take(_SCALAR)

    def _items(self, path: KeyPath) -> None:
        self._at += 1
        index = 0
        while self._next() != "]":
            self._lines[*path, index] = self._line()
            self._value((*path, index))
            index += 1
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._next() != "}":
            self._pair(path)
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _next(self) -> str:
        """The next character that is neither space nor comment; empty at the end."""
        self._take(_SPACE)
        return self._text[self._at : self._at + 1]

    def _take(self, expected: re.Pattern[str]) -> str:
        found = expected.match(self._text, self._at)
        assert found is not None, f"tomllib accepted the text at character {self._at}"
        self._at = found.end()
        return found[0]

    def _line(self) -> int:
        self._next()
        return bisect_left(self._ends, self._at) + 1


def _yaml_document(path: Path, text: str) -> LocatedFile | Problem:
    try:
        yaml: Any = importlib.import_module("yaml")  # Any: PyYAML is optional, so mypy may not find it
    except ModuleNotFoundError:
        return Problem(
            "reading YAML needs PyYAML: pip install 'wakeful[yaml]', or write TOML", SourceLocation(str(path), 1)
        )
    try:
        lines: dict[KeyPath, int] = {}
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            _add_yaml_lines(root, (), lines)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, _RepeatedKey) as error:
        mark = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or str(error)
        return Problem(f"not YAML: {message}", SourceLocation(str(path), mark.line + 1 if mark else 1))
    if data is not None and not isinstance(data, dict):
        return Problem("the file has no top-level keys; start it with 'agent:'", SourceLocation(str(path), 1))
    return LocatedFile(path, data or {}, lines)


class _RepeatedKey(Exception):
    """A repeated key, of which PyYAML would silently use the last."""

    def __init__(self, name: str, mark: object) -> None:
        super().__init__(f"the key {name!r} is repeated")
        self.problem_mark = mark


def _add_yaml_lines(node: Any, path: KeyPath, lines: dict[KeyPath, int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if node.id == "mapping":
        for name, value in node.value:
            inner = (*path, name.value if isinstance(name.value, str) else "")
            if inner in lines:
                raise _RepeatedKey(str(name.value), name.start_mark)
            lines[inner] = name.start_mark.line + 1
            _add_yaml_lines(value, inner, lines)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            _add_yaml_lines(value, (*path, index), lines)
