"""A user's workflow that imports `wakeful` as it would import anything."""

from temporalio import workflow

import wakeful
from wakeful import RunRequest, RunResult


@workflow.defn(name="PlainImport", sandboxed=True)
class PlainImport:
    @workflow.run
    async def run(self, agent_id: str) -> str:
        result = await workflow.execute_child_workflow(
            "AgentRun", RunRequest(agent_id=agent_id, input="hello"), result_type=RunResult, task_queue="wakeful"
        )
        return f"{type(result) is wakeful.RunResult} {result.status is wakeful.RunStatus.DONE}"
