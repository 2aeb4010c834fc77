"""What a status says about the decisions that a run waits for."""

import pytest

from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity, RunStatus, ToolCallStatus, Usage
from wakeful.contract.views import Sent, SentKind, StatusView, ToolCallView

TICKET = SuspensionTicket(
    suspension=Suspension(id="perm_1-2", action="tool:look"), pending=ToolCall(id="1-2", name="look")
)


RUNNING = ToolCallView(call_id="1-1", tool_name="look", status=ToolCallStatus.RUNNING)
SUSPENDED = ToolCallView(call_id="1-2", tool_name="look", status=ToolCallStatus.SUSPENDED, ticket=TICKET, since=7)


def view(*unhandled: Sent) -> StatusView:
    return StatusView(
        identity=RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant"),
        status=RunStatus.WAITING,
        doing="",
        steps=1,
        usage=Usage(),
        calls=(RUNNING, SUSPENDED),
        unhandled=unhandled,
    )


def test_the_pending_decisions_are_the_tickets_of_the_suspended_calls() -> None:
    """B-348"""
    assert view().pending == (TICKET,)


@pytest.mark.parametrize("target", ["1-2", "perm_1-2"])
def test_a_decision_that_was_sent_is_found_by_either_name_of_its_call(target: str) -> None:
    """B-368"""
    sent = Sent(kind=SentKind.DECISION, at=7, target=target)
    waiting = view(Sent(kind=SentKind.MESSAGE, at=6), sent, Sent(kind=SentKind.DECISION, at=8, target=target))
    assert (waiting.decision_sent(SUSPENDED), waiting.decision_sent(RUNNING)) == (sent, None)
    assert view().decision_sent(SUSPENDED) is None
