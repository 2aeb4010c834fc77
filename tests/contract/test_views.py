"""What a status says about the decisions that a run waits for."""

import pytest

from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity, RunStatus, ToolCallStatus, Usage
from wakeful.contract.tasks import Task, TaskContext, TaskType
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
    assert (waiting.settled_by(SUSPENDED), waiting.settled_by(RUNNING)) == (sent, None)
    assert view().settled_by(SUSPENDED) is None


@pytest.mark.parametrize("kind", [SentKind.CANCEL, SentKind.CLOSE])
def test_what_ends_the_run_settles_its_calls(kind: SentKind) -> None:
    """B-368"""
    decision, end = Sent(kind=SentKind.DECISION, at=6, target="1-2"), Sent(kind=kind, at=7)
    assert view(Sent(kind=SentKind.MESSAGE, at=6), end).settled_by(SUSPENDED) == end
    assert view(decision, end).settled_by(SUSPENDED) == decision
    assert view(end, decision).settled_by(SUSPENDED) == end  # the thread refuses the decision


@pytest.mark.parametrize("kind", [SentKind.CANCEL, SentKind.DECISION])
def test_what_was_sent_for_another_run_settles_nothing(kind: SentKind) -> None:
    sent = Sent(kind=kind, at=7, target="1-2", run_id="r1")
    assert view(sent).settled_by(SUSPENDED) == sent
    assert view(sent.model_copy(update={"run_id": "r0"})).settled_by(SUSPENDED) is None
    assert sent.settles("", "1-2")


def test_a_cancel_ends_the_children_of_the_run_and_a_close_those_of_earlier_runs_too() -> None:
    def task(run_id: str) -> Task:
        return Task(
            task_id=run_id,
            owner_thread_id="t1",
            task_type=TaskType.SUB_AGENT,
            thread_id=f"t1/{run_id}",
            parent_context=TaskContext(run_id=run_id),
        )

    def ended(*sent: Sent) -> list[bool]:
        parent = view(*sent).model_copy(update={"tasks": (task("r0"), task("r1"))})
        return [parent.child_cancelled_by(child) is not None for child in ("t1/r0", "t1/r1", "t1/delegate")]

    assert ended() == [False, False, False]
    assert ended(Sent(kind=SentKind.CANCEL, at=7)) == [False, True, True]
    assert ended(Sent(kind=SentKind.CLOSE, at=7)) == [True, True, True]
    assert ended(Sent(kind=SentKind.CANCEL, at=7, run_id="r0")) == [False, False, False]
    assert ended(Sent(kind=SentKind.DECISION, at=7, target="1-2")) == [False, False, False]
