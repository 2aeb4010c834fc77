"""Agents as MCP tools: `app` serves them over HTTP, `serve_stdio` to the program that started this one.

A layer above the client: every call starts, continues or joins a durable run, which neither a lost connection nor a
restart of this server ends. The protocol is that of the package `mcp`, which is imported when a server is built.
"""

from wakeful.mcp.transports import app, serve_stdio

__all__ = ["app", "serve_stdio"]
