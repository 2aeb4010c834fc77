"""Tasks as a fold of events, without a server: the states of B-714, and what streams show."""

import base64
from collections.abc import Iterator

import pytest
from a2a.types import Part, TaskArtifactUpdateEvent, TaskState
from pydantic import JsonValue

from wakeful.a2a.following import AnswerStream
from wakeful.a2a.projection import TreeRecord
from wakeful.a2a.tasks import TaskRef, for_clients, refs_of, task_of
from wakeful.contract.decisions import ClientDecisions, ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.events import (
    AgentEvent,
    AnswerGiven,
    ChildStarted,
    ErrorEvent,
    EventRecord,
    FinishSummary,
    MessageReceived,
    MessagesRead,
    MessagesWithdrawn,
    RunFinish,
    RunStart,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.messages import Base64Source, ImageBlock, Message, Role, TextBlock, ToolCall
from wakeful.contract.names import ACTION_PERMISSION, AWAITING_TASKS
from wakeful.contract.runs import (
    Adapter,
    BehaviorRequested,
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    RunIdentity,
    RunStatus,
    StopDetail,
    Stopped,
    Suspended,
    Termination,
)
from wakeful.contract.tools import ToolResult

REF = TaskRef("t", "m1")
REPLAY = ResumeMode.REPLAY_TOOL_CALL
PAY = ToolCall(id="1-1", name="pay")
SIGN_IN = ToolCall(id="1-1", name="remote_input", arguments={"kind": "auth"})


class Told:
    """A thread whose events are told one by one."""

    def __init__(self, decisions: ClientDecisions = ClientDecisions.ALL) -> None:
        self.tree = TreeRecord("t", decisions)
        self.answer = AnswerStream(REF)
        self.numbers: dict[str, int] = {}

    def tell(self, *events: AgentEvent, child: str | None = None, run_id: str = "r1") -> list[TaskArtifactUpdateEvent]:
        """Take the events, and return what a stream shows of the answer."""
        shown = list[TaskArtifactUpdateEvent]()
        for event in events:
            thread = child or "t"
            self.numbers[thread] = self.numbers.get(thread, 0) + 1
            path = (child,) if child else ()
            record = EventRecord(seq=self.numbers[thread], at=1000, run_id=run_id, agent_id="a", path=path, event=event)
            self.tree.on_record(record)
            if (run := self.tree.root.run_of("m1")) is not None:
                shown += self.answer.on_record(record, run)
        return shown

    @property
    def state(self) -> str:
        task = task_of(self.tree, REF)
        assert task is not None
        return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()

    @property
    def note(self) -> str:
        task = task_of(self.tree, REF)
        assert task is not None
        return task.status.message.parts[0].text if task.status.message.parts else ""


def received(id: str = "m1", adapter: Adapter | None = Adapter.A2A) -> MessageReceived:
    message = Message(id=id, role=Role.USER, content=(TextBlock(text="hi"),))
    return MessageReceived(message=message, adapter=adapter)


def start(*message_ids: str, run_id: str = "r1", adapter: Adapter = Adapter.A2A, thread_id: str = "t") -> RunStart:
    identity = RunIdentity(thread_id=thread_id, run_id=run_id, agent_id="a", adapter=adapter)
    return RunStart(thread_id=thread_id, run_id=run_id, identity=identity, message_ids=message_ids)


def paused(reason: str = "suspended", *, thread_id: str = "t", run_id: str = "r1") -> RunFinish:
    summary = FinishSummary(response="", status=RunStatus.WAITING, status_reason=reason)
    return RunFinish(thread_id=thread_id, run_id=run_id, result=summary, termination=Suspended())


def finished(termination: Termination, response: str = "", *, rolled_back: bool = False) -> RunFinish:
    summary = FinishSummary(response=response, status=RunStatus.DONE)
    return RunFinish(thread_id="t", run_id="r1", result=summary, termination=termination, rolled_back=rolled_back)


def suspended(action: str = "ask", call_id: str = "1-1") -> ToolCallDone:
    suspension = Suspension(id=f"s_{call_id}", action=action, message="Well?")
    ticket = SuspensionTicket(suspension=suspension, pending=ToolCall(id=call_id, name="pay"))
    return ToolCallDone(id=call_id, result=ToolResult.suspended("pay", ticket), outcome=ToolCallOutcome.SUSPENDED)


def resumed(call_id: str = "1-1") -> ToolCallResumed:
    return ToolCallResumed(target_id=call_id, result=None, outcome=ToolCallOutcome.SUCCEEDED)


def step() -> StepStart:
    return StepStart(message_id="a1")


def test_a_run_is_submitted_until_its_first_step_and_then_works_b714() -> None:
    told = Told()
    assert task_of(told.tree, REF) is None
    told.tell(received())
    assert told.state == "submitted"
    told.tell(start("m1"))
    assert told.state == "submitted"
    told.tell(step())
    assert told.state == "working"


@pytest.mark.parametrize(
    ("termination", "state", "note"),
    [
        (NaturalEnd(), "completed", ""),
        (BehaviorRequested(), "completed", ""),
        (Stopped(value=StopDetail(code="max_rounds")), "completed", "stopped: max_rounds"),
        (Cancelled(), "canceled", "it was cancelled"),
        (Blocked(value="never"), "rejected", "never"),
        (Errored(value="boom"), "failed", "boom"),
    ],
)
def test_the_end_of_a_run_is_the_state_of_its_task_b714(termination: Termination, state: str, note: str) -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), finished(termination, "done"))
    assert (told.state, told.note) == (state, note)


def test_a_run_that_was_rolled_back_is_canceled() -> None:
    told = Told()
    told.tell(received(), start("m1"), finished(Cancelled(), rolled_back=True))
    assert told.state == "canceled"


def test_a_run_that_was_ended_from_outside_has_failed() -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), ErrorEvent(message="terminated"))
    assert (told.state, told.note) == ("failed", "terminated")


@pytest.mark.parametrize(("action", "state"), [("ask", "input_required"), (ACTION_PERMISSION, "auth_required")])
def test_a_run_that_waits_for_a_decision_asks_for_it_until_it_continues_b714(action: str, state: str) -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), suspended(action))
    assert told.state == "working"  # other calls of the step still run
    told.tell(paused())
    assert (told.state, told.note) == (state, "Well?")
    told.tell(start())
    assert told.state == "working"
    told.tell(resumed())
    assert (told.state, told.tree.waiting()) == ("working", [])


def test_a_run_that_waits_for_its_background_tasks_works_b714() -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), paused(AWAITING_TASKS))
    assert told.state == "working"


def test_what_is_still_undecided_is_asked_next() -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), suspended(), suspended(call_id="1-2"), paused())
    told.tell(start(), resumed(), paused())
    assert [call.ticket.pending.id for call in told.tree.waiting()] == ["1-2"]


def test_a_delegate_that_waits_for_a_decision_makes_the_task_wait() -> None:
    told = Told()
    begun = ChildStarted(work_id="w", thread_id="t/c", call_id="1-1", agent_id="b")
    told.tell(received(), start("m1"), step(), begun)
    told.tell(start("x", thread_id="t/c"), step(), suspended(ACTION_PERMISSION), child="t/c")
    assert told.state == "working"
    told.tell(paused(thread_id="t/c"), child="t/c")
    assert (told.state, [call.thread_id for call in told.tree.waiting()]) == ("auth_required", ["t/c"])
    assert told.tree.positions == {"t": 4, "t/c": 4}
    told.tell(ToolCallDone(id="1-1", result=ToolResult.success("b", 1), outcome=ToolCallOutcome.SUCCEEDED))
    assert (told.state, told.tree.root.all_delegates) == ("working", {"t/c"})


def test_a_message_that_is_withdrawn_or_read_by_the_run_under_way_has_a_task() -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), received("m2"), received("m3"))
    assert [ref.message_id for ref in refs_of(told.tree)] == ["m1", "m2", "m3"]
    told.tell(MessagesWithdrawn(message_ids=("m2",)), MessagesRead(message_ids=("m3",)), finished(NaturalEnd(), "done"))
    tasks = {ref.message_id: task_of(told.tree, ref) for ref in (TaskRef("t", "m2"), TaskRef("t", "m3"))}
    states = {id: task and TaskState.Name(task.status.state) for id, task in tasks.items()}
    assert states == {"m2": "TASK_STATE_CANCELED", "m3": "TASK_STATE_COMPLETED"}
    first = task_of(told.tree, REF)
    assert first is not None
    assert [message.message_id for message in first.history] == ["m1", "m3"]


def test_a_message_of_the_application_is_no_task_and_not_in_the_history_of_one() -> None:
    told = Told()
    told.tell(received(), start("m1"), step(), received("m2", None), received("m3", None), received("m4", None))
    told.tell(MessagesRead(message_ids=("m2",)), MessagesWithdrawn(message_ids=("m3",)))
    assert list(refs_of(told.tree)) == [REF]
    assert [task_of(told.tree, TaskRef("t", id)) for id in ("m2", "m3", "m4")] == [None] * 3
    first = task_of(told.tree, REF)
    assert first is not None
    assert [message.message_id for message in first.history] == ["m1"]


def test_of_events_that_do_not_say_how_messages_came_the_run_says_it_of_the_one_that_began_it() -> None:
    told = Told()
    told.tell(received(adapter=None), received("m2", None), start("mail", "m1", "m2"))
    assert list(refs_of(told.tree)) == [REF]
    first = task_of(told.tree, REF)
    assert first is not None
    assert [message.message_id for message in first.history] == ["m1"]


def test_a_run_that_did_not_come_over_a2a_is_no_task() -> None:
    told = Told()
    told.tell(received(), received("m2", None), start("m2", "m1", adapter=Adapter.INTERNAL), step())
    assert (task_of(told.tree, REF), list(refs_of(told.tree))) == (None, [])


def test_an_answer_is_streamed_as_one_artifact_that_a_new_step_or_a_restart_replaces() -> None:
    told = Told()
    told.tell(received(), start("m1"))
    shown = told.tell(step(), TextDelta(delta="let me "), TextDelta(delta="see"))
    shown += told.tell(step(), TextDelta(delta="wro"), StreamReset(reason="lost"), TextDelta(delta="right"))
    shown += told.tell(TextDelta(delta="never"), run_id="r2")
    assert list(_changes(shown)) == [
        ("let me ", False),
        ("see", True),
        ("wro", False),
        ("right", False),
    ]
    assert told.tell(finished(NaturalEnd(), "right")) == []


def test_an_answer_that_was_not_streamed_is_shown_at_the_end() -> None:
    told = Told()
    told.tell(received(), start("m1"), step())
    shown = told.tell(AnswerGiven(message_id="a", text="given"), finished(BehaviorRequested(), "given"))
    assert list(_changes(shown)) == [("given", False)]
    assert shown[0].last_chunk


PICTURE = ImageBlock(source=Base64Source(media_type="image/png", data=base64.b64encode(b"plan").decode()))


@pytest.mark.parametrize("text", ["see the plan", ""])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_the_files_of_an_answer_are_parts_of_its_artifact(text: str, is_streamed: bool) -> None:
    """B-505"""
    told = Told()
    told.tell(received(), start("m1"), step())
    if is_streamed and text:
        told.tell(TextDelta(delta=text))
    end = finished(NaturalEnd(), text)
    assert end.result is not None
    shown = told.tell(end.model_copy(update={"result": end.result.model_copy(update={"artifacts": (PICTURE,)})}))
    task = task_of(told.tree, REF)
    assert task is not None
    (artifact,) = task.artifacts
    file = Part(raw=b"plan", media_type="image/png")
    assert list(artifact.parts) == [*([Part(text=text, media_type="text/plain")] if text else []), file]
    assert shown[-1].artifact.parts[-1] == file
    assert (shown[-1].append, shown[-1].last_chunk) == (is_streamed and bool(text), True)


def _changes(shown: list[TaskArtifactUpdateEvent]) -> Iterator[tuple[str, bool]]:
    return ((event.artifact.parts[0].text, event.append) for event in shown)


def waiting(ticket: SuspensionTicket, decisions: ClientDecisions, *, gated: bool = False) -> tuple[str, bool]:
    """The state of a task that waits for a decision, and whether a client may make it."""
    told = Told(decisions)
    result, outcome = ToolResult.suspended("pay", ticket), ToolCallOutcome.SUSPENDED
    told.tell(received(), start("m1"), step())
    told.tell(ToolCallDone(id="1-1", result=result, outcome=outcome, gated=gated), paused())
    return told.state, bool(for_clients(told.tree))


def asking(
    action: str = "size", mode: ResumeMode = REPLAY, schema: JsonValue = None, call: ToolCall = PAY
) -> SuspensionTicket:
    suspension = Suspension(id="s", action=action, response_schema=schema)
    return SuspensionTicket(suspension=suspension, pending=call, resume_mode=mode)


QUESTIONS = [
    asking(schema={"type": "string"}),
    asking(mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT),
    asking(mode=ResumeMode.PASS_DECISION_TO_TOOL),
]
APPROVALS = [
    asking(),
    asking(ACTION_PERMISSION),
    asking(ACTION_PERMISSION, schema={"type": "boolean"}),
    asking(mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT, call=SIGN_IN),
]


@pytest.mark.parametrize("ticket", QUESTIONS)
def test_clients_answer_what_a_tool_asks_for(ticket: SuspensionTicket) -> None:
    assert waiting(ticket, ClientDecisions.QUESTIONS) == ("input_required", True)
    assert waiting(ticket, ClientDecisions.ALL) == ("input_required", True)
    assert waiting(ticket, ClientDecisions.NONE) == ("auth_required", False)
    # What a gate asks is whether the call may run, also if it asks with a form.
    assert waiting(ticket, ClientDecisions.QUESTIONS, gated=True) == ("auth_required", False)
    assert waiting(ticket, ClientDecisions.ALL, gated=True) == ("input_required", True)


@pytest.mark.parametrize("ticket", APPROVALS)
def test_clients_say_whether_a_call_may_run_only_if_all_decisions_are_theirs(ticket: SuspensionTicket) -> None:
    assert waiting(ticket, ClientDecisions.QUESTIONS) == ("auth_required", False)
    assert waiting(ticket, ClientDecisions.NONE) == ("auth_required", False)
    assert waiting(ticket, ClientDecisions.ALL)[1]


def test_a_client_sees_nothing_of_a_call_that_is_not_its_to_decide() -> None:
    told = Told(ClientDecisions.QUESTIONS)
    told.tell(received(), start("m1"), step(), suspended(ACTION_PERMISSION), paused())
    task = task_of(told.tree, REF)
    assert task is not None
    assert "pay" not in str(task.status)
    told.tell(suspended_with(asking(schema={"type": "string"}, call=ToolCall(id="1-2", name="ask"))), paused())
    assert [call.ticket.pending.id for call in for_clients(told.tree)] == ["1-2"]
    assert told.state == "input_required"


def suspended_with(ticket: SuspensionTicket) -> ToolCallDone:
    result = ToolResult.suspended(ticket.pending.name, ticket)
    return ToolCallDone(id=ticket.pending.id, result=result, outcome=ToolCallOutcome.SUSPENDED)
