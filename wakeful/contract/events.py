"""Events: what a watcher of a run sees. The loop emits them; they are derived from history and never written to it.

The events of a thread have its whole conversation: `message_received`, `mail_received` and `note_added` have each
message in full, `run_start` and `messages_read` say when a received one enters the conversation, the deltas after
`step_start` are the answer with that id, and `tool_call_done` and `tool_call_resumed` have the results of its calls.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.files import FileRef
from wakeful.contract.messages import MediaBlock, Message
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity, RunStatus, Termination, Usage
from wakeful.contract.tasks import Task
from wakeful.contract.tools import ToolResult


class ToolCallOutcome(StrEnum):
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class RunStart(Wire):
    """A run started, or continues after a pause."""

    event_type: Literal["run_start"] = "run_start"
    thread_id: str
    run_id: str
    parent_run_id: Maybe[str] = None
    identity: Maybe[RunIdentity] = None
    message_ids: Few[tuple[str, ...]] = ()
    """The messages that the run answers: they enter the conversation here. Empty when a run continues after a pause."""


class FinishSummary(Wire):
    response: str
    status: RunStatus
    status_reason: Maybe[str] = None
    detail: Maybe[str] = None
    """Of a cancelled run: the reason that was given."""
    output: Maybe[JsonValue] = None
    """The answer, parsed as the agent's output type."""
    artifacts: Few[tuple[MediaBlock, ...]] = ()
    """The files of the answer."""
    tool_files: Few[tuple[FileRef, ...]] = ()
    """Where the files are that tools of the run and of its sub-agents returned."""
    usage: Maybe[Usage] = None
    """Of the run so far; absent if no provider reported any."""
    unread: Few[tuple[str, ...]] = ()
    """Messages that were received and that the thread has ended too early to read."""


class RunFinish(Wire):
    """A run paused or ended. A pause has the termination `suspended`; `run_start` follows when the run continues."""

    event_type: Literal["run_finish"] = "run_finish"
    thread_id: str
    run_id: str
    identity: Maybe[RunIdentity] = None
    result: Maybe[FinishSummary] = None
    termination: Termination
    rolled_back: Few[bool] = False
    """A message rolled the run back: everything since its first `run_start` is removed from the conversation."""


class MessageReceived(Wire):
    """The thread accepted a message of a client. A run reads it at once or later, and may end before it does."""

    event_type: Literal["message_received"] = "message_received"
    message: Message


class MessageEdited(Wire):
    """A client replaced a message that no run has read: this one, with the same id, enters the conversation."""

    event_type: Literal["message_edited"] = "message_edited"
    message: Message


class MessagesWithdrawn(Wire):
    """A client withdrew messages that were received: no run reads them."""

    event_type: Literal["messages_withdrawn"] = "messages_withdrawn"
    message_ids: tuple[str, ...]


class MessagesRead(Wire):
    """Messages or mail that a run under way reads: they enter the conversation here, in this order."""

    event_type: Literal["messages_read"] = "messages_read"
    message_ids: tuple[str, ...]


class NoteAdded(Wire):
    """The loop added a note for the model to the conversation, such as to continue an answer. People do not see it."""

    event_type: Literal["note_added"] = "note_added"
    message_id: str
    text: str


class AnswerGiven(Wire):
    """A hook or a tool ended the run with an answer of its own: it enters the conversation here."""

    event_type: Literal["answer_given"] = "answer_given"
    message_id: str
    text: str


class StepStart(Wire):
    event_type: Literal["step_start"] = "step_start"
    message_id: str
    """Of the answer."""


class StepEnd(Wire):
    event_type: Literal["step_end"] = "step_end"
    discarded: Few[bool] = False
    """The conversation does not have the answer: it failed, was cancelled or rejected, or the run ended with it."""


class TextDelta(Wire):
    """More of the model's text."""

    event_type: Literal["text_delta"] = "text_delta"
    delta: str


class ReasoningDelta(Wire):
    """More of the model's reasoning."""

    event_type: Literal["reasoning_delta"] = "reasoning_delta"
    delta: str


class ReasoningEncryptedValue(Wire):
    """The signature of a block of reasoning, or reasoning that only its provider can read."""

    event_type: Literal["reasoning_encrypted_value"] = "reasoning_encrypted_value"
    encrypted_value: str


class ToolCallStart(Wire):
    event_type: Literal["tool_call_start"] = "tool_call_start"
    id: str
    name: str


class ToolCallDelta(Wire):
    event_type: Literal["tool_call_delta"] = "tool_call_delta"
    id: str
    args_delta: str


class ToolCallReady(Wire):
    """The model asked for a tool call; its arguments are complete."""

    event_type: Literal["tool_call_ready"] = "tool_call_ready"
    id: str
    name: str
    arguments: JsonValue


class ToolCallDone(Wire):
    """A tool call has a result, or is suspended: `outcome` says which."""

    event_type: Literal["tool_call_done"] = "tool_call_done"
    id: str
    message_id: str = ""
    """Of the message that has the result; of a suspended call, the one that will have it."""
    result: ToolResult
    outcome: ToolCallOutcome
    gated: Few[bool] = False
    """Of a suspended call: a permission rule, a gate or a hook suspended it, not its tool."""


class ToolCallStreamDelta(Wire):
    """Output of a running tool, for live watchers; history has what the tool returns."""

    event_type: Literal["tool_call_stream_delta"] = "tool_call_stream_delta"
    id: str
    name: str
    delta: str
    skipped: Few[int] = 0
    """Characters before this delta that were not shown: more came between two heartbeats than one carries."""
    restarted: Few[bool] = False
    """The call runs again after its worker was lost: drop what it has shown before."""


class ToolCallDecided(Wire):
    """A decision about a call was applied: of a person or a program, of a deadline, or of a rule that was allowed."""

    event_type: Literal["tool_call_decided"] = "tool_call_decided"
    call_id: str
    tool_name: str
    suspension_id: Maybe[str] = None
    """Absent if a rule decided: the call was not suspended."""
    decision: AppliedDecision


class ToolCallResumed(Wire):
    """A call that was suspended has finished."""

    event_type: Literal["tool_call_resumed"] = "tool_call_resumed"
    target_id: str
    result: JsonValue
    outcome: ToolCallOutcome
    text: Maybe[str] = None
    """What the model reads; absent if that is `result` itself: a string as it is, other values as compact JSON."""


class ToolCallCancel(Wire):
    """A call is not executed, or is stopped with its run.

    If the conversation has its answer, the model reads `[Tool execution was interrupted]` as its result.
    """

    event_type: Literal["tool_call_cancel"] = "tool_call_cancel"
    id: str
    name: str
    reason: str


class StreamReset(Wire):
    """Drop what was shown of the current answer or, with the reason `rewound`, every record after this number."""

    event_type: Literal["stream_reset"] = "stream_reset"
    reason: str


class MessagesSnapshot(Wire):
    event_type: Literal["messages_snapshot"] = "messages_snapshot"
    messages: tuple[Message, ...]


class ActivitySnapshot(Wire):
    event_type: Literal["activity_snapshot"] = "activity_snapshot"
    message_id: str
    activity_type: str
    content: JsonValue
    replace: Maybe[bool] = None


class ActivityDelta(Wire):
    event_type: Literal["activity_delta"] = "activity_delta"
    message_id: str
    activity_type: str
    patch: tuple[JsonValue, ...]


class InferenceComplete(Wire):
    """A model call ended: which model answered, what it used and how long it took."""

    event_type: Literal["inference_complete"] = "inference_complete"
    model: str
    usage: Maybe[Usage] = None
    duration_ms: int


class StateSnapshot(Wire):
    event_type: Literal["state_snapshot"] = "state_snapshot"
    snapshot: JsonValue


class StateDelta(Wire):
    event_type: Literal["state_delta"] = "state_delta"
    delta: tuple[JsonValue, ...]


class ErrorEvent(Wire):
    """The thread was ended from outside and emits no `run_finish`: the last record of its stream, and provisional."""

    event_type: Literal["error"] = "error"
    message: str
    code: Maybe[str] = None


class SignalRefused(Wire):
    """A signal was rejected: unknown, late or malformed."""

    event_type: Literal["signal_refused"] = "signal_refused"
    signal: str
    reason: str


class DecisionOverdue(Wire):
    """A suspended call has waited longer than its escalation time."""

    event_type: Literal["decision_overdue"] = "decision_overdue"
    call_id: str
    tool_name: str
    suspension_id: str
    message: Maybe[str] = None
    waited_ms: int


class Handoff(Wire):
    """Another agent took the run over."""

    event_type: Literal["handoff"] = "handoff"
    from_agent: str
    to_agent: str


class TaskChanged(Wire):
    """A background task started or ended."""

    event_type: Literal["task_changed"] = "task_changed"
    task: Task


class ChildStarted(Wire):
    """A sub-agent or a background tool got a thread of its own, which can be watched."""

    event_type: Literal["child_started"] = "child_started"
    work_id: str
    """The parent's id for it: a task id, or the work that a call waits for."""
    thread_id: str
    call_id: Maybe[str] = None
    """The tool call that waits for it; absent for a background task."""
    agent_id: Maybe[str] = None
    """Absent for a tool."""


class MailArrived(Wire):
    """Mail from another agent or a background task arrived. A woken thread repeats what it has not read yet."""

    event_type: Literal["mail_received"] = "mail_received"
    message_id: str
    text: str
    """What the model reads."""


class PluginEvent(Wire):
    """A hook of a plugin emitted an event of its own."""

    event_type: Literal["plugin_event"] = "plugin_event"
    plugin: str
    name: str
    payload: JsonValue = None


class HookFailed(Wire):
    """A hook failed, timed out or is not registered; the run continues without it, or ends."""

    event_type: Literal["hook_failed"] = "hook_failed"
    plugin: str
    phase: str
    error: str


class RulesRevoked(Wire):
    """A client revoked permission rules of the thread."""

    event_type: Literal["rules_revoked"] = "rules_revoked"
    rules: tuple[Rule, ...]
    inherited: Few[bool] = False
    """They were of ancestors, or of agents that handed the thread off: the thread may do more from now on."""
    actor: Maybe[str] = None
    reason: Maybe[str] = None


class StateConflict(Wire):
    """State writes were rejected as a whole: one conflicts with a concurrent write, or is invalid."""

    event_type: Literal["state_conflict"] = "state_conflict"
    key: str
    source: str
    """Who wrote: a tool call's id, or the activity of the hooks."""
    reason: str


AgentEvent = Annotated[
    RunStart
    | RunFinish
    | MessageReceived
    | MessageEdited
    | MessagesWithdrawn
    | MessagesRead
    | NoteAdded
    | AnswerGiven
    | StepStart
    | StepEnd
    | TextDelta
    | ReasoningDelta
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallDelta
    | ToolCallReady
    | ToolCallDone
    | ToolCallStreamDelta
    | ToolCallDecided
    | ToolCallResumed
    | ToolCallCancel
    | StreamReset
    | MessagesSnapshot
    | ActivitySnapshot
    | ActivityDelta
    | InferenceComplete
    | StateSnapshot
    | StateDelta
    | ErrorEvent
    | SignalRefused
    | DecisionOverdue
    | Handoff
    | TaskChanged
    | ChildStarted
    | MailArrived
    | PluginEvent
    | HookFailed
    | RulesRevoked
    | StateConflict,
    Field(discriminator="event_type"),
]


class EventRecord(Wire):
    """An event with its number in the thread; `seq` starts at 1 and has no gaps."""

    seq: int
    """A `provisional` record has the number of the last event before it, so you can always resume after `seq`."""
    at: int
    thread_id: Few[str] = ""
    run_id: str
    agent_id: str
    path: Few[tuple[str, ...]] = ()
    """The threads from the root's child to the one that emitted the event; empty for the root itself."""
    provisional: Few[bool] = False
    """Live, from a heartbeat: not in history yet, and a `stream_reset` may still take it back."""
    event: AgentEvent
