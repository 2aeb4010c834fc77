"""An agent with the tools of an MCP server, and a scripted model: it runs offline."""

import sys
from pathlib import Path

from wakeful import Agent, McpServer, Registry, ScriptedModel, call, say

trains = McpServer(name="trains", command=[sys.executable, str(Path(__file__).parent / "trains.py")])

script = ScriptedModel(
    [
        call("mcp__trains__departures", city="Rome"),
        call("mcp__trains__book", city="Rome"),
        say("{result}"),
    ]
)

registry = Registry(
    agents=[Agent(id="clerk", instructions="Book trains.", mcp=[trains])],
    models={"default": script},
)
