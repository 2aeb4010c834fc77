"""Pins of `wakeful.contract.runs`."""

from tests.contract.pinned.budgets import SPENT
from tests.contract.pinned.pin import Pin
from wakeful.contract.runs import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    CancelReceipt,
    Errored,
    NaturalEnd,
    Origin,
    RunIdentity,
    RunResult,
    StopDetail,
    Stopped,
    Suspended,
    TaskRef,
    Termination,
    Usage,
    status_reason,
)

IDENTITY = RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant")
CHILD = RunIdentity(
    thread_id="t2",
    parent_thread_id="t1",
    run_id="r2",
    parent_run_id="r1",
    agent_id="researcher",
    parent_tool_call_id="c7",
    session_id="s1",
    transport_request_id="q1",
    origin=Origin.SUBAGENT,
)
TASK_REF = TaskRef(task_id="bg_0", thread_id="t2", owner_thread_id="t1")
RECEIPT = CancelReceipt(cancelled=("t2",), ended=("t3",))
USAGE = Usage(prompt_tokens=10, completion_tokens=2)
STOPPED = Stopped(value=StopDetail(code="max_rounds", detail="16 rounds of tool calls were made"))


def ended(termination: Termination) -> RunResult:
    return RunResult(
        thread_id="t1",
        run_id="r1",
        agent_id="assistant",
        status_reason=status_reason(termination),
        termination=termination,
    )


PINS = (
    Pin(IDENTITY, '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user"}'),
    Pin(
        CHILD,
        '{"thread_id":"t2","parent_thread_id":"t1","run_id":"r2","parent_run_id":"r1",'
        '"agent_id":"researcher","parent_tool_call_id":"c7","session_id":"s1",'
        '"transport_request_id":"q1","origin":"subagent"}',
    ),
    Pin(Usage(), "{}"),
    Pin(
        Usage(
            prompt_tokens=1,
            completion_tokens=2,
            total_tokens=3,
            cache_read_tokens=4,
            cache_creation_tokens=5,
            thinking_tokens=6,
        ),
        '{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cache_read_tokens":4,'
        '"cache_creation_tokens":5,"thinking_tokens":6}',
    ),
    Pin(StopDetail(code="timeout"), '{"code":"timeout"}'),
    Pin(
        StopDetail(code="max_rounds", detail="16 rounds of tool calls were made"),
        '{"code":"max_rounds","detail":"16 rounds of tool calls were made"}',
    ),
    Pin(NaturalEnd(), '{"type":"natural_end"}'),
    Pin(BehaviorRequested(), '{"type":"behavior_requested"}'),
    Pin(Stopped(value=StopDetail(code="max_rounds")), '{"type":"stopped","value":{"code":"max_rounds"}}'),
    Pin(Cancelled(), '{"type":"cancelled"}'),
    Pin(
        Blocked(value="Tool 'rm' denied by permission rules"),
        '{"type":"blocked","value":"Tool \'rm\' denied by permission rules"}',
    ),
    Pin(Suspended(), '{"type":"suspended"}'),
    Pin(Errored(value="no credit"), '{"type":"error","value":"no credit"}'),
    Pin(
        ended(NaturalEnd()),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"natural","termination":{"type":"natural_end"},"response":"","steps":0,'
        '"usage":{}}',
    ),
    Pin(
        ended(BehaviorRequested()),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"behavior_requested","termination":{"type":"behavior_requested"},"response":"",'
        '"steps":0,"usage":{}}',
    ),
    Pin(
        ended(STOPPED),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"stopped:max_rounds","termination":{"type":"stopped",'
        '"value":{"code":"max_rounds","detail":"16 rounds of tool calls were made"}},"response":"",'
        '"steps":0,"usage":{}}',
    ),
    Pin(
        ended(Cancelled()),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"cancelled","termination":{"type":"cancelled"},"response":"","steps":0,'
        '"usage":{}}',
    ),
    Pin(
        ended(Blocked(value="denied")),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"blocked:denied","termination":{"type":"blocked","value":"denied"},'
        '"response":"","steps":0,"usage":{}}',
    ),
    Pin(
        ended(Suspended()),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"suspended","termination":{"type":"suspended"},"response":"","steps":0,'
        '"usage":{}}',
    ),
    Pin(
        ended(Errored(value="no credit")),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"error:no credit","termination":{"type":"error","value":"no credit"},'
        '"response":"","steps":0,"usage":{}}',
    ),
    Pin(
        ended(Cancelled()).model_copy(
            update={"response": "So far", "detail": "too slow", "steps": 2, "usage": USAGE, "unread": ("m1", "m2")}
        ),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"cancelled","termination":{"type":"cancelled"},"response":"So far",'
        '"detail":"too slow","steps":2,"usage":{"prompt_tokens":10,"completion_tokens":2},"unread":["m1",'
        '"m2"]}',
    ),
    Pin(
        ended(NaturalEnd()).model_copy(update={"response": '{"sky":"blue"}', "output": {"sky": "blue"}}),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"natural","termination":{"type":"natural_end"},"response":"{\\"sky\\":\\"blue\\"}",'
        '"steps":0,"usage":{},"output":{"sky":"blue"}}',
    ),
    Pin(TASK_REF, '{"task_id":"bg_0","thread_id":"t2","owner_thread_id":"t1"}'),
    Pin(
        TaskRef(task_id="bg_0", thread_id="t2", owner_thread_id="t1", name="scout"),
        '{"task_id":"bg_0","thread_id":"t2","owner_thread_id":"t1","name":"scout"}',
    ),
    Pin(CancelReceipt(), "{}"),
    Pin(RECEIPT, '{"cancelled":["t2"],"ended":["t3"]}'),
    Pin(
        CHILD.model_copy(update={"path": ("t0", "t1"), "task": TASK_REF}),
        '{"thread_id":"t2","parent_thread_id":"t1","run_id":"r2","parent_run_id":"r1",'
        '"agent_id":"researcher","parent_tool_call_id":"c7","session_id":"s1",'
        '"transport_request_id":"q1","origin":"subagent","path":["t0","t1"],"task":{"task_id":"bg_0",'
        '"thread_id":"t2","owner_thread_id":"t1"}}',
    ),
    Pin(Usage(prompt_tokens=1, cost=0.25), '{"prompt_tokens":1,"cost":0.25}'),
    Pin(
        ended(Cancelled()).model_copy(update={"receipt": RECEIPT, "tree": SPENT}),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","status":"done",'
        '"status_reason":"cancelled","termination":{"type":"cancelled"},"response":"","steps":0,'
        '"usage":{},"receipt":{"cancelled":["t2"],"ended":["t3"]},"tree":{"tokens":7,"cost":0.5,'
        '"turns":2,"tool_calls":1}}',
    ),
)
