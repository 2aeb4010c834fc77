"""Agents for forks: long runs, state that every step changes, permission rules that decisions add."""

from tests.support.app.basic import Recording
from tests.support.app.gated import pay
from wakeful import Agent, Behavior, PermissionPolicy, Rule, StateKey, ToolContext, call, say, tool

STEPS = 16
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
def pour(n: int) -> str:
    """Return a lot."""
    return f"{n}" * FLOOD


@tool
def agree(what: str, ctx: ToolContext) -> str:
    """Do something after a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend(f"May I {what}?", action="approve")
    return f"did {what}"


TOOLS = [pace, pour, agree, pay]

MODEL = Recording(
    [say("hello, {input}")],
    when={
        "^walk": [*(call("pace", n=n) for n in range(1, STEPS)), say("I {result}")],
        "^hike": [*(call("pace", n=n) for n in range(1, 8)), say("I {result}")],
        "^turn back": [call("pace", n=0), say("back: {result}")],
        "^stroll": [call("pace", n=1), call("pace", n=2), say("strolled")],
        "^wade": [*(call("pour", n=n) for n in range(1, 6)), call("agree", what="swim"), say("{result}")],
        "^dive": [call("pour", n=6), call("agree", what="dive"), say("{result}")],
        "^ask": [call("pace", n=1), call("agree", what="rest"), say("{result}")],
        "^pay": [call("pay", amount=1), call("pay", amount=2), say("{result}")],
        "^lecture": [say("x" * 300_000)],
    },
)

AGENTS = [
    Agent(id="walker", model="walks", tools=TOOLS, state=[PACES, PLACE], max_rounds=0),
    Agent(id="guide", model="walks", tools=TOOLS, state=[PACES, PLACE], max_rounds=0, instructions="Lead."),
    Agent(
        id="payer",
        model="walks",
        tools=TOOLS,
        permissions=PermissionPolicy(rules=(Rule(tool="pace", behavior=Behavior.ALLOW),)),
    ),
]
MODELS = {"walks": MODEL}
