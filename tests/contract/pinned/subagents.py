"""Pins of `wakeful.contract.subagents`."""

from tests.contract.pinned.budgets import BUDGET, SPENT
from tests.contract.pinned.mail import DEAD
from tests.contract.pinned.messages import ASKED, CALL
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY, RECEIPT, TASK_REF
from tests.contract.pinned.tasks import TASK
from tests.contract.pinned.tools import LOOK
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.subagents import (
    BudgetGrant,
    BudgetRequest,
    Carryover,
    ChildResult,
    DeliverInput,
    SubagentContext,
    ToolTaskInput,
)
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import ToolCallInput

KEEPS = Carryover(
    agent_id="clerk",
    tasks=(TASK,),
    spawned=1,
    undelivered=(DEAD,),
    mail=(ASKED,),
    permissions=(Rule(tool="look", behavior=Behavior.ALLOW),),
    identity=IDENTITY,
)

PINS = (
    Pin(SubagentContext(path=("t1",), work_id="c1"), '{"path":["t1"],"work_id":"c1"}'),
    Pin(
        SubagentContext(
            path=("t0", "t1"),
            work_id="c1",
            task_id="bg_0",
            within=TASK_REF,
            allowance=BUDGET,
            deadline=7,
        ),
        '{"path":["t0","t1"],"work_id":"c1","task_id":"bg_0","within":{"task_id":"bg_0","thread_id":"t2",'
        '"owner_thread_id":"t1"},"allowance":{"tokens":1000},"deadline":7}',
    ),
    Pin(
        SubagentContext(path=("t1",), work_id="bg_0", task_id="bg_0", name="scout"),
        '{"path":["t1"],"work_id":"bg_0","task_id":"bg_0","name":"scout"}',
    ),
    Pin(
        ChildResult(work_id="c1", thread_id="t2", status=TaskStatus.CANCELLED),
        '{"work_id":"c1","thread_id":"t2","status":"cancelled","steps":0,"spent":{"tokens":0,"cost":0.0,'
        '"turns":0,"tool_calls":0}}',
    ),
    Pin(
        ChildResult(
            work_id="bg_0",
            thread_id="t2",
            agent_id="clerk",
            status=TaskStatus.COMPLETED,
            result={"sum": 4},
            run_id="r2",
            steps=3,
            spent=SPENT,
            receipt=RECEIPT,
        ),
        '{"work_id":"bg_0","thread_id":"t2","agent_id":"clerk","status":"completed","result":{"sum":4},'
        '"run_id":"r2","steps":3,"spent":{"tokens":7,"cost":0.5,"turns":2,"tool_calls":1},'
        '"receipt":{"cancelled":["t2"],"ended":["t3"]}}',
    ),
    Pin(
        ChildResult(work_id="bg_0", thread_id="t2", status=TaskStatus.FAILED, error="no"),
        '{"work_id":"bg_0","thread_id":"t2","status":"failed","error":"no","steps":0,"spent":{"tokens":0,'
        '"cost":0.0,"turns":0,"tool_calls":0}}',
    ),
    Pin(
        ChildResult(work_id="bg_0", thread_id="t2", agent_id="clerk", name="scout", status=TaskStatus.CANCELLED),
        '{"work_id":"bg_0","thread_id":"t2","agent_id":"clerk","name":"scout","status":"cancelled","steps":0,'
        '"spent":{"tokens":0,"cost":0.0,"turns":0,"tool_calls":0}}',
    ),
    Pin(
        ToolTaskInput(
            owner_thread_id="t1",
            task_id="bg_0",
            tool=LOOK,
            input=ToolCallInput(call=CALL, identity=IDENTITY, idempotency_key="t1/c1"),
        ),
        '{"owner_thread_id":"t1","task_id":"bg_0","tool":{"id":"look","name":"look","description":"",'
        '"parameters":{"type":"object","properties":{}},"effects":"once","timeout_seconds":600.0,'
        '"heartbeat_seconds":30.0},"input":{"call":{"id":"c1","name":"look","arguments":{"at":"Paris"}},'
        '"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"},'
        '"idempotency_key":"t1/c1"}}',
    ),
    Pin(
        BudgetRequest(work_id="bg_0", thread_id="t2", spent=SPENT),
        '{"work_id":"bg_0","thread_id":"t2","spent":{"tokens":7,"cost":0.5,"turns":2,"tool_calls":1}}',
    ),
    Pin(BudgetGrant(allowance=BUDGET), '{"allowance":{"tokens":1000}}'),
    Pin(BudgetGrant(refused="tokens"), '{"refused":"tokens"}'),
    Pin(Carryover(), '{"spawned":0}'),
    Pin(Carryover(events=7), '{"spawned":0,"events":7}'),
    Pin(
        KEEPS,
        '{"agent_id":"clerk","tasks":[{"task_id":"bg_0","owner_thread_id":"t1","task_type":"tool",'
        '"description":"","status":"running","created_at_ms":0,"parent_context":{}}],"spawned":1,'
        '"letters":[{"letter":{"kind":"letter","message_id":"m1","sender":{"agent_id":"assistant",'
        '"thread_id":"t1"},"content":"Hello","relation":"parent","recipient_thread_id":"t0"},'
        '"error":"recipient_not_found","at":7}],"mail":[{"id":"r1:1","role":"user",'
        '"content":[{"type":"text","text":"Hello"}],"visibility":"all"}],"permissions":[{"tool":"look",'
        '"behavior":"allow"}],"identity":{"thread_id":"t1","run_id":"r1","agent_id":"assistant",'
        '"origin":"user"}}',
    ),
    Pin(
        DeliverInput(thread_id="t2", signal="deliver", payload={"kind": "letter"}),
        '{"thread_id":"t2","signal":"deliver","payload":{"kind":"letter"}}',
    ),
    Pin(
        DeliverInput(thread_id="t2", signal="deliver", payload=None, agent_id="clerk"),
        '{"thread_id":"t2","signal":"deliver","payload":null,"agent_id":"clerk"}',
    ),
    Pin(
        DeliverInput(thread_id="t2", signal="settled", payload=None, wake=False),
        '{"thread_id":"t2","signal":"settled","payload":null,"wake":false}',
    ),
)
