"""Agents whose calls a gate or a permission rule suspends or blocks, and one whose model answers badly at first."""

import time
from collections.abc import AsyncIterator

from wakeful import (
    Agent,
    Behavior,
    GateCall,
    ModelRequest,
    PermissionPolicy,
    Rule,
    ScriptedModel,
    ToolContext,
    ToolMode,
    Verdict,
    call,
    gate,
    say,
    tool,
)
from wakeful.authoring.provider import AnyProvider
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import Visibility
from wakeful.contract.streaming import CallArgumentsPart, CallStartPart, StopPart, StreamPart, TextPart

PAID: list[int] = []


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


@tool
def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount}"


@tool
def rest(ctx: ToolContext) -> str:
    """Rest until told to stop, and say so."""
    while not ctx.cancelled:
        time.sleep(0.01)
    return "rested"


@gate
def a_person_approves_payments(asked: GateCall) -> Verdict | None:
    if asked.tool_name != "pay" or asked.approved:
        return None
    amount = asked.arguments["amount"] if isinstance(asked.arguments, dict) else None
    if amount == 13:
        return asked.block("thirteen is never paid")
    if amount == 3:
        return asked.suspend(f"Pay {amount}?", expires_after=2, on_expiry="deny")
    return asked.suspend(f"Pay {amount}?")


MODEL = ScriptedModel(
    when={
        "^five": [
            call("look", at="left")
            & call("pay", amount=1)
            & call("look", at="right")
            & call("pay", amount=2)
            & call("pay", amount=3),
            say("done: {result}"),
        ],
        "^slow": [call("pay", amount=7) & call("rest"), say("never said")],
        "^one": [call("pay", amount=7), say("{result}")],
        "^again": [call("pay", amount=8), call("pay", amount=9), say("{result}")],
        "^unlucky": [call("look", at="it") & call("pay", amount=13) & call("look", at="no more"), say("never said")],
    }
)


class Clumsy:
    """A model that hits its limit, garbles a call, answers in the wrong shape, and then gets it right."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        match sum(1 for message in request.messages if message.visibility is Visibility.INTERNAL):
            case 0:
                yield TextPart("I was just about to")
                yield StopPart(StopReason.MAX_TOKENS)
            case 1:
                yield CallStartPart(0, "c1", "look")
                yield CallArgumentsPart(0, '{"at": ')
                yield StopPart(StopReason.TOOL_USE)
            case 2:
                yield TextPart("four")
                yield StopPart(StopReason.END_TURN)
            case _:
                yield TextPart('{"answer": 4}')
                yield StopPart(StopReason.END_TURN)


AGENTS = [
    Agent(
        id="gated",
        model="payments",
        tools=[look, pay, rest],
        tool_mode=ToolMode.PARALLEL,
        gates=[a_person_approves_payments],
    ),
    Agent(
        id="ruled",
        model="payments",
        tools=[look, pay],
        permissions=PermissionPolicy(rules=(Rule(tool="look", behavior=Behavior.ALLOW),)),
    ),
    Agent(id="clumsy", model="clumsy", tools=[look], output=dict[str, int]),
]
MODELS: dict[str, AnyProvider] = {"payments": MODEL, "clumsy": Clumsy()}
