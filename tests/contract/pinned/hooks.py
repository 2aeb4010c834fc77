"""Pins of `wakeful.contract.hooks`, and of what carries them."""

from tests.contract.pinned.agents import AGENT
from tests.contract.pinned.gates import RULE
from tests.contract.pinned.inference import REF
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY
from tests.contract.pinned.state import KEY, OP, VIEW
from tests.contract.pinned.tools import SUNNY
from wakeful.contract.context import ContextMessage
from wakeful.contract.hooks import (
    EmittedEvent,
    HookEffects,
    HookFailure,
    HooksInput,
    LifecyclePhase,
    Phase,
    PluginBinding,
)
from wakeful.contract.inference import InferInput, ModelResponse
from wakeful.contract.messages import TextBlock
from wakeful.contract.runs import NaturalEnd, RunResult, StopDetail
from wakeful.contract.stopping import MaxRounds
from wakeful.contract.tools import ToolOutcome

EMITTED = EmittedEvent(plugin="p", name="seen", payload=1)
REPORT = HookFailure(plugin="p", phase="run_start", error="boom")
BLOCKS = HookEffects(base=3, block="not today")
RESULT = RunResult(
    thread_id="t1", run_id="r1", agent_id="assistant", status_reason="natural", termination=NaturalEnd(), response="Hi"
)

PINS = (
    Pin(PluginBinding(id="p"), '{"id":"p"}'),
    Pin(
        PluginBinding(id="p", settings={"n": 1}, phases=tuple(Phase), moments=tuple(LifecyclePhase)),
        '{"id":"p","settings":{"n":1},"phases":["run_start","step_start","before_inference",'
        '"after_inference","tool_gate","before_tool_execute","after_tool_execute","step_end",'
        '"run_end"],"moments":["activate","run_start","step_end","run_end","deactivate"]}',
    ),
    Pin(EMITTED, '{"plugin":"p","name":"seen","payload":1}'),
    Pin(EmittedEvent(plugin="p", name="seen"), '{"plugin":"p","name":"seen","payload":null}'),
    Pin(REPORT, '{"plugin":"p","phase":"run_start","error":"boom"}'),
    Pin(HookEffects(), '{"base":0}'),
    Pin(BLOCKS, '{"base":3,"block":"not today"}'),
    Pin(
        HookEffects(
            base=3,
            state=(OP,),
            context=(ContextMessage(key="hint", content=(TextBlock(text="Be brief."),)),),
            forget=("old",),
            permissions=(RULE,),
            events=(EMITTED,),
            reports=(REPORT,),
            handoff="billing",
            stop=StopDetail(code="enough", detail="that will do"),
            retry="Shorter.",
            fail="no audit",
        ),
        '{"base":3,"state":[{"key":"visits","action":"merge","value":1}],"context":[{"key":"hint",'
        '"role":"system","content":[{"type":"text","text":"Be brief."}],"visibility":"internal",'
        '"target":"system","cooldown_turns":0,"priority":0}],"forget":["old"],'
        '"permissions":[{"tool":"shell(git *)","behavior":"deny"}],"events":[{"plugin":"p",'
        '"name":"seen","payload":1}],"reports":[{"plugin":"p","phase":"run_start","error":"boom"}],'
        '"handoff":"billing","stop":{"code":"enough","detail":"that will do"},"retry":"Shorter.",'
        '"fail":"no audit"}',
    ),
    Pin(
        HooksInput(agent="d1", moments=(LifecyclePhase.RUN_START,), identity=IDENTITY),
        '{"agent":"d1","moments":["run_start"],"identity":{"thread_id":"t1","run_id":"r1",'
        '"agent_id":"assistant","origin":"user"},"step":0,"state":{"revision":0}}',
    ),
    Pin(
        HooksInput(
            agent="d1",
            moments=(LifecyclePhase.STEP_END,),
            identity=IDENTITY,
            step=2,
            state=VIEW,
            response="Hi",
            result=RESULT,
        ),
        '{"agent":"d1","moments":["step_end"],"identity":{"thread_id":"t1","run_id":"r1",'
        '"agent_id":"assistant","origin":"user"},"step":2,"state":{"revision":3,'
        '"values":{"visits":1}},"response":"Hi","result":{"thread_id":"t1","run_id":"r1",'
        '"agent_id":"assistant","status":"done","status_reason":"natural",'
        '"termination":{"type":"natural_end"},"response":"Hi","steps":0,"usage":{}}}',
    ),
    Pin(
        AGENT.model_copy(
            update={
                "plugins": (PluginBinding(id="p"),),
                "state_keys": (KEY,),
                "stop_conditions": (MaxRounds(rounds=3),),
            }
        ),
        '{"agent_id":"assistant","instructions":"","model":{"id":"default","provider":"scripted",'
        '"name":"model-1"},"max_rounds":16,"tool_mode":"sequential",'
        '"inference_timeout_seconds":600.0,"inference_heartbeat_seconds":30.0,"registry_version":1,'
        '"plugins":[{"id":"p"}],"state_keys":[{"key":"draft","scope":"run","merge":"exclusive"}],'
        '"stop_conditions":[{"type":"max_rounds","rounds":3}]}',
    ),
    Pin(
        ModelResponse(model="model-1", effects=BLOCKS, skipped=True),
        '{"model":"model-1","text":"","stop_reason":"EndTurn","usage":{},"effects":{"base":3,'
        '"block":"not today"},"unasked":true}',
    ),
    Pin(
        InferInput(agent="d1", transcript=REF, state=VIEW, step=2, ended=1),
        '{"agent":"d1","transcript":{"length":1,"digest":"d1"},"appended":[],"state":{"revision":3,'
        '"values":{"visits":1}},"step":2,"ended":1}',
    ),
    Pin(
        ToolOutcome(result=SUNNY, effects=BLOCKS),
        '{"result":{"tool_name":"look","status":"success","data":{"sky":"sunny"},"message":null},'
        '"effects":{"base":3,"block":"not today"}}',
    ),
)
