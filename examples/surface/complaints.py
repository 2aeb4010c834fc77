"""A workflow of our own that has an agent do a part of the work: it runs in Temporal's sandbox."""

from datetime import timedelta

from temporalio import workflow

from wakeful.workflow import (
    AgentCancelled,
    AgentFailed,
    AgentHandle,
    AgentOptions,
    AgentTimedOut,
    run_agent,
    start_agent,
)

with workflow.unsafe.imports_passed_through():
    from examples.surface.shop import Ticket
    from wakeful import RunResult

OPTIONS: AgentOptions = {"timeout": timedelta(days=2), "tenant": "acme"}


@workflow.defn
class Complaint:
    """A clerk answers, and the night shift writes a note meanwhile."""

    @workflow.run
    async def run(self, text: str) -> str:
        note: AgentHandle[RunResult] = await start_agent("night", "Write down that there was a complaint.")
        try:
            ticket = await run_agent("clerk", text, output_type=Ticket, **OPTIONS)
        except AgentTimedOut:
            return "The clerk took too long."
        except AgentCancelled:
            return "The clerk was stopped."
        except AgentFailed as error:
            return f"The clerk failed: {error.message}"
        await note.send("The clerk has answered.")
        return f"{ticket.summary} ({(await note.result()).response})"
