"""A user's workflow that passes `wakeful` through the sandbox."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import wakeful
    from wakeful import RunRequest, RunResult


@workflow.defn(name="PassedThrough", sandboxed=True)
class PassedThrough:
    @workflow.run
    async def run(self, agent_id: str) -> str:
        result = await workflow.execute_child_workflow(
            "AgentRun", RunRequest(agent_id=agent_id, input="hello"), result_type=RunResult, task_queue="wakeful"
        )
        # Looked up when the workflow runs, on a module that was passed through.
        return f"{type(result) is wakeful.RunResult} {result.status is wakeful.RunStatus.DONE}"
