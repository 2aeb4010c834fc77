"""The company's own workflow, in the sandbox: it passes a complaint about an order to an agent, as a child."""

from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity, workflow

from wakeful.workflow import AgentFailed, AgentTimedOut, run_agent

DEADLINE = timedelta(days=2)
"""Of a person who is asked about a refund."""


class Complaint(BaseModel):
    """What a customer of one of the shops, our tenants, says about an order."""

    tenant: str
    order_id: int
    customer: str
    text: str


class Ruling(BaseModel):
    """What the agent decided."""

    refunded: int
    reason: str


@activity.defn
async def write_to(customer: str, text: str) -> str:
    """Stands for the company's mail service."""
    return f"to {customer}: {text}"


@workflow.defn
class OrderDesk:
    @workflow.run
    async def run(self, complaint: Complaint) -> str:
        return await workflow.execute_activity(
            write_to,
            args=[complaint.customer, await self._answer(complaint)],
            start_to_close_timeout=timedelta(seconds=30),
        )

    async def _answer(self, complaint: Complaint) -> str:
        try:
            ruling = await run_agent(
                "arbiter",
                f"Order {complaint.order_id}: {complaint.text}",
                output_type=Ruling,
                tenant=complaint.tenant,
                user=complaint.customer,
                metadata={"order_id": complaint.order_id},
                timeout=DEADLINE + timedelta(hours=1),
            )
        except AgentTimedOut:
            return "it takes longer than we thought; we will call you"
        except AgentFailed as error:
            workflow.logger.warning("the arbiter failed", extra={"reason": error.message})
            return "we will call you"
        return f"we refund {ruling.refunded}: {ruling.reason}"
