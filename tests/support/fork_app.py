"""Agents that are worth forking: long runs, state that every step changes, rules that decisions add."""

from tests.support.app import Recording
from wakeful import Agent, Behavior, PermissionPolicy, Registry, Rule, StateKey, ToolContext, call, say, tool

STEPS = 30
FLOOD = 90_000
"""Characters of a result: three such results fit into a fork's carryover, and a fourth does not."""

PACES = StateKey("paces", int, scope="thread", merge="add", default=0)
PLACE = StateKey("place", str, default="")


@tool(read_only=True)
def pace(n: int, ctx: ToolContext) -> str:
    """Take one step."""
    ctx.state.add(PACES, 1)
    ctx.state.set(PLACE, f"at {n}")
    return f"went to {n}"


@tool(read_only=True)
def flood(n: int) -> str:
    """Return a lot."""
    return f"{n}" * FLOOD


@tool
def approve(what: str, ctx: ToolContext) -> str:
    """Do something after a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend(f"May I {what}?", action="approve")
    return f"did {what}"


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


TOOLS = [pace, flood, approve, pay]

MODEL = Recording(
    [say("hello, {input}")],
    when={
        "^walk": [*(call("pace", n=n) for n in range(1, STEPS)), say("I {result}")],
        "^hike": [*(call("pace", n=n) for n in range(1, 8)), say("I {result}")],
        "^turn back": [call("pace", n=0), say("back: {result}")],
        "^stroll": [call("pace", n=1), call("pace", n=2), say("strolled")],
        "^wade": [*(call("flood", n=n) for n in range(1, 6)), call("approve", what="swim"), say("{result}")],
        "^dive": [call("flood", n=6), call("approve", what="dive"), say("{result}")],
        "^ask": [call("pace", n=1), call("approve", what="rest"), say("{result}")],
        "^pay": [call("pay", amount=1), call("pay", amount=2), say("{result}")],
        "^lecture": [say("x" * 300_000)],
    },
)

registry = Registry(
    agents=[
        Agent(id="walker", model="m", tools=TOOLS, state=[PACES, PLACE], max_rounds=0),
        Agent(id="guide", model="m", tools=TOOLS, state=[PACES, PLACE], max_rounds=0, instructions="Lead."),
        Agent(
            id="payer",
            model="m",
            tools=TOOLS,
            permissions=PermissionPolicy(rules=(Rule(tool="pace", behavior=Behavior.ALLOW),)),
        ),
    ],
    models={"m": MODEL},
)
