"""The connections of a process to MCP servers, by the server's name. `mcp` is imported with the first one."""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from wakeful.authoring.mcp_server import McpServer
from wakeful.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from wakeful_activities.mcp.connection import McpConnection


class McpConnections:
    """Opens each connection when it is first needed."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ
        self._open: dict[str, McpConnection] = {}
        self._retired: set[McpConnection] = set()

    def to(self, server: McpServer) -> "McpConnection":
        """The connection to the server. One with other settings, of an older registry, ends with its last call.

        Raises:
            ConfigurationError: the extra is not installed.
        """
        check_installed([server.name])
        from wakeful_activities.mcp.connection import McpConnection

        known = self._open.get(server.name)
        if known is not None and known.server == server:
            return known
        if known is not None:
            known.retire()
            self._retired.add(known)
        made = self._open[server.name] = McpConnection(server, self._environ)
        return made

    async def aclose(self) -> None:
        """Close all connections, and stop the servers that are subprocesses."""
        connections = [*self._open.values(), *self._retired]
        self._open, self._retired = {}, set()
        await asyncio.gather(*(connection.aclose() for connection in connections))


def check_installed(servers: list[str]) -> None:
    """Raise if servers are used, and the SDK is not installed."""
    if servers and find_spec("mcp") is None:
        named = ", ".join(map(repr, servers))
        raise ConfigurationError([f"MCP server {named} needs the extra 'mcp': pip install 'wakeful[mcp]'"])
