"""`McpServer`: a server of the Model Context Protocol, whose tools agents use. The registry checks it, workers connect.

It is configuration of the worker. History records only its name, and the tools that a run is bound to.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

from pydantic import Field, model_validator

from wakeful.contract.base import Written
from wakeful.contract.permissions import Behavior, BehaviorName
from wakeful.contract.remote import Secret
from wakeful.contract.tools import DEFAULT_HEARTBEAT_SECONDS, Effects, EffectsName

DEFAULT_MCP_TIMEOUT_SECONDS = 30.0
NAME_LENGTH = 32

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
T = TypeVar("T")


class McpServer(Written):
    """A server that workers start as a subprocess (`command`), or reach over streamable HTTP (`url`).

    Each worker has one connection to it, and starts it again if it ends.
    """

    name: str = Field(min_length=1, max_length=NAME_LENGTH)
    """Its tools are called `mcp__<name>__<tool>`."""
    command: Sequence[str] = ()
    """The program and its arguments."""
    env: Mapping[str, str | Secret] = {}
    """More environment variables of the program. It inherits only `PATH`, `HOME` and the like."""
    cwd: str | None = None
    """The working directory of the program."""
    url: str | None = None
    """The address of the endpoint, such as `https://example.com/mcp`."""
    token: Secret | None = None
    """The bearer token."""
    headers: Mapping[str, Secret] = {}
    """More headers with secret values."""
    timeout: Seconds = DEFAULT_MCP_TIMEOUT_SECONDS
    """Seconds that one call may take. Then it is cancelled at the server."""
    start_timeout: Seconds = 60.0
    """Seconds that the server may take to start and to answer the handshake."""
    heartbeat_timeout: Seconds = DEFAULT_HEARTBEAT_SECONDS
    """Seconds without a heartbeat after which the worker that makes a call counts as lost."""
    restart_delay: Seconds = 1.0
    """Seconds after a failure before a worker connects again; doubled with each failure in a row."""
    max_restart_delay: Seconds = 30.0
    """The longest such delay."""
    refresh: Seconds = 60.0
    """Seconds for which a worker remembers the list of the server's tools. Runs that have started keep theirs."""
    tools: Sequence[str] | None = None
    """Globs over the server's names of its tools, which agents get. None means all."""
    excluded_tools: Sequence[str] = ()
    """Globs over the same names. They win over `tools`."""
    permissions: Mapping[str, Behavior] = {}
    """`allow`, `ask` or `deny` by globs over the same names; the first that matches counts. Without one, a tool that
    the server declares destructive is asked about. Rules of the agent win."""
    effects: Mapping[str, Effects] = {}
    """Whether a call may run again after its worker was lost: `once`, `idempotent` or `read_only`, by globs. Without
    one, what the server declares counts."""
    pinned: Mapping[str, str] | None = None
    """The digests of the tools that you have read, by their names, as `wakeful mcp list --pins` prints them. While the
    server's tools differ, people are asked about every call of one. None means that the list may change."""
    elicitation: bool = True
    """The server may ask people questions: a call that does is suspended until someone has decided."""

    probe: bool = True
    """Ask first whether the server speaks the newest protocol. False begins with the handshake of older servers at
    once, for one that does not stand the question."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            command: Sequence[str] = ...,
            env: Mapping[str, str | Secret] = ...,
            cwd: str | None = ...,
            url: str | None = ...,
            token: Secret | None = ...,
            headers: Mapping[str, Secret] = ...,
            timeout: float = ...,
            start_timeout: float = ...,
            heartbeat_timeout: float = ...,
            restart_delay: float = ...,
            max_restart_delay: float = ...,
            refresh: float = ...,
            tools: Sequence[str] | None = ...,
            excluded_tools: Sequence[str] = ...,
            permissions: Mapping[str, Behavior | BehaviorName] = ...,
            effects: Mapping[str, Effects | EffectsName] = ...,
            pinned: Mapping[str, str] | None = ...,
            elicitation: bool = ...,
            probe: bool = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _is_reached_in_one_way(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("give command, a program to start, or url, an endpoint")
        if self.url is not None and (self.env or self.cwd is not None):
            raise ValueError("env and cwd are of a command, and the server has a url")
        if self.command and (self.token is not None or self.headers):
            raise ValueError("token and headers are of a url, and the server has a command: pass secrets in env")
        if self.url is not None and (problem := _url_problem(self.url)) is not None:
            raise ValueError(problem)
        if not re.search(r"[A-Za-z0-9]", self.name):
            raise ValueError(f"the name {self.name!r} needs a letter or a digit: ids of tools are made of it")
        return self

    def offers(self, tool: str) -> bool:
        """Whether agents get this tool of the server."""
        return (self.tools is None or _matches(tool, self.tools)) and not _matches(tool, self.excluded_tools)

    def permission_for(self, tool: str) -> Behavior | None:
        """What `permissions` say of a tool; None if they say nothing."""
        return _first(self.permissions, tool)

    def effects_of(self, tool: str) -> Effects | None:
        """What `effects` say of a tool; None if they say nothing."""
        return _first(self.effects, tool)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Everything that only workers may read."""
        values = (*self.env.values(), self.token, *self.headers.values())
        return tuple(value for value in values if isinstance(value, Secret))


def _url_problem(url: str) -> str | None:
    if not url.startswith(("http://", "https://")) or any(character.isspace() for character in url):
        return f"the url {url!r} must start with http:// or https://, and have no spaces"
    if "@" in url.split("/")[2]:
        return "the url has a user name or a password, which errors would show: use token or headers"
    return None


def _matches(tool: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, glob) for glob in globs)


def _first(by_glob: Mapping[str, T], tool: str) -> T | None:
    return next((value for glob, value in by_glob.items() if fnmatchcase(tool, glob)), None)
