"""A user's workflow that imports `wakeful` before the sandbox has loaded temporalio."""
# ruff: noqa: I001

import wakeful
from wakeful import RunRequest, RunResult
from temporalio import workflow


@workflow.defn(name="ImportedFirst", sandboxed=True)
class ImportedFirst:
    @workflow.run
    async def run(self, agent_id: str) -> str:
        result = await workflow.execute_child_workflow(
            "AgentRun", RunRequest(agent_id=agent_id, input="hello"), result_type=RunResult, task_queue="wakeful"
        )
        return f"{type(result) is wakeful.RunResult} {result.status is wakeful.RunStatus.DONE}"
