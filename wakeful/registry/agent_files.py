"""Agents that are written in files: found, read and validated. Everything that is wrong is said, with file and line.

A file has `[[agent]]` tables, `[agent.<id>]` tables, or one `[agent]`. Their keys are the fields of `Agent` that are
data; tools, gates and plugins are named. Whether there are such is for the registry to say, with the places from here.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from wakeful.authoring.agent import Agent
from wakeful.registry.located_files import TOML_SUFFIXES, YAML_SUFFIXES, Document, Fault, Key, Place, read_document

AGENT = "agent"
INSTRUCTIONS_FILE = "instructions_file"
SUFFIXES = TOML_SUFFIXES | YAML_SUFFIXES
SHOWN_VALUE = 60
"""Characters of a wrong value that a message shows."""


class FileAgent(Agent):
    """An agent that knows where it is written."""

    _document: Document = PrivateAttr()
    _key: Key = PrivateAttr()

    def place(self, *key: str | int) -> Place:
        return self._document.place(*self._key, *key)


def place_of(agent: Agent, *key: str | int) -> Place | None:
    """Where a setting of the agent is written; nowhere if the agent is code."""
    return agent.place(*key) if isinstance(agent, FileAgent) else None


@dataclass(frozen=True)
class AgentFiles:
    """What was found in files and directories."""

    agents: tuple[FileAgent, ...] = ()
    """Also those with faults, as far as they could be read: what else is wrong with them should be said, too."""
    faults: tuple[Fault, ...] = ()
    sources: tuple[Path, ...] = ()
    """Every file that was read."""
    is_whole: bool = True
    """Every agent that is written there is here. If not, one that seems to be missing may be in an unreadable file."""


def read_agents(paths: Sequence[Path | str]) -> AgentFiles:
    """Every agent of the files, and of the TOML and YAML files below the directories."""
    reading = _Reading()
    for path in paths:
        if Path(path).exists():
            for file in files_below(Path(path)):
                reading.file(file)
        else:
            reading.lost(Fault("there is no such file or directory", Place(str(path))))
    return AgentFiles(tuple(reading.agents), tuple(reading.faults), tuple(reading.sources), reading.is_whole)


def files_below(path: Path) -> list[Path]:
    """The file itself, or the agent files of the directory; hidden ones are left alone."""
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


class _Reading:
    def __init__(self) -> None:
        self.agents: list[FileAgent] = []
        self.faults: list[Fault] = []
        self.sources: list[Path] = []
        self.is_whole = True

    def lost(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.is_whole = False

    def file(self, path: Path) -> None:
        self.sources.append(path)
        document = read_document(path)
        if isinstance(document, Fault):
            self.lost(document)
            return
        for name in document.data:
            if name != AGENT:
                self._fault(f"unknown key {name!r}; a file has [[agent]] or [agent.<id>] tables", document, (name,))
        for key, table in self._tables(document):
            try:
                agent = self._agent(document, key, table)
            except (ValueError, RecursionError) as error:
                self._fault(f"the agent cannot be read: {error}", document, key)
                agent = None
            if agent is None:
                self.is_whole = False
            else:
                self.agents.append(agent)

    def _fault(self, message: str, document: Document, key: Key) -> None:
        self.faults.append(Fault(message, document.place(*key)))

    def _tables(self, document: Document) -> Iterator[tuple[Key, dict[str, Any]]]:
        written = document.data.get(AGENT, [])
        keyed: Iterator[tuple[Key, Any]]
        if isinstance(written, list):
            keyed = iter([((AGENT, index), table) for index, table in enumerate(written)])
        elif isinstance(written, dict) and not isinstance(written.get("id"), str):
            keyed = iter([((AGENT, id), table) for id, table in written.items()])
        else:
            keyed = iter([((AGENT,), written)])
        for key, table in keyed:
            if isinstance(table, dict):
                yield key, table
            else:
                expected = "write [[agent]] or [agent.<id>], and its settings below; a single [agent] needs an id"
                self.lost(Fault(f"{key[-1]!r} is no agent: {expected}", document.place(*key)))

    def _agent(self, document: Document, key: Key, table: dict[str, Any]) -> FileAgent | None:
        data = dict(table)
        id = data.setdefault("id", key[-1]) if len(key) > 1 and isinstance(key[-1], str) else data.get("id")
        if len(key) > 1 and isinstance(key[-1], str) and id != key[-1]:
            self._fault(f"agent {key[-1]!r} says that its id is {id!r}; leave one of them out", document, (*key, "id"))
        self._put_instructions(data, document, key)
        if "output" in data and not isinstance(data["output"], dict):
            del data["output"]
            message = f"agent {id!r}: output should be a table with a JSON schema; only code can give a type"
            self._fault(message, document, (*key, "output"))
        try:
            agent = FileAgent.model_validate(data)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_context=False)
            for message, where in _in_words(wrong, data):
                self._fault(f"agent {id!r}: {message}" if id else message, document, (*key, *where))
            try:
                agent = FileAgent.model_validate(_without(wrong, data))
            except ValidationError:
                return None
        agent._document, agent._key = document, key
        return agent

    def _put_instructions(self, data: dict[str, Any], document: Document, key: Key) -> None:
        """What the file says that `instructions_file` names, next to the agent's own file."""
        if INSTRUCTIONS_FILE not in data:
            return
        name, place = data.pop(INSTRUCTIONS_FILE), (*key, INSTRUCTIONS_FILE)
        if "instructions" in data:
            self._fault(
                f"agent {data.get('id')!r} has instructions and an instructions_file; choose one", document, place
            )
            return
        if not isinstance(name, str):
            self._fault(f"{INSTRUCTIONS_FILE} should be a path, not {name!r}", document, place)
            return
        path = document.path.parent / name
        self.sources.append(path)
        try:
            data["instructions"] = path.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._fault(f"{INSTRUCTIONS_FILE} {name!r} cannot be read: {reason}", document, place)


def _without(errors: Sequence[ErrorDetails], data: dict[str, Any]) -> dict[str, Any]:
    """The rest of the agent, so that more can be said of it."""
    wrong = {error["loc"][0] for error in errors if error["loc"]}
    return {name: value for name, value in data.items() if name not in wrong}


def _in_words(errors: Sequence[ErrorDetails], data: dict[str, Any]) -> list[tuple[str, Key]]:
    """What is wrong, once a key: of a union's complaints the one that a file can do something about."""
    said: dict[Key, str] = {}
    located = [(_written(error["loc"], data), error) for error in errors]
    names = {where for where, error in located if error["type"] == "string_type"}
    for where, error in located:
        # A tool, a gate or a plugin may be an object or a name, and a file has only names.
        if error["type"] != "string_type" and any(where[: len(name)] == name for name in names):
            continue
        key = (*where, str(error["loc"][-1])) if error["type"] == "missing" else where
        said.setdefault(key, _message(error, where))
    return [(message, where) for where, message in said.items()]


def _message(error: ErrorDetails, where: Key) -> str:
    name = str(error["loc"][-1]) if error["loc"] else ""
    inside = where[:-1] if where and where[-1] == name else where
    around = f" in {_dotted(inside)}" if inside else ""
    match error["type"]:
        case "extra_forbidden":
            known = [*Agent.model_fields, INSTRUCTIONS_FILE] if not inside else []
            near = difflib.get_close_matches(name, known, n=1)
            return f"unknown key {name!r}{around}" + (f"; did you mean {near[0]!r}?" if near else "")
        case "missing":
            return f"{name!r} is missing{around}"
        case "is_instance_of":
            return f"{_dotted(where)} can only be given in code"
        case _:
            message = error["msg"].removeprefix("Value error, ")
            value = repr(error["input"])
            if not message.startswith("Input should"):
                return f"{_dotted(where)}: {message}" if where else message
            shown = f", not {value}" if len(value) <= SHOWN_VALUE else ""
            return message.replace("Input", _dotted(where) or "it", 1) + shown


def _written(location: Sequence[str | int], data: Any) -> Key:
    """Of pydantic's location the part that is in the file: it also names the members of unions that it tried."""
    where: Key = ()
    for part in location:
        in_table = isinstance(data, dict) and part in data
        in_array = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_table or in_array:
            data, where = data[part], (*where, part)
    return where


def _dotted(key: Key) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")
