"""Pins of `wakeful.contract.tools`."""

from tests.contract.pinned.decisions import RESUME, TICKET
from tests.contract.pinned.messages import CALL
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.tools import (
    Effects,
    FrontendTool,
    RuntimeKind,
    RuntimeTool,
    ToolCallInput,
    ToolDescriptor,
    ToolOutcome,
    ToolResult,
)

LOOK = ToolDescriptor(id="look", name="look")
SUNNY = ToolResult.success("look", {"sky": "sunny"})

PINS = (
    Pin(
        LOOK,
        '{"id":"look","name":"look","description":"","parameters":{"type":"object","properties":{}},'
        '"effects":"once","timeout_seconds":600.0,"heartbeat_seconds":30.0}',
    ),
    Pin(
        ToolDescriptor(
            id="look",
            name="Look",
            description="Looks at a city.",
            parameters={"type": "object", "properties": {"at": {"type": "string"}}},
            category="weather",
            metadata={"owner": "ann"},
            frontend=True,
            effects=Effects.IDEMPOTENT,
            timeout_seconds=5.0,
            heartbeat_seconds=1.0,
            task_queue="gpu",
        ),
        '{"id":"look","name":"Look","description":"Looks at a city.","parameters":{"type":"object",'
        '"properties":{"at":{"type":"string"}}},"category":"weather","metadata":{"owner":"ann"},'
        '"frontend":true,"effects":"idempotent","timeout_seconds":5.0,"heartbeat_seconds":1.0,'
        '"task_queue":"gpu"}',
    ),
    Pin(
        FrontendTool(id="pick", result_schema={"type": "string"}),
        '{"id":"pick","description":"","parameters":{"type":"object","properties":{}},'
        '"result_schema":{"type":"string"}}',
    ),
    Pin(
        FrontendTool(id="pick", result_schema={"type": "string"}).descriptor(),
        '{"id":"pick","name":"pick","description":"","parameters":{"type":"object","properties":{}},'
        '"frontend":true,"effects":"once","timeout_seconds":600.0,"heartbeat_seconds":30.0,'
        '"result_schema":{"type":"string"}}',
    ),
    Pin(FrontendTool(id="pick"), '{"id":"pick","description":"","parameters":{"type":"object","properties":{}}}'),
    Pin(SUNNY, '{"tool_name":"look","status":"success","data":{"sky":"sunny"},"message":null}'),
    Pin(
        ToolResult.success("look", "sunny", "It is sunny"),
        '{"tool_name":"look","status":"success","data":"sunny","message":"It is sunny"}',
    ),
    Pin(
        ToolResult.error("look", "no such city"),
        '{"tool_name":"look","status":"error","data":null,"message":"no such city"}',
    ),
    Pin(
        ToolResult.error_with_code("look", "E7", "no such city"),
        '{"tool_name":"look","status":"error","data":{"error":{"code":"E7","message":"no such city"}},'
        '"message":"[E7] no such city"}',
    ),
    Pin(
        ToolResult.suspended("look", message="May I?"),
        '{"tool_name":"look","status":"pending","data":null,"message":"May I?"}',
    ),
    Pin(
        SUNNY.model_copy(update={"metadata": {"cached": True}}),
        '{"tool_name":"look","status":"success","data":{"sky":"sunny"},"message":null,"metadata":{"cached":true}}',
    ),
    Pin(
        ToolOutcome(result=SUNNY),
        '{"result":{"tool_name":"look","status":"success","data":{"sky":"sunny"},"message":null}}',
    ),
    Pin(
        ToolOutcome(result=ToolResult.suspended("look", TICKET)),
        '{"result":{"tool_name":"look","status":"pending","data":null,"message":null,'
        '"suspension":{"suspension":{"id":"perm_c1","action":"tool:look"},"pending":{"id":"c1",'
        '"name":"look","arguments":{"at":"Paris"}},"resume_mode":"replay_tool_call"}}}',
    ),
    Pin(
        ToolOutcome(result=ToolResult.error("look", "not here"), blocked="not here"),
        '{"result":{"tool_name":"look","status":"error","data":null,"message":"not here"},"blocked":"not here"}',
    ),
    Pin(
        ToolCallInput(
            call=CALL,
            identity=IDENTITY,
            idempotency_key="t1/c1",
            agent="d1",
            permissions=(Rule(tool="look", behavior=Behavior.ALLOW),),
        ),
        '{"call":{"id":"c1","name":"look","arguments":{"at":"Paris"}},"identity":{"thread_id":"t1",'
        '"run_id":"r1","agent_id":"assistant","origin":"user"},"idempotency_key":"t1/c1","agent":"d1",'
        '"permissions":[{"tool":"look","behavior":"allow"}]}',
    ),
    Pin(
        ToolCallInput(call=CALL, identity=IDENTITY, idempotency_key="t1/c1"),
        '{"call":{"id":"c1","name":"look","arguments":{"at":"Paris"}},"identity":{"thread_id":"t1",'
        '"run_id":"r1","agent_id":"assistant","origin":"user"},"idempotency_key":"t1/c1"}',
    ),
    Pin(
        ToolCallInput(
            call=CALL,
            identity=IDENTITY,
            idempotency_key="t1/c1",
            resume=RESUME,
            suspension_id="perm_c1",
            suspension_reason="tool:look",
        ),
        '{"call":{"id":"c1","name":"look","arguments":{"at":"Paris"}},"identity":{"thread_id":"t1",'
        '"run_id":"r1","agent_id":"assistant","origin":"user"},"idempotency_key":"t1/c1",'
        '"resume":{"decision_id":"d1","action":"resume","result":{"approved":true},"reason":"fine",'
        '"actor":"ann","updated_at":7},"suspension_id":"perm_c1","suspension_reason":"tool:look"}',
    ),
    Pin(RuntimeTool(kind=RuntimeKind.LIST_TASKS), '{"kind":"list_tasks"}'),
    Pin(RuntimeTool(kind=RuntimeKind.DELEGATE, agent_id="clerk"), '{"kind":"delegate","agent_id":"clerk"}'),
    Pin(
        RuntimeTool(kind=RuntimeKind.SPAWN, agent_ids=("clerk", "assistant")),
        '{"kind":"spawn","agent_ids":["clerk","assistant"]}',
    ),
    Pin(
        ToolDescriptor(
            id="agent_run_clerk",
            name="agent_run_clerk",
            effects=Effects.READ_ONLY,
            runtime=RuntimeTool(kind=RuntimeKind.DELEGATE, agent_id="clerk"),
        ),
        '{"id":"agent_run_clerk","name":"agent_run_clerk","description":"","parameters":{"type":"object",'
        '"properties":{}},"effects":"read_only","timeout_seconds":600.0,"heartbeat_seconds":30.0,'
        '"runtime":{"kind":"delegate","agent_id":"clerk"}}',
    ),
    Pin(
        LOOK.model_copy(update={"background": True}),
        '{"id":"look","name":"look","description":"","parameters":{"type":"object","properties":{}},'
        '"effects":"once","timeout_seconds":600.0,"heartbeat_seconds":30.0,"background":true}',
    ),
    Pin(
        ToolOutcome(result=SUNNY, handoff="clerk"),
        '{"result":{"tool_name":"look","status":"success","data":{"sky":"sunny"},"message":null},"handoff":"clerk"}',
    ),
)
