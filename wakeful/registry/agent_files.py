"""Agents in TOML and YAML files: found, read and validated. All problems are listed, with file and line.

A file has `[[agent]]` tables, `[agent.<id>]` tables, or one `[agent]`. The keys are the fields of `Agent` that are
data; tools, gates and plugins are referred to by name. `[mcp.<name>]` tables have the fields of `McpServer`, which
agents refer to by name, and `[source.<name>]` tables those of `A2aSource`. The registry checks the names, with the
locations from here.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.agent import Agent
from wakeful.authoring.mcp_server import McpServer
from wakeful.contract.field_problems import dotted, path_in
from wakeful.contract.suggestions import did_you_mean
from wakeful.registry.located_files import (
    TOML_SUFFIXES,
    YAML_SUFFIXES,
    KeyPath,
    LocatedFile,
    Problem,
    SourceLocation,
    read_located_file,
)

AGENT = "agent"
MCP = "mcp"
SOURCE = "source"
INSTRUCTIONS_FILE = "instructions_file"
SUFFIXES = TOML_SUFFIXES | YAML_SUFFIXES
SHOWN_VALUE = 60
"""The longest wrong value that a message quotes, in characters."""


class FileAgent(Agent):
    """An agent from a file, with its location."""

    _file: LocatedFile = PrivateAttr()
    _key: KeyPath = PrivateAttr()

    def location(self, *key: str | int) -> SourceLocation:
        return self._file.location(*self._key, *key)


def location_of(agent: Agent, *key: str | int) -> SourceLocation | None:
    """Where a field of the agent is written; None if the agent is defined in code."""
    return agent.location(*key) if isinstance(agent, FileAgent) else None


@dataclass(frozen=True)
class AgentFiles:
    """The agents that were found in files and directories."""

    agents: tuple[FileAgent, ...] = ()
    """Also those with problems, without their invalid fields, so that their other problems are found too."""
    mcp_servers: tuple[McpServer, ...] = ()
    sources: tuple[tuple[A2aSource, SourceLocation], ...] = ()
    problems: tuple[Problem, ...] = ()
    files_read: tuple[Path, ...] = ()
    is_complete: bool = True
    """Whether every agent could be read. If not, an unknown agent may be in an unreadable file."""


def read_agents(paths: Sequence[Path | str]) -> AgentFiles:
    """Read every agent in these files, and in all TOML and YAML files under these directories."""
    reader = _Reader()
    for path in paths:
        if Path(path).exists():
            for file in _agent_files(Path(path)):
                reader.read(file)
        else:
            reader.skip(Problem("no such file or directory", SourceLocation(str(path))))
    return AgentFiles(
        tuple(reader.agents),
        tuple(reader.mcp_servers),
        tuple(reader.sources),
        tuple(reader.problems),
        tuple(reader.files_read),
        reader.is_complete,
    )


def _agent_files(path: Path) -> list[Path]:
    """The file itself, or the agent files under the directory, without hidden ones."""
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


class _Reader:
    def __init__(self) -> None:
        self.agents: list[FileAgent] = []
        self.mcp_servers: list[McpServer] = []
        self.sources: list[tuple[A2aSource, SourceLocation]] = []
        self.problems: list[Problem] = []
        self.files_read: list[Path] = []
        self.is_complete = True

    def skip(self, problem: Problem) -> None:
        """Record a problem because of which an agent is missing."""
        self.problems.append(problem)
        self.is_complete = False

    def read(self, path: Path) -> None:
        self.files_read.append(path)
        file = read_located_file(path)
        if isinstance(file, Problem):
            self.skip(file)
            return
        for name in file.data:
            if name not in (AGENT, MCP, SOURCE):
                expected = "a file has [[agent]], [agent.<id>], [mcp.<name>] and [source.<name>] tables"
                self._problem(f"unknown key {name!r}; {expected}", file, (name,))
        self._read_mcp_servers(file)
        self._read_sources(file)
        for key, table in self._tables(file):
            try:
                agent = self._agent(file, key, table)
            except (ValueError, RecursionError) as error:
                self._problem(f"the agent cannot be read: {error}", file, key)
                agent = None
            if agent is None:
                self.is_complete = False
            else:
                self.agents.append(agent)

    def _read_mcp_servers(self, file: LocatedFile) -> None:
        written = file.data.get(MCP, {})
        if not isinstance(written, dict) or not all(isinstance(table, dict) for table in written.values()):
            self._problem("mcp is not a table of servers: write [mcp.<name>] and the settings under it", file, (MCP,))
            return
        for name, table in written.items():
            try:
                self.mcp_servers.append(McpServer.model_validate({"name": name, **table}))
            except ValidationError as error:
                errors = error.errors(include_url=False, include_context=False)
                for message, where in _messages(errors, table, known=McpServer.model_fields):
                    self._problem(f"MCP server {name!r}: {message}", file, (MCP, name, *where))

    def _problem(self, message: str, file: LocatedFile, key: KeyPath) -> None:
        self.problems.append(Problem(message, file.location(*key)))

    def _read_sources(self, file: LocatedFile) -> None:
        written = file.data.get(SOURCE, {})
        tables = written if isinstance(written, dict) else {}
        if not all(isinstance(table, dict) for table in (written, *tables.values())):
            self.skip(Problem("write [source.<name>], and the settings of the source under it", file.location(SOURCE)))
            return
        for name, table in tables.items():
            try:
                source = A2aSource.model_validate({**table, "name": name})
            except ValidationError as error:
                errors = error.errors(include_url=False, include_context=False)
                for message, where in _messages(errors, {**table, "name": name}, known=A2aSource.model_fields):
                    key = (SOURCE, name, *where) if where != ("name",) else (SOURCE, name)
                    self.skip(Problem(f"source {name!r}: {message}", file.location(*key)))
            else:
                self.sources.append((source, file.location(SOURCE, name)))

    def _tables(self, file: LocatedFile) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
        written = file.data.get(AGENT, [])
        keyed: Iterator[tuple[KeyPath, Any]]
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
                expected = "write [[agent]] or [agent.<id>] and the settings under it; a single [agent] needs an id"
                self.skip(Problem(f"{key[-1]!r} is not an agent: {expected}", file.location(*key)))

    def _agent(self, file: LocatedFile, key: KeyPath, table: dict[str, Any]) -> FileAgent | None:
        data = dict(table)
        id = data.setdefault("id", key[-1]) if len(key) > 1 and isinstance(key[-1], str) else data.get("id")
        if len(key) > 1 and isinstance(key[-1], str) and id != key[-1]:
            self._problem(f"agent {key[-1]!r} has the id {id!r}; remove one of the two", file, (*key, "id"))
        self._read_instructions(data, file, key)
        if "output" in data and not isinstance(data["output"], dict):
            del data["output"]
            message = f"agent {id!r}: output must be a table with a JSON schema; use code for a type"
            self._problem(message, file, (*key, "output"))
        try:
            agent = FileAgent.model_validate(data)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            for message, where in _messages(errors, data, known=(*Agent.model_fields, INSTRUCTIONS_FILE)):
                self._problem(f"agent {id!r}: {message}" if id else message, file, (*key, *where))
            try:
                agent = FileAgent.model_validate(_valid_fields(errors, data))
            except ValidationError:
                return None
        agent._file, agent._key = file, key
        return agent

    def _read_instructions(self, data: dict[str, Any], file: LocatedFile, key: KeyPath) -> None:
        """Replace `instructions_file`, a path relative to the agent's file, with the instructions in it."""
        if INSTRUCTIONS_FILE not in data:
            return
        name, where = data.pop(INSTRUCTIONS_FILE), (*key, INSTRUCTIONS_FILE)
        if "instructions" in data:
            self._problem(f"agent {data.get('id')!r} has instructions and an instructions_file; use one", file, where)
            return
        if not isinstance(name, str):
            self._problem(f"{INSTRUCTIONS_FILE} must be a path, not {name!r}", file, where)
            return
        path = file.path.parent / name
        self.files_read.append(path)
        try:
            data["instructions"] = path.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, ValueError) as error:  # ValueError: the path has a NUL character
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._problem(f"{INSTRUCTIONS_FILE} {name!r} cannot be read: {reason}", file, where)


def _valid_fields(errors: Sequence[ErrorDetails], data: dict[str, Any]) -> dict[str, Any]:
    """The fields without errors, so that the registry can check those."""
    invalid = {error["loc"][0] for error in errors if error["loc"]}
    return {name: value for name, value in data.items() if name not in invalid}


def _messages(
    errors: Sequence[ErrorDetails], data: dict[str, Any], *, known: Collection[str]
) -> list[tuple[str, KeyPath]]:
    """One message per key. Of the errors of a union, only the one that a file can fix.

    Args:
        known: the keys that the table can have.
    """
    messages: dict[KeyPath, str] = {}
    located = [(path_in(error["loc"], data), error) for error in errors]
    names = {where for where, error in located if error["type"] == "string_type"}
    for where, error in located:
        # A tool, a gate or a plugin can be an object or a name; a file has only names.
        if error["type"] != "string_type" and any(where[: len(name)] == name for name in names):
            continue
        key = (*where, str(error["loc"][-1])) if error["type"] == "missing" else where
        messages.setdefault(key, _message(error, where, [*known]))
    return [(message, where) for where, message in messages.items()]


def _message(error: ErrorDetails, where: KeyPath, known: Sequence[str]) -> str:
    name = str(error["loc"][-1]) if error["loc"] else ""
    inside = where[:-1] if where and where[-1] == name else where
    around = f" in {dotted(inside)}" if inside else ""
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key {name!r}{around}{did_you_mean(name, known if not inside else [])}"
        case "missing":
            return f"{name!r} is missing{around}"
        case "is_instance_of":
            return f"{dotted(where)} can only be set in code"
        case _:
            message = error["msg"].removeprefix("Value error, ")
            value = repr(error["input"])
            if not message.startswith("Input should"):
                return f"{dotted(where)}: {message}" if where else message
            shown = f", not {value}" if len(value) <= SHOWN_VALUE else ""
            return message.replace("Input", dotted(where) or "it", 1) + shown
