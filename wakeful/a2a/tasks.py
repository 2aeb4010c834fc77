"""Tasks as A2A shows them: made of the record of a thread. Pure.

A task is a run, named by a message that the run has read. Until a run reads the message, the task is submitted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import JsonValue

from wakeful.a2a.parts import a2a_message, data_part, parts_of
from wakeful.a2a.projection import Phase, RunRecord, TreeRecord, WaitingCall
from wakeful.a2a.task_ids import task_id
from wakeful.contract import messages
from wakeful.contract.decisions import SuspensionTicket
from wakeful.contract.ids import a2a_context_id
from wakeful.contract.messages import MediaBlock
from wakeful.contract.runs import Blocked, Cancelled, Errored, StopDetail, Stopped, Termination

RESPONSE, FILES = "response", "files"
"""The ids of the artifacts that have the answer of a run, and the files that its tools returned."""

DECIDED_BY, STAFF = "decided_by", "staff"
"""The data of a status by which programs know that no message to the task can make the decision it waits for."""

ON_STAFF = "The task waits for a decision of this service's staff. It continues by itself when they have decided."

TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
INTERRUPTED = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
SETTLED = TERMINAL | INTERRUPTED
"""The states in which a client is not kept waiting."""


@dataclass(frozen=True)
class TaskRef:
    """A task: its thread and the message that names it."""

    thread_id: str
    message_id: str

    @property
    def id(self) -> str:
        return task_id(self.thread_id, self.message_id)

    @property
    def context_id(self) -> str:
        return a2a_context_id(self.thread_id)


def task_of(tree: TreeRecord, ref: TaskRef) -> Task | None:
    """The task that a message names; None if the thread does not know the message, or it did not come over A2A."""
    run = tree.root.run_of(ref.message_id)
    message = tree.root.messages.get(ref.message_id)
    if run is None:
        if message is None:
            return None
        at = tree.root.withdrawn.get(ref.message_id)
        if at is not None:
            return waiting_task(ref, message, at, state=TaskState.TASK_STATE_CANCELED, reason="it was withdrawn")
        return waiting_task(ref, message, tree.root.received_at[ref.message_id])
    if not run.is_over_a2a:
        return None
    task = Task(
        id=ref.id,
        context_id=ref.context_id,
        status=_status(tree, run, ref),
        artifacts=artifacts_of(run),
        history=[_history_message(tree, id, ref) for id in run.message_ids if id in tree.root.messages],
    )
    task.metadata.update({"runId": run.identity.run_id, "agentId": run.identity.agent_id})
    return task


def refs_of(tree: TreeRecord) -> Iterator[TaskRef]:
    """The tasks of a thread: one for each run that came over A2A, and one for each message that no run has read."""
    for run in tree.root.runs:
        if run.is_over_a2a and run.message_ids:
            yield TaskRef(tree.thread_id, run.message_ids[0])
    for message_id in tree.root.messages:
        if tree.root.run_of(message_id) is None:
            yield TaskRef(tree.thread_id, message_id)


def waiting_task(
    ref: TaskRef,
    message: messages.Message,
    at: int,
    *,
    state: TaskState = TaskState.TASK_STATE_SUBMITTED,
    reason: str | None = None,
) -> Task:
    """The task of a message that no run has read, at this time."""
    sent = a2a_message(message, task_id=ref.id, context_id=ref.context_id)
    status = TaskStatus(
        state=state, timestamp=timestamp(at), message=_note(ref.id, ref.context_id, reason) if reason else None
    )
    return Task(id=ref.id, context_id=ref.context_id, status=status, history=[sent])


def rejected(task: Task, reason: str) -> Task:
    """The task of a message that its thread has refused."""
    refused = Task()
    refused.CopyFrom(task)
    message = _note(task.id, task.context_id, reason)
    refused.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_REJECTED, message=message))
    refused.status.timestamp.GetCurrentTime()
    return refused


def artifacts_of(run: RunRecord) -> list[Artifact]:
    """The answer of a run that has ended, and the files that its tools returned."""
    if run.phase is not Phase.DONE or run.summary is None:
        return []
    files = [files_artifact(run.files)] if run.files else []
    if not (run.summary.response or run.summary.artifacts):
        return files
    parts = [Part(text=run.summary.response, media_type="text/plain")] if run.summary.response else []
    if run.summary.output is not None:
        parts.append(data_part(run.summary.output))
    parts += parts_of(run.summary.artifacts)
    return [Artifact(artifact_id=RESPONSE, name=RESPONSE, parts=parts), *files]


def files_artifact(files: Sequence[MediaBlock]) -> Artifact:
    return Artifact(artifact_id=FILES, name=FILES, parts=parts_of(files))


def state_of(termination: Termination | None) -> TaskState:
    """The state of a run that has ended (B-714)."""
    match termination:
        case Cancelled():
            return TaskState.TASK_STATE_CANCELED
        case Blocked():
            return TaskState.TASK_STATE_REJECTED
        case Errored():
            return TaskState.TASK_STATE_FAILED
        case _:
            return TaskState.TASK_STATE_COMPLETED


def timestamp(at: int) -> Timestamp:
    """A time in milliseconds since 1970."""
    time = Timestamp()
    time.FromMilliseconds(at)
    return time


def _status(tree: TreeRecord, run: RunRecord, ref: TaskRef) -> TaskStatus:
    status = TaskStatus(state=TaskState.TASK_STATE_WORKING, timestamp=timestamp(run.at))
    match run.phase:
        case Phase.CREATED:
            status.state = TaskState.TASK_STATE_SUBMITTED
        case Phase.DONE:
            status.state = state_of(run.termination)
            if (reason := _reason(run)) is not None:
                status.message.CopyFrom(_note(ref.id, ref.context_id, reason))
        case _ if run is tree.root.newest and (waiting := tree.waiting()):
            asked = next(iter(for_clients(tree)), None)
            is_auth = asked is None or asked.is_about_auth
            status.state = TaskState.TASK_STATE_AUTH_REQUIRED if is_auth else TaskState.TASK_STATE_INPUT_REQUIRED
            status.message.CopyFrom(question(ref, asked) if asked is not None else _note_on_staff(ref, waiting[0]))
        case _:
            pass
    return status


def for_clients(tree: TreeRecord) -> list[WaitingCall]:
    """The calls that a task waits for and that clients may decide, the oldest of each thread first."""
    return [call for call in tree.waiting() if tree.decisions.include(is_question=call.is_question)]


def question(ref: TaskRef, call: WaitingCall) -> Message:
    """What a suspended call asks: a text for people, and its call for programs."""
    ticket = call.ticket
    asked, suspension = ticket.pending, ticket.suspension
    facts: dict[str, JsonValue] = {
        "kind": "auth" if call.is_about_auth else "input",
        "action": suspension.action,
        "call_id": asked.id,
        "tool": asked.name,
        "arguments": asked.arguments,
    }
    if suspension.response_schema is not None:
        facts["response_schema"] = suspension.response_schema
    if ticket.expires_at is not None:
        facts["expires_at"] = ticket.expires_at
    parts = [Part(text=_question_text(ticket), media_type="text/plain"), data_part(facts)]
    return _asking(ref, call, parts)


def _note_on_staff(ref: TaskRef, call: WaitingCall) -> Message:
    """What clients see of a decision that is not theirs: that there is one. The call's arguments may be internal."""
    parts = [Part(text=ON_STAFF, media_type="text/plain"), data_part({"kind": "auth", DECIDED_BY: STAFF})]
    return _asking(ref, call, parts)


def _asking(ref: TaskRef, call: WaitingCall, parts: list[Part]) -> Message:
    id = f"{ref.id}:{call.ticket.suspension.id}"
    return Message(message_id=id, task_id=ref.id, context_id=ref.context_id, role=Role.ROLE_AGENT, parts=parts)


def _question_text(ticket: SuspensionTicket) -> str:
    if ticket.suspension.message:
        return ticket.suspension.message
    arguments = ticket.pending.arguments
    asked = arguments.get("question") if isinstance(arguments, dict) else None
    return asked if isinstance(asked, str) else f"The tool {ticket.pending.name!r} waits for its result."


def _reason(run: RunRecord) -> str | None:
    """Why a run ended as it did, if not naturally."""
    detail = run.summary.detail if run.summary is not None else None
    match run.termination:
        case Errored(value=text) | Blocked(value=text):
            return text
        case Stopped(value=StopDetail(code=code, detail=why)):
            return f"stopped: {why or code}"
        case Cancelled():
            return detail or "it was cancelled"
        case _:
            return None


def _note(task_id: str, context_id: str, text: str) -> Message:
    parts = [Part(text=text, media_type="text/plain")]
    id = f"{task_id}:status"
    return Message(message_id=id, task_id=task_id, context_id=context_id, role=Role.ROLE_AGENT, parts=parts)


def _history_message(tree: TreeRecord, message_id: str, ref: TaskRef) -> Message:
    return a2a_message(tree.root.messages[message_id], task_id=ref.id, context_id=ref.context_id)
