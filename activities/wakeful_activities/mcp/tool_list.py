"""The tools of an MCP server, as a run is bound to them: descriptors and permission rules, pinned when it starts."""

from collections.abc import Callable, Iterable, Mapping, Sequence

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

_SCHEMA = TypeAdapter(dict[str, JsonValue])
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


def _offered(server: McpServer, listed: Iterable[Tool]) -> Iterable[tuple[ToolDescriptor, Behavior | None]]:
    tools = [tool for tool in listed if server.offers(tool.name)]
    ids = mcp_tool_ids(server.name, (tool.name for tool in tools))
    for tool in tools:
        yield _descriptor(server, tool, ids[tool.name]), _behavior(server, tool)


def _descriptor(server: McpServer, tool: Tool, id: str) -> ToolDescriptor:
    return ToolDescriptor(
        id=id,
        name=tool.name,
        description=tool.description or tool.title or "",
        parameters=_SCHEMA.validate_python(tool.input_schema),
        metadata={METADATA_SERVER: server.name, METADATA_TOOL: tool.name},
        effects=server.effects_of(tool.name) or _effects(tool.annotations or ToolAnnotations()),
        timeout_seconds=server.timeout + MARGIN_SECONDS,
        heartbeat_seconds=server.heartbeat_timeout,
        mcp=McpToolRef(server=server.name, tool=tool.name),
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
