"""What a status says about the decisions that a run waits for."""

from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity, RunStatus, ToolCallStatus, Usage
from wakeful.contract.views import StatusView, ToolCallView

TICKET = SuspensionTicket(
    suspension=Suspension(id="perm_1-2", action="tool:look"), pending=ToolCall(id="1-2", name="look")
)


def test_the_pending_decisions_are_the_tickets_of_the_suspended_calls() -> None:
    """B-348"""
    view = StatusView(
        identity=RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant"),
        status=RunStatus.WAITING,
        doing="",
        steps=1,
        usage=Usage(),
        calls=(
            ToolCallView(call_id="1-1", tool_name="look", status=ToolCallStatus.RUNNING),
            ToolCallView(call_id="1-2", tool_name="look", status=ToolCallStatus.SUSPENDED, ticket=TICKET, since=7),
        ),
    )
    assert view.pending == (TICKET,)
