"""What a status says about the decisions a run waits for."""

from tests.contract.pinned.decisions import TICKET
from tests.contract.pinned.runs import IDENTITY
from tests.contract.pinned.views import RUNNING, SUSPENDED
from wakeful.contract.ids import ticket_id
from wakeful.contract.runs import RunStatus, Usage
from wakeful.contract.views import StatusView


def test_the_pending_decisions_are_the_tickets_of_the_suspended_calls() -> None:
    """B-348"""
    view = StatusView(
        identity=IDENTITY, status=RunStatus.WAITING, doing="", steps=1, usage=Usage(), calls=(RUNNING, SUSPENDED)
    )
    assert view.pending == (TICKET,)


def test_a_ticket_is_named_by_its_thread_and_its_call() -> None:
    assert ticket_id("t1", "call_1") == "t1/call_1"
