"""What `wakeful mcp` does: which servers its options name, and what it prints of them. It needs no Temporal."""

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from wakeful.authoring.mcp_server import McpServer
from wakeful.cli.terminal.text import printable
from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.elicitation import ElicitedQuestion
from wakeful.contract.errors import CallerError, ConfigurationError
from wakeful.contract.permissions import Behavior
from wakeful.contract.remote import Secret
from wakeful.contract.tools import Effects, McpToolRef, ToolDescriptor, ToolResult, ToolStatus
from wakeful.worker import load_registry
from wakeful_activities.mcp.connections import McpConnections
from wakeful_activities.mcp.failures import McpFailure

if TYPE_CHECKING:
    from mcp_types import Tool

    from wakeful_activities.mcp.connection import Answer

UNNAMED = "server"
_NO_MODEL = ModelBinding(id="none", provider="none", name="none")
_EFFECTS = {Effects.ONCE: "runs once", Effects.IDEMPOTENT: "idempotent", Effects.READ_ONLY: "read only"}


@dataclass(frozen=True)
class Source:
    """Where the options of a command say that the servers are."""

    app: str | None
    agents: Sequence[Path]
    command: str | None
    url: str | None
    env: Sequence[str]
    token: str | None

    def servers(self, names: Sequence[str], *, exactly: int | None = None) -> list[McpServer]:
        """The servers with these names, or all.

        Raises:
            ConfigurationError: no server is named, or the registry has problems.
            CallerError: a name is unknown, or the number is another than `exactly`.
        """
        known = self._known(names)
        if unknown := [name for name in names if name not in known]:
            raise CallerError(f"no MCP server {unknown[0]!r}; registered: {', '.join(sorted(known)) or 'none'}")
        found = [known[name] for name in names or sorted(known)]
        if exactly is not None and len(found) != exactly:
            raise CallerError(f"name one of the MCP servers: {', '.join(sorted(known)) or 'there is none'}")
        return found

    def _known(self, names: Sequence[str]) -> dict[str, McpServer]:
        if self.command is None and self.url is None:
            if not (self.app or self.agents):
                raise ConfigurationError(
                    ["name a server: your registry with --app, files with --agents, or one with --command or --url"]
                )
            return dict(load_registry(self.app, agent_files=self.agents).mcp_servers)
        name = names[0] if names else UNNAMED
        made = McpServer(
            name=name,
            command=shlex.split(self.command or ""),
            url=self.url,
            env={each: Secret(env=each) for each in self.env},
            token=Secret(env=self.token) if self.token else None,
        )
        return {name: made}


def print_tools(servers: Sequence[McpServer], *, as_json: bool) -> None:
    """Print the tools of each server. Those of other servers are printed even if one fails.

    Raises:
        CallerError: a server does not list its tools.
    """
    from wakeful_activities.mcp.tool_list import with_mcp_tools

    def show(server: McpServer, tools: Sequence["Tool"], protocol: str) -> None:
        empty = ResolvedAgent(agent_id="none", model=_NO_MODEL)
        bound = with_mcp_tools(empty, {server.name: (server, tools)}, lambda _id: True)
        lines = [tool.model_dump_json() for tool in bound.tools] if as_json else _lines(server, protocol, bound)
        print("\n".join(lines))

    _for_each(servers, show)


def print_pins(servers: Sequence[McpServer]) -> None:
    """Print a JSON object for each server: the digests of its tools by their names.

    Raises:
        CallerError: a server does not list its tools.
    """
    from wakeful_activities.mcp.tool_list import pins_of

    _for_each(servers, lambda server, tools, _: print(json.dumps(pins_of(server, tools), indent=2)))


def _for_each(servers: Sequence[McpServer], show: Callable[[McpServer, Sequence["Tool"], str], None]) -> None:
    if problems := asyncio.run(_show_all(servers, show)):
        raise CallerError("\n".join(problems))


async def _show_all(
    servers: Sequence[McpServer], show: Callable[[McpServer, Sequence["Tool"], str], None]
) -> list[str]:
    connections, problems = McpConnections(), []
    try:
        for server in servers:
            connection = connections.to(server)
            try:
                tools = await connection.tools(within=server.start_timeout)
                client = await connection.client(within=server.start_timeout)
            except McpFailure as failure:
                problems.append(str(failure))
                continue
            show(server, tools, client.protocol_version)
    finally:
        await connections.aclose()
    return problems


def _lines(server: McpServer, protocol: str, bound: ResolvedAgent) -> list[str]:
    rules = {rule.tool: rule.behavior for rule in bound.permissions.rules} if bound.permissions else {}
    width = max((len(tool.id) for tool in bound.tools), default=0)
    head = f"{server.name}: {server.url or shlex.join(server.command)} (protocol {protocol})"
    return [head, *(_line(tool, rules.get(tool.id), width) for tool in bound.tools)]


def _line(tool: ToolDescriptor, behavior: Behavior | None, width: int) -> str:
    notes = _EFFECTS[tool.effects] + (f", {behavior.value}" if behavior else "")
    first = printable(tool.description.strip().partition("\n")[0])
    return f"  {tool.id.ljust(width)}  [{notes}] {first}".rstrip()


def print_result(server: McpServer, tool: str, arguments: JsonValue, *, as_json: bool) -> None:
    """Call a tool and print its result.

    Raises:
        CallerError: the tool or the connection failed, or the server asks a question.
    """
    result = asyncio.run(_call(server, tool, arguments))
    if as_json:
        print(result.model_dump_json())
    elif result.status is ToolStatus.SUCCESS:
        print(result.text)
        for block in result.media:
            print(f"[{block.type}]")
    if result.status is ToolStatus.ERROR:
        raise CallerError(f"{tool}: {result.text}")


async def _call(server: McpServer, tool: str, arguments: JsonValue) -> ToolResult:
    connections = McpConnections()
    connection = connections.to(server)
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult

    from wakeful_activities.mcp.connection import ToolRequest
    from wakeful_activities.mcp.content import tool_result

    given = arguments if isinstance(arguments, dict) else {}
    try:
        request = ToolRequest(tool, given, on_progress=_print_progress)
        answer = await connection.call(request, within=server.start_timeout)
    except TimeoutError:
        raise CallerError(f"{tool}: it took longer than {server.timeout:g} s") from None
    except (McpFailure, MCPError, RuntimeError) as error:
        raise CallerError(f"{tool}: {connection.clean(str(error))}") from None
    finally:
        await connections.aclose()
    if isinstance(answer, CallToolResult):
        return tool_result(tool, McpToolRef(server=server.name, tool=tool), answer, connection.clean)
    asked = " and ".join(repr(question) for question in _questions(answer)) or "for more time"
    raise CallerError(f"{tool}: the server asks {asked}: in a run, the call waits in the inbox until someone answers")


def _questions(answer: "Answer") -> Iterator[str]:
    if isinstance(answer, ElicitedQuestion):
        yield answer.message
        return
    for name, wanted in (getattr(answer, "input_requests", None) or {}).items():
        yield str(getattr(wanted.params, "message", name))


def _print_progress(progress: float, total: float | None, message: str | None) -> None:
    of = f"/{total:g}" if total else ""
    print(f"… {progress:g}{of} {printable(message or '')}".rstrip(), file=sys.stderr)
