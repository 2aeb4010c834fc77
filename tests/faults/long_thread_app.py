"""The agent of the long thread: five tool calls for each message, a small window, and short heartbeat timeouts."""

from tests.support.app import note
from wakeful import Agent, Registry, ScriptedModel, ToolContext, ToolMode, call, say, tool
from wakeful.contract.context import ContextPolicy

FIVE = call("mark", n=1) & call("mark", n=2) & call("mark", n=3) & call("mark", n=4) & call("mark", n=5)


@tool(idempotent=True, heartbeat_timeout=3)
async def mark(n: int, ctx: ToolContext) -> str:
    """Leave a mark."""
    note(ctx, "ran", n=n)
    return f"mark {n}"


registry = Registry(
    agents=[
        Agent(
            id="marker",
            tools=[mark],
            tool_mode=ToolMode.PARALLEL,
            context=ContextPolicy(max_context_tokens=4_000, max_output_tokens=500),
            inference_heartbeat_timeout=3,
        )
    ],
    models={"default": ScriptedModel([FIVE, say("answer to {input}")])},
)
