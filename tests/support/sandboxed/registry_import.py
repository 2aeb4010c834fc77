"""A user's workflow in one file with what the worker needs: the sandbox loads all of it, and rejects the clock."""

from datetime import datetime

from temporalio import workflow

from wakeful import Agent, Registry
from wakeful.workflow import run_agent

registry = Registry(agents=[Agent(id="clerk", instructions=f"It is {datetime.now():%Y}.")])


@workflow.defn(name="RegistryImport", sandboxed=True)
class RegistryImport:
    @workflow.run
    async def run(self) -> str:
        return (await run_agent("clerk", "hello")).response
