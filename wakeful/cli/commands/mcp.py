"""`wakeful mcp`: agents as tools of other programs, and the MCP servers whose tools your agents use."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.mcp_serve import serve

mcp = typer.Typer(
    name="mcp",
    help="Serve agents as MCP tools, and try MCP servers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
mcp.command()(serve)

McpAppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="REGISTRY",
        help="The registry that names the servers: module:registry or path/to/file.py:registry.",
    ),
]
CommandOption = Annotated[
    str | None,
    typer.Option("--command", metavar="COMMAND", help="Start this program, such as 'uvx mcp-server-time'."),
]
UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Connect to this endpoint instead, over streamable HTTP.")
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME", help="With --command: an environment variable to pass on. Repeatable."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", metavar="NAME", help="With --url: the environment variable that has the bearer token."),
]


@mcp.callback()
def group() -> None:
    """Serve agents as MCP tools, and try MCP servers."""


@mcp.command("list")
def list_tools(
    servers: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERVER", help="Names of servers in the registry. [default: all]"),
    ] = None,
    app: McpAppOption = None,
    agents: options.AgentsOption = None,
    command: CommandOption = None,
    url: UrlOption = None,
    env: EnvOption = None,
    token: TokenOption = None,
    as_json: options.JsonOption = False,
    pins: Annotated[
        bool, typer.Option("--pins", help="Print the digests of the tools instead, for `pinned` of the server.")
    ] = False,
) -> None:
    """List the tools of MCP servers, as an agent gets them."""
    from wakeful.cli.mcp_servers import Source, print_pins, print_tools

    named = Source(app, agents or [], command, url, env or [], token).servers(servers or [])
    if pins:
        print_pins(named)
    else:
        print_tools(named, as_json=as_json)


@mcp.command()
def call(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[SERVER] TOOL", help="The server's own name of the tool, and whose it is."),
    ],
    arguments: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="The arguments, as a JSON object.")
    ] = None,
    app: McpAppOption = None,
    agents: options.AgentsOption = None,
    command: CommandOption = None,
    url: UrlOption = None,
    env: EnvOption = None,
    token: TokenOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Call a tool of an MCP server, outside of any run.

    SERVER is the name of one in the registry; leave it out with --command or --url, or if there is only one.
    """
    from wakeful.cli.mcp_servers import Source, print_result
    from wakeful.cli.session import parse_json_object
    from wakeful.contract.errors import CallerError

    if len(words) > 2:
        raise CallerError(f"name a server and a tool, or a tool alone, not {len(words)} words")
    [server] = Source(app, agents or [], command, url, env or [], token).servers(words[:-1], exactly=1)
    print_result(server, words[-1], parse_json_object("--arguments", arguments), as_json=as_json)
