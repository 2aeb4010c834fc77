"""`wakeful agents`: the agents of a registry, with those that it discovers at other services."""

from __future__ import annotations

import asyncio
import sys

import typer

from wakeful.cli import options


def agents(
    app: options.AppOption = None,
    agents: options.AgentsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List your agents and those of other services, with their tools.

    Sources that fail are on standard error, and the exit code is 1.
    """
    from wakeful.cli.serving import registry_of
    from wakeful.cli.terminal.agent_lines import agent_json, agent_lines, failure_json
    from wakeful.cli.terminal.text import printable
    from wakeful.registry.discovery import discover
    from wakeful.registry.listing import list_agents

    registry = registry_of(app, agents)
    discovery = asyncio.run(discover(registry.sources))
    registry.adopt(discovery.found)
    listed = list_agents(registry)
    if as_json:
        for line in [*agent_json(listed), *failure_json(discovery.failures)]:
            print(line)
    else:
        print("\n".join(agent_lines(listed)) or "the registry has no agents")
    for name, why in discovery.failures.items():
        print(f"wakeful: source {name!r}: {printable(why)}", file=sys.stderr)
    if discovery.failures:
        raise typer.Exit(1)
