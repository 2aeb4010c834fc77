"""An app that prints when it is imported, and agents of whose registry the MCP server must keep stdout clean."""

from tests.support.served_agents_app import registry

print("I was imported!", flush=True)

__all__ = ["registry"]
