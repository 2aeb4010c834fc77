"""Pins of `wakeful.contract.events`."""

from tests.contract.pinned.messages import ASKED
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY, USAGE
from tests.contract.pinned.tasks import TASK
from tests.contract.pinned.tools import SUNNY
from wakeful.contract.base import Wire, Written
from wakeful.contract.events import (
    ActivityDelta,
    ActivitySnapshot,
    ChildStarted,
    DecisionOverdue,
    ErrorEvent,
    EventRecord,
    FinishSummary,
    Handoff,
    HookFailed,
    InferenceComplete,
    MailArrived,
    MessagesSnapshot,
    PluginEvent,
    ReasoningDelta,
    ReasoningEncryptedValue,
    RunFinish,
    RunStart,
    SignalRefused,
    StateConflict,
    StateDelta,
    StateSnapshot,
    StepEnd,
    StepStart,
    StreamReset,
    TaskChanged,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStart,
    ToolCallStreamDelta,
)
from wakeful.contract.runs import NaturalEnd, RunStatus, Suspended

SUMMARY = FinishSummary(response="Hello", status=RunStatus.DONE, status_reason="natural")


def record(event: Wire | Written) -> EventRecord:
    place = {"seq": 1, "at": 7, "run_id": "r1", "agent_id": "assistant"}
    return EventRecord.model_validate({**place, "event": event})


BARE = (
    Pin(RunStart(thread_id="t1", run_id="r1"), '{"event_type":"run_start","thread_id":"t1","run_id":"r1"}'),
    Pin(
        RunStart(thread_id="t1", run_id="r1", parent_run_id="r0", identity=IDENTITY),
        '{"event_type":"run_start","thread_id":"t1","run_id":"r1","parent_run_id":"r0",'
        '"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"}}',
    ),
    Pin(
        RunFinish(thread_id="t1", run_id="r1", termination=Suspended()),
        '{"event_type":"run_finish","thread_id":"t1","run_id":"r1","termination":{"type":"suspended"}}',
    ),
    Pin(
        RunFinish(thread_id="t1", run_id="r1", identity=IDENTITY, result=SUMMARY, termination=NaturalEnd()),
        '{"event_type":"run_finish","thread_id":"t1","run_id":"r1","identity":{"thread_id":"t1",'
        '"run_id":"r1","agent_id":"assistant","origin":"user"},"result":{"response":"Hello",'
        '"status":"done","status_reason":"natural"},"termination":{"type":"natural_end"}}',
    ),
    Pin(StepStart(message_id="r1:2"), '{"event_type":"step_start","message_id":"r1:2"}'),
    Pin(StepEnd(), '{"event_type":"step_end"}'),
    Pin(TextDelta(delta="Hel"), '{"event_type":"text_delta","delta":"Hel"}'),
    Pin(ReasoningDelta(delta="Hm"), '{"event_type":"reasoning_delta","delta":"Hm"}'),
    Pin(
        ReasoningEncryptedValue(encrypted_value="x9"),
        '{"event_type":"reasoning_encrypted_value","encrypted_value":"x9"}',
    ),
    Pin(ToolCallStart(id="c1", name="look"), '{"event_type":"tool_call_start","id":"c1","name":"look"}'),
    Pin(ToolCallDelta(id="c1", args_delta="{}"), '{"event_type":"tool_call_delta","id":"c1","args_delta":"{}"}'),
    Pin(
        ToolCallReady(id="c1", name="look", arguments={}),
        '{"event_type":"tool_call_ready","id":"c1","name":"look","arguments":{}}',
    ),
    Pin(
        ToolCallDone(id="c1", result=SUNNY, outcome=ToolCallOutcome.SUCCEEDED),
        '{"event_type":"tool_call_done","id":"c1","message_id":"","result":{"tool_name":"look",'
        '"status":"success","data":{"sky":"sunny"},"message":null},"outcome":"succeeded"}',
    ),
    Pin(
        ToolCallStreamDelta(id="c1", name="look", delta="sun"),
        '{"event_type":"tool_call_stream_delta","id":"c1","name":"look","delta":"sun"}',
    ),
    Pin(
        ToolCallResumed(target_id="c1", result=None),
        '{"event_type":"tool_call_resumed","target_id":"c1","result":null}',
    ),
    Pin(
        ToolCallCancel(id="c1", name="look", reason="the run ended"),
        '{"event_type":"tool_call_cancel","id":"c1","name":"look","reason":"the run ended"}',
    ),
    Pin(StreamReset(reason="retry"), '{"event_type":"stream_reset","reason":"retry"}'),
    Pin(
        MessagesSnapshot(messages=(ASKED,)),
        '{"event_type":"messages_snapshot","messages":[{"id":"r1:1","role":"user",'
        '"content":[{"type":"text","text":"Hello"}],"visibility":"all"}]}',
    ),
    Pin(
        ActivitySnapshot(message_id="a1", activity_type="plan", content={"done": 1}),
        '{"event_type":"activity_snapshot","message_id":"a1","activity_type":"plan","content":{"done":1}}',
    ),
    Pin(
        ActivitySnapshot(message_id="a1", activity_type="plan", content=None, replace=True),
        '{"event_type":"activity_snapshot","message_id":"a1","activity_type":"plan","content":null,"replace":true}',
    ),
    Pin(
        ActivityDelta(message_id="a1", activity_type="plan", patch=({"op": "remove", "path": "/done"},)),
        '{"event_type":"activity_delta","message_id":"a1","activity_type":"plan","patch":[{"op":"remove",'
        '"path":"/done"}]}',
    ),
    Pin(
        InferenceComplete(model="model-1", duration_ms=12),
        '{"event_type":"inference_complete","model":"model-1","duration_ms":12}',
    ),
    Pin(
        InferenceComplete(model="model-1", usage=USAGE, duration_ms=12),
        '{"event_type":"inference_complete","model":"model-1","usage":{"prompt_tokens":10,'
        '"completion_tokens":2},"duration_ms":12}',
    ),
    Pin(StateSnapshot(snapshot={"mood": "good"}), '{"event_type":"state_snapshot","snapshot":{"mood":"good"}}'),
    Pin(
        StateDelta(delta=({"op": "remove", "path": "/mood"},)),
        '{"event_type":"state_delta","delta":[{"op":"remove","path":"/mood"}]}',
    ),
    Pin(ErrorEvent(message="no credit"), '{"event_type":"error","message":"no credit"}'),
    Pin(ErrorEvent(message="no credit", code="E7"), '{"event_type":"error","message":"no credit","code":"E7"}'),
    Pin(
        SignalRefused(signal="decide", reason="the run has ended"),
        '{"event_type":"signal_refused","signal":"decide","reason":"the run has ended"}',
    ),
    Pin(
        DecisionOverdue(call_id="c1", tool_name="look", suspension_id="s1", waited_ms=7),
        '{"event_type":"decision_overdue","call_id":"c1","tool_name":"look","suspension_id":"s1","waited_ms":7}',
    ),
    Pin(
        DecisionOverdue(call_id="c1", tool_name="look", suspension_id="s1", message="May I?", waited_ms=7),
        '{"event_type":"decision_overdue","call_id":"c1","tool_name":"look","suspension_id":"s1",'
        '"message":"May I?","waited_ms":7}',
    ),
    Pin(
        Handoff(from_agent="assistant", to_agent="clerk"),
        '{"event_type":"handoff","from_agent":"assistant","to_agent":"clerk"}',
    ),
    Pin(
        TaskChanged(task=TASK),
        '{"event_type":"task_changed","task":{"task_id":"bg_0","owner_thread_id":"t1","task_type":"tool",'
        '"description":"","status":"running","created_at_ms":0,"parent_context":{}}}',
    ),
    Pin(
        ChildStarted(work_id="bg_0", thread_id="t1/task"),
        '{"event_type":"child_started","work_id":"bg_0","thread_id":"t1/task"}',
    ),
    Pin(
        ChildStarted(work_id="delegate-c1", thread_id="t1/clerk", call_id="c1", agent_id="clerk"),
        '{"event_type":"child_started","work_id":"delegate-c1","thread_id":"t1/clerk","call_id":"c1","agent_id":"clerk"}',
    ),
    Pin(
        MailArrived(message_id="msg_1", text="Hurry!"),
        '{"event_type":"mail_received","message_id":"msg_1","text":"Hurry!"}',
    ),
    Pin(
        PluginEvent(plugin="guard", name="looked", payload={"at": 1}),
        '{"event_type":"plugin_event","plugin":"guard","name":"looked","payload":{"at":1}}',
    ),
    Pin(
        PluginEvent(plugin="guard", name="looked"),
        '{"event_type":"plugin_event","plugin":"guard","name":"looked","payload":null}',
    ),
    Pin(
        HookFailed(plugin="guard", phase="run_start", error="it took longer than 5 s"),
        '{"event_type":"hook_failed","plugin":"guard","phase":"run_start","error":"it took longer than 5 s"}',
    ),
    Pin(
        StateConflict(key="owner", source="c1", reason="a concurrent write changed it"),
        '{"event_type":"state_conflict","key":"owner","source":"c1","reason":"a concurrent write changed it"}',
    ),
)

RECORD = '{{"seq":1,"at":7,"run_id":"r1","agent_id":"assistant","event":{event}}}'

PINS = (
    *BARE,
    *(Pin(record(pin.value), RECORD.format(event=pin.json)) for pin in BARE),
    Pin(SUMMARY, '{"response":"Hello","status":"done","status_reason":"natural"}'),
    Pin(FinishSummary(response="", status=RunStatus.WAITING), '{"response":"","status":"waiting"}'),
    Pin(
        EventRecord(seq=2, at=8, run_id="r2", agent_id="researcher", path=("c7",), event=StepEnd()),
        '{"seq":2,"at":8,"run_id":"r2","agent_id":"researcher","path":["c7"],"event":{"event_type":"step_end"}}',
    ),
    Pin(
        EventRecord(seq=2, at=8, thread_id="c7", run_id="r2", agent_id="a", provisional=True, event=StepEnd()),
        '{"seq":2,"at":8,"thread_id":"c7","run_id":"r2","agent_id":"a","provisional":true,'
        '"event":{"event_type":"step_end"}}',
    ),
)
