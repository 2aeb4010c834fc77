"""Pins of `wakeful.contract.tasks`."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.tasks import Task, TaskContext, TaskStatus, TaskType

TASK = Task(task_id="bg_0", owner_thread_id="t1", task_type=TaskType.TOOL)
ENDED = Task(
    task_id="bg_1",
    owner_thread_id="t1",
    task_type=TaskType.SUB_AGENT,
    name="books",
    description="Add up.",
    status=TaskStatus.COMPLETED,
    result={"sum": 4},
    created_at_ms=7,
    completed_at_ms=9,
    parent_context=TaskContext(task_id="bg_0", run_id="r1", call_id="c1", agent_id="assistant"),
    thread_id="t1/books",
    agent_id="clerk",
)

PINS = (
    Pin(
        TASK,
        '{"task_id":"bg_0","owner_thread_id":"t1","task_type":"tool","description":"","status":"running",'
        '"created_at_ms":0,"parent_context":{}}',
    ),
    Pin(
        ENDED,
        '{"task_id":"bg_1","owner_thread_id":"t1","task_type":"sub_agent","name":"books",'
        '"description":"Add up.","status":"completed","result":{"sum":4},"created_at_ms":7,'
        '"completed_at_ms":9,"parent_context":{"task_id":"bg_0","run_id":"r1","call_id":"c1",'
        '"agent_id":"assistant"},"thread_id":"t1/books","agent_id":"clerk"}',
    ),
    Pin(
        TASK.model_copy(update={"status": TaskStatus.FAILED, "error": "no"}),
        '{"task_id":"bg_0","owner_thread_id":"t1","task_type":"tool","description":"","status":"failed",'
        '"error":"no","created_at_ms":0,"parent_context":{}}',
    ),
    Pin(
        TASK.model_copy(update={"status": TaskStatus.CANCELLED}),
        '{"task_id":"bg_0","owner_thread_id":"t1","task_type":"tool","description":"",'
        '"status":"cancelled","created_at_ms":0,"parent_context":{}}',
    ),
    Pin(TaskContext(), "{}"),
    Pin(
        TaskContext(task_id="bg_0", run_id="r1", call_id="c1", agent_id="assistant"),
        '{"task_id":"bg_0","run_id":"r1","call_id":"c1","agent_id":"assistant"}',
    ),
)
