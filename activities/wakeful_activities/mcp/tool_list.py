"""The tools of an MCP server, as a run is bound to them: descriptors and permission rules, pinned when it starts."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mcp_types import Tool, ToolAnnotations
from pydantic import JsonValue, TypeAdapter

from wakeful.authoring.mcp_server import McpServer
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.ids import mcp_tool_ids
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.tools import Effects, McpToolRef, ToolDescriptor

MARGIN_SECONDS = 120.0
"""How much longer an attempt may take than its call: gates, hooks and the connection take time, too."""

METADATA_SERVER = "mcp.server"
METADATA_TOOL = "mcp.tool"

NAMED_CHANGES = 5
"""Changes of a server's tools that a question to a person names; it counts the others."""
NAME_LENGTH = 60
"""Characters of a tool's name in such a question: servers choose names of any length."""

_SCHEMA = TypeAdapter(dict[str, JsonValue])
_TOLD = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
_ALLOW_ALL = PermissionPolicy(default_behavior=Behavior.ALLOW)


def with_mcp_tools(
    agent: ResolvedAgent, listed: Mapping[str, tuple[McpServer, Sequence[Tool]]], allows: Callable[[str], bool]
) -> ResolvedAgent:
    """The agent with the tools of its MCP servers.

    Args:
        listed: the servers by name, each with what it lists.
        allows: whether the agent's choice of tools includes an id.
    """
    tools = {tool.id: tool for tool in agent.tools}
    rules: list[Rule] = []
    for server, offered in listed.values():
        for descriptor, behavior in _offered(server, offered):
            if descriptor.id in tools or not allows(descriptor.id):
                continue
            tools[descriptor.id] = descriptor
            if behavior is not None:
                rules.append(Rule(tool=descriptor.id, behavior=behavior))
    return agent.model_copy(
        update={
            "tools": tuple(tools[id] for id in sorted(tools)),
            "permissions": _with_rules(agent.permissions, rules),
        }
    )


def pins_of(server: McpServer, listed: Iterable[Tool]) -> dict[str, str]:
    """The digest of each tool that agents get: of all that a server says of it."""
    return {tool.name: _digest(tool) for tool in sorted(listed, key=lambda tool: tool.name) if server.offers(tool.name)}


def _digest(tool: Tool) -> str:
    told = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=_TOLD)
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _changes(server: McpServer, listed: Iterable[Tool]) -> str | None:
    """How the tools differ from those that the settings pin, in words; None if they do not."""
    if server.pinned is None:
        return None
    found = list(_differences(server.pinned, pins_of(server, listed)))
    if not found:
        return None
    left = len(found) - NAMED_CHANGES
    more = f"; and {left} more changes" if left > 0 else ""
    return (
        f"MCP server {server.name!r} does not list the tools that are pinned: {'; '.join(found[:NAMED_CHANGES])}{more}"
    )


def _differences(pinned: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*pinned, *now}):
        shown = repr(name if len(name) <= NAME_LENGTH else f"{name[:NAME_LENGTH]}…")
        if name not in now:
            yield f"tool {shown} is gone"
        elif name not in pinned:
            yield f"tool {shown} is new"
        elif pinned[name] != now[name]:
            yield f"tool {shown} has another description, other parameters or other hints"


def _offered(server: McpServer, listed: Iterable[Tool]) -> Iterable[tuple[ToolDescriptor, Behavior | None]]:
    tools = [tool for tool in listed if server.offers(tool.name)]
    ids = mcp_tool_ids(server.name, (tool.name for tool in tools))
    changed = _changes(server, tools)
    for tool in tools:
        ref = McpToolRef(server=server.name, tool=tool.name, changed=changed)
        yield _descriptor(server, tool, ids[tool.name], ref), _behavior(server, tool)


def _descriptor(server: McpServer, tool: Tool, id: str, ref: McpToolRef) -> ToolDescriptor:
    return ToolDescriptor(
        id=id,
        name=tool.name,
        description=tool.description or tool.title or "",
        parameters=_SCHEMA.validate_python(tool.input_schema),
        metadata={METADATA_SERVER: server.name, METADATA_TOOL: tool.name},
        effects=server.effects_of(tool.name) or _effects(tool.annotations or ToolAnnotations()),
        timeout_seconds=server.timeout + MARGIN_SECONDS,
        heartbeat_seconds=server.heartbeat_timeout,
        mcp=ref,
    )


def _effects(hints: ToolAnnotations) -> Effects:
    if hints.read_only_hint:
        return Effects.READ_ONLY
    return Effects.IDEMPOTENT if hints.idempotent_hint else Effects.ONCE


def _behavior(server: McpServer, tool: Tool) -> Behavior | None:
    """What the server's settings say, or else `ask` for a tool that is declared destructive."""
    if (said := server.permission_for(tool.name)) is not None:
        return said
    hints = tool.annotations or ToolAnnotations()
    return Behavior.ASK if hints.destructive_hint and not hints.read_only_hint else None


def _with_rules(policy: PermissionPolicy | None, rules: Sequence[Rule]) -> PermissionPolicy | None:
    """The agent's policy with rules for the tools that it does not name itself."""
    own = {rule.tool for rule in policy.rules} if policy else set()
    more = tuple(rule for rule in rules if rule.tool not in own)
    if not more:
        return policy
    policy = policy or _ALLOW_ALL
    return PermissionPolicy(default_behavior=policy.default_behavior, rules=(*policy.rules, *more))
