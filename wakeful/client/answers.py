"""The answer to one message, found in the events of its thread. Pure: `asking.py` sends the message and watches.

A run answers the messages that it has read: those that began it, and those that steered it. So the answer to a message
is the end of the run that read it, whatever came before, between and after.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from wakeful.client.watching.live import REWOUND
from wakeful.contract import names
from wakeful.contract.errors import (
    CallerError,
    NotAnswered,
    OutputMismatch,
    RunBlocked,
    RunCancelled,
    RunFailed,
    RunStopped,
    validation_problems,
)
from wakeful.contract.events import (
    ErrorEvent,
    EventRecord,
    FinishSummary,
    MessageReceived,
    MessagesRead,
    MessagesWithdrawn,
    RunFinish,
    RunStart,
    SignalRefused,
    StepStart,
    StreamReset,
)
from wakeful.contract.runs import (
    INVALID_OUTPUT,
    Blocked,
    Cancelled,
    Errored,
    RunResult,
    RunStatus,
    StopDetail,
    Stopped,
    Usage,
    status_reason,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ANSWERING_STOPS = frozenset({"stop_on_tool", "content_match"})
"""Stop conditions that end a run because it has what was wanted; the others are limits."""


@dataclass(frozen=True)
class Answer(Generic[T_co]):
    """The answer to a message: the text and the output of the run that read it."""

    thread_id: str
    message_id: str
    output: T_co
    """The answer, parsed as the type that was asked for; without one, the JSON of the agent's output type, if any."""
    result: RunResult
    """How the run ended, in full."""

    @property
    def text(self) -> str:
        """The answer, as the model wrote it."""
        return self.result.response

    @property
    def run_id(self) -> str:
        """The run that answered."""
        return self.result.run_id

    @property
    def agent_id(self) -> str:
        """The agent that answered."""
        return self.result.agent_id

    @property
    def status_reason(self) -> str:
        """Why the run ended, such as `natural`."""
        return self.result.status_reason

    @property
    def steps(self) -> int:
        """How many model calls the run made."""
        return self.result.steps

    @property
    def usage(self) -> Usage:
        """The tokens of the run itself; `result.spent` includes those of its sub-agents."""
        return self.result.usage

    @property
    def cost(self) -> float | None:
        """What the run and its sub-agents cost, in the currency of the registry's prices; None without prices."""
        spent = self.result.spent
        return spent.cost if spent is not None and spent.cost else self.result.usage.cost


@dataclass(frozen=True)
class RunEnded:
    """The run that read the message has ended."""

    result: RunResult
    is_whole: bool
    """All of the run was seen; else its steps are not known."""


@dataclass(frozen=True)
class Unanswerable:
    """No run will read the message, and why."""

    reason: str


@dataclass(frozen=True)
class PerhapsRefused:
    """The thread has refused a message: this one, or another."""


@dataclass(frozen=True)
class PerhapsSuspended:
    """The thread or a sub-agent waits, perhaps for a decision."""


@dataclass(frozen=True)
class Rewound:
    """Events were undone: what was read of the thread may be wrong."""


Finding = RunEnded | Unanswerable | PerhapsRefused | PerhapsSuspended | Rewound


class AnswerFinder:
    """Finds the answer to one message in the events of its thread, which it takes one by one."""

    def __init__(self, thread_id: str, message_id: str) -> None:
        self._thread_id = thread_id
        self._message_id = message_id
        self._reading_run: str | None = None
        """The run that has read the message."""
        self._newest_run: str | None = None
        """The newest run whose start was seen."""
        self._steps = 0
        self.is_received = False
        """The thread has accepted the message."""

    def on_record(self, record: EventRecord) -> Finding | None:
        """What the next event of the thread, or of a sub-agent, says about the message."""
        if record.thread_id != self._thread_id:
            return PerhapsSuspended() if _is_pause(record) else None
        match record.event:
            case RunStart(run_id=run_id, message_ids=ids):
                self._on_run_start(run_id, ids)
            case MessageReceived(message=message) if message.id == self._message_id:
                self.is_received = True
            case StepStart():
                self._steps += 1
            case MessagesRead(message_ids=ids) if self._message_id in ids:
                self._reading_run = record.run_id
            case _:
                return self._end(record)
        return None

    def _on_run_start(self, run_id: str, message_ids: tuple[str, ...]) -> None:
        if run_id != self._newest_run and message_ids:
            self._newest_run, self._steps = run_id, 0
        if self._message_id in message_ids:
            self._reading_run = run_id

    def _end(self, record: EventRecord) -> Finding | None:
        match record.event:
            case RunFinish() if _is_pause(record):
                return PerhapsSuspended()
            case RunFinish(run_id=run_id) as finish if run_id == self._reading_run:
                is_whole = run_id == self._newest_run
                return RunEnded(result_of(finish, steps=self._steps if is_whole else 0), is_whole=is_whole)
            case RunFinish(result=FinishSummary(unread=unread)) if self._message_id in unread:
                return Unanswerable("the thread ended before a run read it; ask again with this message_id to wake it")
            case MessagesWithdrawn(message_ids=ids) if self._message_id in ids:
                return Unanswerable("it was withdrawn")
            case SignalRefused(signal=names.SIGNAL_SUBMIT):
                return PerhapsRefused()
            case ErrorEvent(message=message):
                return Unanswerable(message)
            case StreamReset(reason=reason) if record.provisional and reason == REWOUND:
                return Rewound()
            case _:
                return None


def _is_pause(record: EventRecord) -> bool:
    event = record.event
    return isinstance(event, RunFinish) and event.result is not None and event.result.status is RunStatus.WAITING


def result_of(finish: RunFinish, *, steps: int) -> RunResult:
    """The result of a run, as far as its last event has it: without what its sub-agents spent, and its receipt."""
    summary = finish.result or FinishSummary(response="", status=RunStatus.DONE)
    termination = Cancelled() if finish.rolled_back else finish.termination
    return RunResult(
        thread_id=finish.thread_id,
        run_id=finish.run_id,
        agent_id=finish.identity.agent_id if finish.identity is not None else "",
        status_reason=status_reason(termination),
        termination=termination,
        response=summary.response,
        detail=summary.detail,
        steps=steps,
        usage=summary.usage or Usage(),
        unread=summary.unread,
        output=summary.output,
        artifacts=summary.artifacts,
        tool_files=summary.tool_files,
    )


def raise_unless_answered(message_id: str, result: RunResult) -> None:
    """Raise what ended the run, unless it has answered.

    Raises:
        OutputMismatch, RunFailed, RunCancelled, RunBlocked, RunStopped: how it ended instead.
    """
    kind, reason = NotAnswered, ""
    match result.termination:
        case Errored(value=text, code=code):
            kind, reason = OutputMismatch if code == INVALID_OUTPUT else RunFailed, f"the run failed: {text}"
        case Cancelled():
            kind, reason = RunCancelled, f"the run was cancelled{f': {result.detail}' if result.detail else ''}"
        case Blocked(value=text):
            kind, reason = RunBlocked, f"the run was blocked: {text}"
        case Stopped(value=StopDetail(code=code, detail=detail)) if code not in ANSWERING_STOPS:
            kind, reason = RunStopped, f"the run was stopped ({code}){f': {detail}' if detail else ''}"
        case _:
            return
    raise kind(result.thread_id, message_id, reason, result=result)


def parse_output(message_id: str, result: RunResult, adapter: TypeAdapter[T]) -> T:
    """The output of a run as the type that was asked for.

    Raises:
        OutputMismatch: it has none, or it is not of this type.
    """
    try:
        return adapter.validate_python(result.output)
    except ValidationError as error:
        problems = "; ".join(validation_problems(error))
        if result.output is None:
            problems = (
                f"the run ended without an output ({result.status_reason}); Agent(output=…) of agent "
                f"{result.agent_id!r} declares its type"
            )
        reason = f"the answer is not of the type that was asked for: {problems}"
        raise OutputMismatch(result.thread_id, message_id, reason, result=result) from error


def adapter_of(output: Any) -> TypeAdapter[Any]:
    """What parses an output of this type.

    Raises:
        CallerError: pydantic knows no schema for it.
    """
    if isinstance(output, TypeAdapter):
        return output
    try:
        return TypeAdapter(output)
    except PydanticSchemaGenerationError as error:
        raise CallerError(
            f"output {output!r} cannot be parsed from JSON: use a pydantic model, a dataclass or a type that pydantic "
            "has a schema for"
        ) from error
