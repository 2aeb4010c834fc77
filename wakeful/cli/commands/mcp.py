"""`wakeful mcp`: agents as tools of other programs, by the Model Context Protocol."""

import typer

from wakeful.cli.mcp_serve import serve

mcp = typer.Typer(
    name="mcp",
    help="Serve agents as MCP tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
mcp.command()(serve)


@mcp.callback()
def group() -> None:
    """Serve agents as MCP tools."""
