"""Agents in a file, their tool in code.

    wakeful dev --app examples/files/app.py:registry
    wakeful run clerk 'how many espresso machines are there?'

It needs neither a key nor a network: a scripted model answers.
"""

from pathlib import Path

from wakeful import Registry, ScriptedModel, call, say, tool


@tool(read_only=True)
def stock(item: str) -> int:
    """How many pieces are in stock."""
    return {"espresso machine": 3}.get(item, 0)


script = ScriptedModel(
    [say("Ask me how many espresso machines there are.")],
    when={"how many": [call("stock", item="espresso machine"), say("There are {result} espresso machines.")]},
)

registry = Registry(
    agent_files=[Path(__file__).with_name("agents.toml")],
    tools=[stock],
    models={"default": script},
)
