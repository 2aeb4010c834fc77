"""The agents of the tests of the MCP server, with scripted models."""

from pydantic import BaseModel, JsonValue

from tests.support.app import TOOLS, basic
from wakeful import (
    Agent,
    Behavior,
    GateCall,
    PermissionPolicy,
    Registry,
    Rule,
    ScriptedModel,
    ToolContext,
    call,
    gate,
    say,
    tool,
)
from wakeful.contract.gates import Suspend


class Verdict(BaseModel):
    """A verdict."""

    guilty: bool
    years: int


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def colour(ctx: ToolContext) -> str:
    """Ask for a colour."""
    if ctx.resume_input is None:
        schema: JsonValue = {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, "shade": {"type": "integer"}},
            "required": ["colour"],
        }
        ctx.suspend("Which colour?", action="choose", response_schema=schema)
    return f"chose {ctx.resume_input.result}"


@tool
def lend(amount: int) -> str:
    """Lend."""
    return f"lent {amount}"


@gate
def second_person(call: GateCall) -> Suspend | None:
    """Suspends loans with a form, as a tool would that asks a question."""
    if call.tool_name != "lend" or call.approved:
        return None
    schema: JsonValue = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    return call.suspend("How much?", response_schema=schema, resume_mode="pass_decision_to_tool")


MODEL = ScriptedModel(
    [say("heard {input}")],
    when={
        "^pay": [call("pay", amount=7), say("{result}")],
        "^twice": [call("pay", amount=7), call("pay", amount=8), say("{result}")],
        "^lend": [call("lend", amount=7), say("{result}")],
        "^colour": [call("colour"), say("{result}")],
        "^delegate": [call("agent_run_payer", prompt="pay"), say("it says {result}")],
        "^fail": [call("levitate").unchecked()] * 9,
    },
)
JUDGE = ScriptedModel(
    [say('{"guilty": true, "years": 3}')], when={"^pay": [call("pay", amount=7), say('{"guilty": false, "years": 0}')]}
)
NUMBERS = ScriptedModel([say("[1, 2, 3]")])

ASKING = PermissionPolicy(rules=(Rule(tool="pay", behavior=Behavior.ASK),), default_behavior=Behavior.ALLOW)

registry = Registry(
    agents=[
        Agent(
            id="payer",
            description="Pays what you owe.",
            model="m",
            tools=[pay, colour, lend],
            gates=[second_person],
            permissions=ASKING,
        ),
        Agent(id="chief", instructions="You delegate.", model="m", delegates=["payer"]),
        Agent(id="judge", description="Judges.", model="judge", tools=[pay], permissions=ASKING, output=Verdict),
        Agent(id="numbers", description="Counts.", model="numbers", output=list[int]),
        Agent(id="tester", instructions="Be brief.", tools=TOOLS, inference_heartbeat_timeout=3),
        Agent(id="short", description="Gives up soon.", tools=TOOLS, max_rounds=2),
    ],
    models={"default": basic.script, "m": MODEL, "judge": JUDGE, "numbers": NUMBERS},
)
