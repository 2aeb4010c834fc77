"""Pins of `wakeful.contract.agents`."""

from tests.contract.pinned.budgets import BUDGET
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.tools import LOOK
from wakeful.contract.agents import (
    HistoryBudget,
    ModelBinding,
    Resolution,
    ResolvedAgent,
    ResolveInput,
    RetryPolicy,
    ToolMode,
)
from wakeful.contract.inference import ModelSettings, OutputSpec

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
    Pin(
        ResolvedAgent(
            agent_id="assistant",
            model=MODEL,
            settings=ModelSettings(temperature=0.5),
            retry=RetryPolicy(max_retries=1),
            fallbacks=(ModelBinding(id="small", provider="scripted", name="model-2"),),
            output=OutputSpec(name="Weather", json_schema={"type": "object"}),
            max_continuations=0,
        ),
        '{"agent_id":"assistant","instructions":"","model":{"id":"default","provider":"scripted",'
        '"name":"model-1"},"max_rounds":16,"tool_mode":"sequential","inference_timeout_seconds":600.0,'
        '"inference_heartbeat_seconds":30.0,"registry_version":1,"settings":{"temperature":0.5},'
        '"retry":{"max_retries":1,"backoff_base_ms":500,"overloaded_backoff_base_ms":2000,"max_stream_retries":2,'
        '"stream_idle_timeout_secs":60.0,"first_token_timeout_secs":300.0},"fallbacks":[{"id":"small",'
        '"provider":"scripted","name":"model-2"}],"output":{"name":"Weather","json_schema":{"type":"object"},'
        '"max_repairs":1},"max_continuations":0}',
    ),
    Pin(
        RetryPolicy(),
        '{"max_retries":2,"backoff_base_ms":500,"overloaded_backoff_base_ms":2000,"max_stream_retries":2,'
        '"stream_idle_timeout_secs":60.0,"first_token_timeout_secs":300.0}',
    ),
    Pin(HistoryBudget(), '{"events":2000,"bytes":2000000}'),
    Pin(ResolveInput(agent_id="assistant", revision=2), '{"agent_id":"assistant","revision":2}'),
    Pin(
        Resolution(agent=AGENT, search_attributes=True, budget=HistoryBudget(events=9, bytes=99), revision=2),
        '{"agent":{"agent_id":"assistant","instructions":"","model":{"id":"default",'
        '"provider":"scripted","name":"model-1"},"max_rounds":16,"tool_mode":"sequential",'
        '"inference_timeout_seconds":600.0,"inference_heartbeat_seconds":30.0,"registry_version":1},'
        '"search_attributes":true,"budget":{"events":9,"bytes":99},"revision":2}',
    ),
    Pin(
        AGENT.model_copy(update={"budget": BUDGET, "max_depth": 2, "delegate_timeout_seconds": 60.0}),
        '{"agent_id":"assistant","instructions":"","model":{"id":"default","provider":"scripted",'
        '"name":"model-1"},"max_rounds":16,"tool_mode":"sequential","inference_timeout_seconds":600.0,'
        '"inference_heartbeat_seconds":30.0,"registry_version":1,"budget":{"tokens":1000},"max_depth":2,'
        '"delegate_timeout_seconds":60.0}',
    ),
    Pin(
        ResolveInput(agent_id="assistant", revision=2, in_task=True),
        '{"agent_id":"assistant","revision":2,"in_task":true}',
    ),
)
