"""Pins of `wakeful.contract.views`."""

from tests.contract.pinned.decisions import REFUSAL, TICKET
from tests.contract.pinned.events import record
from tests.contract.pinned.messages import ASKED
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY, USAGE, ended
from wakeful.contract.events import StepEnd
from wakeful.contract.runs import NaturalEnd, RunStatus, ToolCallStatus, Usage
from wakeful.contract.views import Earlier, EventsPage, StatusView, ToolCallView, TranscriptPage

RUNNING = ToolCallView(call_id="c1", tool_name="look", status=ToolCallStatus.RUNNING)
SUSPENDED = ToolCallView(call_id="c1", tool_name="look", status=ToolCallStatus.SUSPENDED, ticket=TICKET, since=7)

PINS = (
    Pin(RUNNING, '{"call_id":"c1","tool_name":"look","status":"running"}'),
    Pin(
        SUSPENDED,
        '{"call_id":"c1","tool_name":"look","status":"suspended","ticket":{"suspension":{"id":"perm_c1",'
        '"action":"tool:look"},"pending":{"id":"c1","name":"look","arguments":{"at":"Paris"}},'
        '"resume_mode":"replay_tool_call"},"since":7}',
    ),
    Pin(
        StatusView(
            identity=IDENTITY, status=RunStatus.CREATED, doing="looking up agent assistant", steps=0, usage=Usage()
        ),
        '{"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"},'
        '"status":"created","doing":"looking up agent assistant","steps":0,"usage":{},"runs":1}',
    ),
    Pin(
        StatusView(
            identity=IDENTITY,
            status=RunStatus.WAITING,
            doing="waiting for a decision on look",
            steps=1,
            usage=USAGE,
            runs=2,
            calls=(SUSPENDED,),
            queued=2,
            refusals=(REFUSAL,),
        ),
        '{"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"},'
        '"status":"waiting","doing":"waiting for a decision on look","steps":1,'
        '"usage":{"prompt_tokens":10,"completion_tokens":2},"runs":2,"calls":[{"call_id":"c1","tool_name":"look",'
        '"status":"suspended","ticket":{"suspension":{"id":"perm_c1","action":"tool:look"},'
        '"pending":{"id":"c1","name":"look","arguments":{"at":"Paris"}},'
        '"resume_mode":"replay_tool_call"},"since":7}],"queued":2,"refusals":[{"signal":"decide",'
        '"reason":"the run has ended","at":7}]}',
    ),
    Pin(
        StatusView(
            identity=IDENTITY,
            status=RunStatus.DONE,
            doing="ended: natural",
            steps=1,
            usage=USAGE,
            result=ended(NaturalEnd()),
        ),
        '{"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"},'
        '"status":"done","doing":"ended: natural","steps":1,"usage":{"prompt_tokens":10,'
        '"completion_tokens":2},"runs":1,"result":{"thread_id":"t1","run_id":"r1","agent_id":"assistant",'
        '"status":"done","status_reason":"natural","termination":{"type":"natural_end"},"response":"",'
        '"steps":0,"usage":{}}}',
    ),
    Pin(
        TranscriptPage(messages=(ASKED,)),
        '{"messages":[{"id":"r1:1","role":"user","content":[{"type":"text","text":"Hello"}],"visibility":"all"}]}',
    ),
    Pin(Earlier(run_id="0190", through=7), '{"run_id":"0190","through":7}'),
    Pin(
        TranscriptPage(messages=(), next=200, earlier=Earlier(run_id="0190", through=7, digest="d1")),
        '{"messages":[],"next":200,"earlier":{"run_id":"0190","through":7,"digest":"d1"}}',
    ),
    Pin(
        EventsPage(events=(), last=9, done=True, earlier=Earlier(run_id="0190", through=9)),
        '{"events":[],"last":9,"done":true,"earlier":{"run_id":"0190","through":9}}',
    ),
    Pin(
        EventsPage(events=(record(StepEnd()),), last=1, done=False),
        '{"events":[{"seq":1,"at":7,"run_id":"r1","agent_id":"assistant",'
        '"event":{"event_type":"step_end"}}],"last":1,"done":false}',
    ),
)
