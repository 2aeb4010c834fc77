"""Give a resolved agent the tools of its MCP servers; a server that is away delays the run."""

import asyncio

from wakeful.authoring.mcp_server import McpServer
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import json_bytes
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry
from wakeful_activities.mcp.connections import McpConnections

LIST_SECONDS = 5.0
"""How long one attempt waits for the lists of all servers together; the next attempt finds more."""

MAX_TOOLS_BYTES = 1_000_000
"""Of all tools of an agent: history records them with every run."""


class McpAgents:
    """Lists the tools of servers when a run begins."""

    def __init__(self, registry: Registry, connections: McpConnections) -> None:
        self._registry = registry
        self._connections = connections

    async def with_tools(self, agent: ResolvedAgent) -> ResolvedAgent:
        """The agent with the tools that its servers list now.

        Raises:
            ServerAway: a server does not list its tools in time.
            ConfigurationError: the extra is not installed, or the tools are too large to record.
        """
        servers = self._registry.mcp_servers_of(agent.agent_id)
        if not servers:
            return agent
        connections = [self._connections.to(server) for server in servers]
        from wakeful_activities.mcp.tool_list import with_mcp_tools

        listed = await asyncio.gather(
            *(connection.tools(within=LIST_SECONDS) for connection in connections), return_exceptions=True
        )
        found = {}
        for server, tools in zip(servers, listed, strict=True):
            if isinstance(tools, BaseException):
                raise tools
            found[server.name] = (server, tools)
        bound = with_mcp_tools(agent, found, lambda id: self._registry.allows_tool(agent.agent_id, id))
        if (size := json_bytes(bound.tools)) > MAX_TOOLS_BYTES:
            raise _too_large(agent, servers, size)
        return bound


def _too_large(agent: ResolvedAgent, servers: tuple[McpServer, ...], size: int) -> ConfigurationError:
    named = ", ".join(repr(server.name) for server in servers)
    return ConfigurationError(
        [
            f"the tools of agent {agent.agent_id!r} have {size:,} bytes with those of MCP servers {named}; at most "
            f"{MAX_TOOLS_BYTES:,} can be recorded: choose fewer with McpServer(tools=[…])"
        ]
    )
