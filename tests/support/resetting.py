"""Reset a thread as Temporal's own tools do."""

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from wakeful.client.client import Client


async def reset(client: Client, thread_id: str, *, run_id: str, share: float) -> None:
    """Reset an execution to the point where it had completed this share of its workflow tasks."""
    history = [event async for event in client.handle(thread_id, run_id=run_id).fetch_history_events()]
    tasks = [event.event_id for event in history if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    request = ResetWorkflowExecutionRequest(
        namespace=client.temporal.namespace,
        workflow_execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        workflow_task_finish_event_id=tasks[int(share * (len(tasks) - 1))],
        reason="a test",
        request_id=f"{run_id}-{share}",
    )
    await client.temporal.workflow_service.reset_workflow_execution(request)
