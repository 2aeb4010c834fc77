"""What the tests of the MCP server read of a result."""

from mcp import types


def text(result: types.CallToolResult) -> str:
    """The answer."""
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


def thread_of(result: types.CallToolResult) -> str:
    assert result.meta is not None
    return str(result.meta["wakeful/thread_id"])


def ticket_of(result: types.CallToolResult) -> str:
    """The ticket of the only decision that a run waits for."""
    [decision] = result.structured_content["waiting"]["decisions"]
    return str(decision["ticket"])
