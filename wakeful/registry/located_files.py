"""TOML and YAML files as data, with the line on which every key stands: the parsers themselves do not tell.

What the data means is the business of whoever reads it. YAML needs PyYAML, which is optional.
"""

import importlib
import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Key = tuple[str | int, ...]
"""Where a value is in a document: names of tables and keys, and indices of arrays."""

TOML_SUFFIXES = frozenset({".toml"})
YAML_SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, order=True)
class Place:
    file: str
    line: int = 0
    """From 1; 0 if it is about the file as a whole."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Fault:
    """Something that is wrong, and where it is written, if it is in a file."""

    message: str
    place: Place | None = None

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.place}: {self.message}"


@dataclass(frozen=True)
class Document:
    path: Path
    data: dict[str, Any]  # whatever the file says: it is checked by who reads it
    lines: Mapping[Key, int]

    def place(self, *key: str | int) -> Place:
        """Where the key stands, or else the nearest thing around it."""
        while key and key not in self.lines:
            key = key[:-1]
        return Place(str(self.path), self.lines.get(key, 1))


def read_document(path: Path) -> Document | Fault:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Fault(f"the file cannot be read: {reason}", Place(str(path)))
    try:
        return _yaml_document(path, text) if path.suffix in YAML_SUFFIXES else _toml_document(path, text)
    except RecursionError:
        return Fault("the file cannot be read: it is nested too deeply, or within itself", Place(str(path)))
    except ValueError as error:  # a date with a thirteenth month, for one: PyYAML lets Python complain
        return Fault(f"the file cannot be read: {error}", Place(str(path)))


def _toml_document(path: Path, text: str) -> Document | Fault:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(at[1]) if at and at[1] else max(1, len(text.splitlines()))
        said = str(error)[: at.start()] if at else str(error)
        return Fault(f"not TOML: {said}", Place(str(path), line))
    return Document(path, data, _TomlLines(text).read())


_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d[^\s,\]}#]*|[^\s,\]}#]+")


class _TomlLines:
    """Goes over a text that tomllib has read, so nothing in it can be wrong, and notes where every key begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[Key, int] = {}
        self._table: Key = ()
        self._newest: dict[Key, int] = {}
        """By array of tables, the index of its last one."""

    def read(self) -> dict[Key, int]:
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
        place: Key = ()
        for count, name in enumerate(names, start=1):
            place = (*place, name)
            if brackets == 2 and count == len(names):
                self._newest[place] = self._newest.get(place, -1) + 1
            self._lines.setdefault(place, line)
            if place in self._newest:
                place = (*place, self._newest[place])
        self._lines.setdefault(place, line)
        self._table = place

    def _pair(self, table: Key) -> None:
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

    def _value(self, place: Key) -> None:
        match self._next():
            case "[":
                self._items(place)
            case "{":
                self._inline_table(place)
            case '"' | "'":
                self._take(_STRING)
            case _:
                self._take(_SCALAR)

    def _items(self, place: Key) -> None:
        self._at += 1
        index = 0
        while self._next() != "]":
            self._lines[*place, index] = self._line()
            self._value((*place, index))
            index += 1
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, place: Key) -> None:
        self._at += 1
        while self._next() != "}":
            self._pair(place)
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _next(self) -> str:
        """The next character that means something; nothing at the end."""
        self._take(_SPACE)
        return self._text[self._at : self._at + 1]

    def _take(self, expected: re.Pattern[str]) -> str:
        found = expected.match(self._text, self._at)
        assert found is not None, f"tomllib took what is at character {self._at} for TOML"
        self._at = found.end()
        return found[0]

    def _line(self) -> int:
        self._next()
        return bisect_left(self._ends, self._at) + 1


def _yaml_document(path: Path, text: str) -> Document | Fault:
    try:
        yaml: Any = importlib.import_module("yaml")  # Any: it is optional, and mypy may not have it
    except ModuleNotFoundError:
        return Fault("reading YAML needs PyYAML: pip install 'wakeful[yaml]', or write TOML", Place(str(path), 1))
    try:
        lines: dict[Key, int] = {}
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            _note_yaml_lines(root, (), lines)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, _Repeated) as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error)
        return Fault(f"not YAML: {said}", Place(str(path), mark.line + 1 if mark else 1))
    if data is not None and not isinstance(data, dict):
        return Fault("the file has no keys at its top; begin with 'agent:'", Place(str(path), 1))
    return Document(path, data or {}, lines)


class _Repeated(Exception):
    """PyYAML lets the last of several equal keys win, and says nothing."""

    def __init__(self, name: str, mark: object) -> None:
        super().__init__(f"the key {name!r} is there twice")
        self.problem_mark = mark


def _note_yaml_lines(node: Any, place: Key, lines: dict[Key, int]) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if node.id == "mapping":
        for name, value in node.value:
            inner = (*place, name.value if isinstance(name.value, str) else "")
            if inner in lines:
                raise _Repeated(str(name.value), name.start_mark)
            lines[inner] = name.start_mark.line + 1
            _note_yaml_lines(value, inner, lines)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            _note_yaml_lines(value, (*place, index), lines)
