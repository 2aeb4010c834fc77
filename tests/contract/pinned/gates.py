"""Pins of `wakeful.contract.gates` and `wakeful.contract.permissions`, and of what carries them."""

from tests.contract.pinned.agents import AGENT
from tests.contract.pinned.decisions import TICKET
from tests.contract.pinned.inference import REF
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.tools import SUNNY
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.inference import InferInput, ModelResponse
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import RunRequest

RULE = Rule(tool="shell(git *)", behavior=Behavior.DENY)

PINS = (
    Pin(Block(reason="not here"), '{"verdict":"block","reason":"not here"}'),
    Pin(
        Suspend(ticket=TICKET),
        '{"verdict":"suspend","ticket":{"suspension":{"id":"perm_c1","action":"tool:look"},"pending":{"id":"c1",'
        '"name":"look","arguments":{"at":"Paris"}},"resume_mode":"replay_tool_call"}}',
    ),
    Pin(
        SetResult(result=SUNNY),
        '{"verdict":"set_result","result":{"tool_name":"look","status":"success","data":{"sky":"sunny"},'
        '"message":null}}',
    ),
    Pin(RULE, '{"tool":"shell(git *)","behavior":"deny"}'),
    Pin(PermissionPolicy(), '{"default_behavior":"ask","rules":[]}'),
    Pin(
        PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(RULE,)),
        '{"default_behavior":"allow","rules":[{"tool":"shell(git *)","behavior":"deny"}]}',
    ),
    Pin(
        AGENT.model_copy(update={"permissions": PermissionPolicy(), "gates": ("office_hours",)}),
        '{"agent_id":"assistant","instructions":"","model":{"id":"default","provider":"scripted",'
        '"name":"model-1"},"max_rounds":16,"tool_mode":"sequential","inference_timeout_seconds":600.0,'
        '"inference_heartbeat_seconds":30.0,"registry_version":1,"permissions":{"default_behavior":"ask","rules":[]},'
        '"gates":["office_hours"]}',
    ),
    Pin(
        ModelResponse(model="model-1", verdicts={"c1": Block(reason="not here")}),
        '{"model":"model-1","text":"","stop_reason":"EndTurn","usage":{},'
        '"verdicts":{"c1":{"verdict":"block","reason":"not here"}}}',
    ),
    Pin(
        InferInput(agent="d1", transcript=REF, permissions=(RULE,)),
        '{"agent":"d1","transcript":{"length":1,"digest":"d1"},"appended":[],'
        '"permissions":[{"tool":"shell(git *)","behavior":"deny"}]}',
    ),
    Pin(
        RunRequest(agent_id="assistant", input="Hello", permissions=(RULE,)),
        '{"agent_id":"assistant","input":"Hello","mode":"run","origin":"user",'
        '"permissions":[{"tool":"shell(git *)","behavior":"deny"}]}',
    ),
)
