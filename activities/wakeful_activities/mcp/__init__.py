"""Tools of MCP servers: one connection per server and worker, and the calls over it. Only here is `mcp` imported."""
