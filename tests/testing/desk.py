"""Agents for the tests of the testing kit: a buyer that counts, orders and delegates."""

from datetime import timedelta

from wakeful import Agent, Registry, ToolContext, say, tool
from wakeful.authoring.scripted import Turn
from wakeful.testing import ScriptedModel

WEEK = timedelta(days=7)


@tool(read_only=True)
def stock(item: str) -> int:
    """How many pieces of an item are in stock."""
    return 3


@tool
def order(item: str, ctx: ToolContext) -> str:
    """Order an item. A person approves it within a week."""
    if ctx.resume_input is None:
        ctx.suspend(f"Order {item}?", expires_after=WEEK.total_seconds(), on_expiry="deny")
    return f"ordered {item}"


def desk(*turns: Turn, helper: ScriptedModel | None = None) -> tuple[Registry, ScriptedModel]:
    """The registry, and the model of the buyer, which follows these turns."""
    model = ScriptedModel(turns)
    agents = [
        Agent(id="buyer", tools=[stock, order], delegates=["helper"]),
        Agent(id="helper", model="helper", tools=[order]),
    ]
    return Registry(agents=agents, models={"default": model, "helper": helper or ScriptedModel([say("?")])}), model
