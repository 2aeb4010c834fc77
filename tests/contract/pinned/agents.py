"""Pins of `wakeful.contract.agents`."""

from tests.contract.pinned.pin import Pin
from tests.contract.pinned.tools import LOOK
from wakeful.contract.agents import HistoryBudget, ModelBinding, Resolution, ResolvedAgent, ResolveInput, ToolMode

MODEL = ModelBinding(id="default", provider="scripted", name="model-1")
AGENT = ResolvedAgent(agent_id="assistant", model=MODEL)

PINS = (
    Pin(MODEL, '{"id":"default","provider":"scripted","name":"model-1"}'),
    Pin(
        AGENT,
        '{"agent_id":"assistant","instructions":"","model":{"id":"default","provider":"scripted",'
        '"name":"model-1"},"max_rounds":16,"tool_mode":"sequential","inference_timeout_seconds":600.0,'
        '"inference_heartbeat_seconds":30.0,"registry_version":1}',
    ),
    Pin(
        ResolvedAgent(
            agent_id="assistant",
            instructions="Be kind.",
            model=MODEL,
            tools=(LOOK,),
            max_rounds=3,
            tool_mode=ToolMode.PARALLEL,
            inference_timeout_seconds=60.0,
            inference_heartbeat_seconds=5.0,
            registry_version=2,
        ),
        '{"agent_id":"assistant","instructions":"Be kind.","model":{"id":"default","provider":"scripted",'
        '"name":"model-1"},"tools":[{"id":"look","name":"look","description":"",'
        '"parameters":{"type":"object","properties":{}},"effects":"once","timeout_seconds":600.0,'
        '"heartbeat_seconds":30.0}],"max_rounds":3,"tool_mode":"parallel",'
        '"inference_timeout_seconds":60.0,"inference_heartbeat_seconds":5.0,"registry_version":2}',
    ),
    Pin(HistoryBudget(), '{"events":2000,"bytes":2000000}'),
    Pin(ResolveInput(agent_id="assistant"), '{"agent_id":"assistant"}'),
    Pin(
        Resolution(agent=AGENT, search_attributes=True, budget=HistoryBudget(events=9, bytes=99)),
        '{"agent":{"agent_id":"assistant","instructions":"","model":{"id":"default",'
        '"provider":"scripted","name":"model-1"},"max_rounds":16,"tool_mode":"sequential",'
        '"inference_timeout_seconds":600.0,"inference_heartbeat_seconds":30.0,"registry_version":1},'
        '"search_attributes":true,"budget":{"events":9,"bytes":99}}',
    ),
)
