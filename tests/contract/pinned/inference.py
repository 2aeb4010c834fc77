"""Pins of `wakeful.contract.inference`."""

from tests.contract.pinned.messages import ASKED, CALL
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import USAGE
from tests.contract.pinned.subagents import KEEPS
from tests.contract.pinned.tools import LOOK
from wakeful.contract.context import CompactionMark
from wakeful.contract.inference import (
    CompactInput,
    CompactOutput,
    InferenceOverrides,
    InferInput,
    Interruption,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OutputSpec,
    ReasoningBudget,
    RecoveryPlan,
    RestoreInput,
    Rewind,
    StopReason,
    TranscriptRef,
    TranscriptTail,
)
from wakeful.contract.messages import ThinkingBlock
from wakeful.contract.tools import FrontendTool

REF = TranscriptRef(length=1, digest="d1")
WEATHER = OutputSpec(name="Weather", json_schema={"type": "object"})
DROPPED = Interruption(cause="connection reset", plan=RecoveryPlan.SYNTHESIZE_TOOL_USE, call_id="c2", call_name="look")

PINS = (
    Pin(
        ModelRequest(model="model-1", messages=(ASKED,)),
        '{"model":"model-1","instructions":"","messages":[{"id":"r1:1","role":"user",'
        '"content":[{"type":"text","text":"Hello"}],"visibility":"all"}],"settings":{},"prompt_cache":true}',
    ),
    Pin(
        ModelRequest(
            model="model-1",
            instructions="Be kind.",
            messages=(),
            tools=(LOOK,),
            settings=ModelSettings(max_tokens=9),
            output=WEATHER,
            prompt_cache=False,
        ),
        '{"model":"model-1","instructions":"Be kind.","messages":[],"tools":[{"id":"look","name":"look",'
        '"description":"","parameters":{"type":"object","properties":{}},"effects":"once",'
        '"timeout_seconds":600.0,"heartbeat_seconds":30.0}],"settings":{"max_tokens":9},"output":{"name":"Weather",'
        '"json_schema":{"type":"object"},"max_repairs":1},"prompt_cache":false}',
    ),
    Pin(ReasoningBudget(budget=1024), '{"budget":1024}'),
    Pin(ModelSettings(), "{}"),
    Pin(
        ModelSettings(temperature=0.5, max_tokens=9, top_p=0.9, reasoning_effort=ReasoningBudget(budget=1024)),
        '{"temperature":0.5,"max_tokens":9,"top_p":0.9,"reasoning_effort":{"budget":1024}}',
    ),
    Pin(
        InferenceOverrides(
            reasoning_effort="high", upstream_model="model-2", fallback_upstream_models=("model-3", "model-4")
        ),
        '{"reasoning_effort":"high","upstream_model":"model-2","fallback_upstream_models":["model-3","model-4"]}',
    ),
    Pin(InferenceOverrides(fallback_upstream_models=()), '{"fallback_upstream_models":[]}'),
    Pin(WEATHER, '{"name":"Weather","json_schema":{"type":"object"},"max_repairs":1}'),
    Pin(Interruption(cause="idle stall", plan=RecoveryPlan.RESTART), '{"cause":"idle stall","plan":"restart"}'),
    Pin(Interruption(cause="goaway", plan=RecoveryPlan.CONTINUE_TEXT), '{"cause":"goaway","plan":"continue_text"}'),
    Pin(
        Interruption(cause="goaway", plan=RecoveryPlan.TRUNCATE_BEFORE_TOOL),
        '{"cause":"goaway","plan":"truncate_before_tool"}',
    ),
    Pin(
        DROPPED,
        '{"cause":"connection reset","plan":"synthesize_tool_use","call_id":"c2","call_name":"look"}',
    ),
    Pin(
        ModelResponse(model="model-1", text="Hello"),
        '{"model":"model-1","text":"Hello","stop_reason":"EndTurn","usage":{}}',
    ),
    Pin(
        ModelResponse(
            model="model-1",
            reasoning="Hm",
            tool_calls=(CALL,),
            stop_reason=StopReason.TOOL_USE,
            usage=USAGE,
            request_id="q1",
        ),
        '{"model":"model-1","text":"","reasoning":"Hm","tool_calls":[{"id":"c1","name":"look",'
        '"arguments":{"at":"Paris"}}],"stop_reason":"ToolUse","usage":{"prompt_tokens":10,'
        '"completion_tokens":2},"request_id":"q1"}',
    ),
    Pin(
        ModelResponse(model="model-1", stop_reason=StopReason.MAX_TOKENS),
        '{"model":"model-1","text":"","stop_reason":"MaxTokens","usage":{}}',
    ),
    Pin(
        ModelResponse(model="model-1", stop_reason=StopReason.STOP_SEQUENCE),
        '{"model":"model-1","text":"","stop_reason":"StopSequence","usage":{}}',
    ),
    Pin(
        ModelResponse(
            model="model-1",
            thinking=(ThinkingBlock(thinking="Hm", signature="s1"),),
            incomplete_calls=("pay",),
            interruptions=(DROPPED,),
            output={"sky": "blue"},
            output_problem="not JSON",
        ),
        '{"model":"model-1","text":"","thinking":[{"type":"thinking","thinking":"Hm","signature":"s1"}],'
        '"incomplete_calls":["pay"],"stop_reason":"EndTurn","usage":{},"interruptions":[{"cause":"connection reset",'
        '"plan":"synthesize_tool_use","call_id":"c2","call_name":"look"}],"output":{"sky":"blue"},'
        '"output_problem":"not JSON"}',
    ),
    Pin(Rewind(rewind=1), '{"rewind":1}'),
    Pin(
        CompactInput(agent="a1", transcript=REF, previous="compact-1"),
        '{"agent":"a1","transcript":{"length":1,"digest":"d1"},"previous":"compact-1","factor":1.0}',
    ),
    Pin(
        CompactOutput(mark=CompactionMark(through=7, summary="Ada asked.", pre_tokens=2000, post_tokens=40)),
        '{"mark":{"through":7,"summary":"Ada asked.","pre_tokens":2000,"post_tokens":40},"usage":{}}',
    ),
    Pin(CompactOutput(skipped="empty_summary"), '{"skipped":"empty_summary","usage":{}}'),
    Pin(RestoreInput(run_id="0190"), '{"run_id":"0190"}'),
    Pin(
        TranscriptTail(length=1, digest="d1", messages=(ASKED,)),
        '{"length":1,"digest":"d1","messages":[{"id":"r1:1","role":"user",'
        '"content":[{"type":"text","text":"Hello"}],"visibility":"all"}]}',
    ),
    Pin(REF, '{"length":1,"digest":"d1"}'),
    Pin(
        InferInput(agent="a1b2", transcript=REF),
        '{"agent":"a1b2","transcript":{"length":1,"digest":"d1"},"appended":[]}',
    ),
    Pin(
        InferInput(
            agent="a1b2",
            transcript=REF,
            appended=("input:0", "submit:0:1", "infer-1", "snapshot:m1", Rewind(rewind=1), ASKED),
            frontend_tools=(FrontendTool(id="pick").descriptor(),),
        ),
        '{"agent":"a1b2","transcript":{"length":1,"digest":"d1"},"appended":["input:0","submit:0:1",'
        '"infer-1","snapshot:m1",{"rewind":1},{"id":"r1:1","role":"user","content":[{"type":"text","text":"Hello"}],'
        '"visibility":"all"}],"frontend_tools":[{"id":"pick","name":"pick","description":"",'
        '"parameters":{"type":"object","properties":{}},"frontend":true,"effects":"once",'
        '"timeout_seconds":600.0,"heartbeat_seconds":30.0}]}',
    ),
    Pin(
        InferInput(agent="a1b2", transcript=REF, overrides=InferenceOverrides(max_tokens=9), continuing=True),
        '{"agent":"a1b2","transcript":{"length":1,"digest":"d1"},"appended":[],"overrides":{"max_tokens":9},'
        '"continuing":true}',
    ),
    Pin(
        TranscriptTail(length=0, digest="d1", messages=(), carryover=KEEPS),
        '{"length":0,"digest":"d1","messages":[],"keeps":{"agent_id":"clerk","tasks":[{"task_id":"bg_0",'
        '"owner_thread_id":"t1","task_type":"tool","description":"","status":"running","created_at_ms":0,'
        '"parent_context":{}}],"spawned":1,"letters":[{"letter":{"kind":"letter","message_id":"m1",'
        '"sender":{"agent_id":"assistant","thread_id":"t1"},"content":"Hello","relation":"parent",'
        '"recipient_thread_id":"t0"},"error":"recipient_not_found","at":7}],"mail":[{"id":"r1:1",'
        '"role":"user","content":[{"type":"text","text":"Hello"}],"visibility":"all"}],'
        '"permissions":[{"tool":"look","behavior":"allow"}],"identity":{"thread_id":"t1","run_id":"r1",'
        '"agent_id":"assistant","origin":"user"}}}',
    ),
)
