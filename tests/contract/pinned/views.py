"""Pins of `wakeful.contract.views`."""

from tests.contract.pinned.budgets import BUDGET, SPENT
from tests.contract.pinned.decisions import REFUSAL, TICKET
from tests.contract.pinned.events import record
from tests.contract.pinned.mail import DEAD
from tests.contract.pinned.messages import ASKED
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY, USAGE, ended
from tests.contract.pinned.tasks import TASK
from wakeful.contract.events import StepEnd
from wakeful.contract.runs import NaturalEnd, RunStatus, ToolCallStatus, Usage
from wakeful.contract.views import EarlierExecution, EventsPage, StatusView, ToolCallView, TranscriptPage, WaitingFor

RUNNING = ToolCallView(call_id="c1", tool_name="look", status=ToolCallStatus.RUNNING)
SUSPENDED = ToolCallView(call_id="c1", tool_name="look", status=ToolCallStatus.SUSPENDED, ticket=TICKET, since=7)


def waiting(what: WaitingFor) -> StatusView:
    return StatusView(
        identity=IDENTITY, status=RunStatus.WAITING, doing="waiting", steps=1, usage=Usage(), waiting_for=what
    )


WAITING = (
    '{{"identity":{{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"}},'
    '"status":"waiting","doing":"waiting","steps":1,"usage":{{}},"runs":1,"waits_for":{what},'
    '"spent":{{"tokens":0,"cost":0.0,"turns":0,"tool_calls":0}}}}'
)

PINS = (
    Pin(waiting(WaitingFor.DECISIONS), WAITING.format(what='"decisions"')),
    Pin(waiting(WaitingFor.TASKS), WAITING.format(what='"tasks"')),
    Pin(waiting(WaitingFor.BUDGET), WAITING.format(what='"budget"')),
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
        '"status":"created","doing":"looking up agent assistant","steps":0,"usage":{},"runs":1,'
        '"spent":{"tokens":0,"cost":0.0,"turns":0,"tool_calls":0}}',
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
        '"reason":"the run has ended","at":7}],"spent":{"tokens":0,"cost":0.0,"turns":0,"tool_calls":0}}',
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
        '"steps":0,"usage":{}},"spent":{"tokens":0,"cost":0.0,"turns":0,"tool_calls":0}}',
    ),
    Pin(
        TranscriptPage(messages=(ASKED,)),
        '{"messages":[{"id":"r1:1","role":"user","content":[{"type":"text","text":"Hello"}],"visibility":"all"}]}',
    ),
    Pin(EarlierExecution(run_id="0190", through=7), '{"run_id":"0190","through":7}'),
    Pin(
        EarlierExecution(run_id="0190", through=7, digest="d1", thread_id="t0"),
        '{"run_id":"0190","through":7,"digest":"d1","thread_id":"t0"}',
    ),
    Pin(
        EventsPage(events=(), last=9, done=False, restoring=True),
        '{"events":[],"last":9,"done":false,"restoring":true}',
    ),
    Pin(
        EventsPage(events=(), last=9, done=False, in_flight=("infer-3",)),
        '{"events":[],"last":9,"done":false,"in_flight":["infer-3"]}',
    ),
    Pin(
        TranscriptPage(messages=(), next=200, earlier=EarlierExecution(run_id="0190", through=7, digest="d1")),
        '{"messages":[],"next":200,"earlier":{"run_id":"0190","through":7,"digest":"d1"}}',
    ),
    Pin(
        EventsPage(events=(), last=9, done=True, earlier=EarlierExecution(run_id="0190", through=9)),
        '{"events":[],"last":9,"done":true,"earlier":{"run_id":"0190","through":9}}',
    ),
    Pin(
        EventsPage(events=(record(StepEnd()),), last=1, done=False),
        '{"events":[{"seq":1,"at":7,"run_id":"r1","agent_id":"assistant",'
        '"event":{"event_type":"step_end"}}],"last":1,"done":false}',
    ),
    Pin(
        RUNNING.model_copy(update={"child": "t2", "work_id": "w1"}),
        '{"call_id":"c1","tool_name":"look","status":"running","child":"t2","work_id":"w1"}',
    ),
    Pin(
        StatusView(
            identity=IDENTITY,
            status=RunStatus.WAITING,
            doing="waiting for background tasks",
            steps=2,
            usage=Usage(),
            active_agent="clerk",
            tasks=(TASK,),
            undelivered=(DEAD,),
            spent=SPENT,
            budget=BUDGET,
        ),
        '{"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"},'
        '"status":"waiting","doing":"waiting for background tasks","steps":2,"usage":{},"runs":1,'
        '"active_agent":"clerk","tasks":[{"task_id":"bg_0","owner_thread_id":"t1","task_type":"tool",'
        '"description":"","status":"running","created_at_ms":0,"parent_context":{}}],'
        '"letters":[{"letter":{"kind":"letter","message_id":"m1","sender":{"agent_id":"assistant",'
        '"thread_id":"t1"},"content":"Hello","relation":"parent","recipient_thread_id":"t0"},'
        '"error":"recipient_not_found","at":7}],"spent":{"tokens":7,"cost":0.5,"turns":2,"tool_calls":1},'
        '"budget":{"tokens":1000}}',
    ),
)
