"""What clients send to a thread: the request that starts a run, and the payloads of signals and queries."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Unpack

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.decisions import Decision, Decisions, NewestRun, SingleDecision
from wakeful.contract.errors import CallerError, validation_problems
from wakeful.contract.limits import Name, cut, depth_problem, valid_metadata, valid_name, within
from wakeful.contract.mail import AgentMessage, Mail, ReturnedMessage, TaskEvent
from wakeful.contract.messages import InputMessage, fitting
from wakeful.contract.missing import MissingReport
from wakeful.contract.outcomes import ID_LENGTH
from wakeful.contract.runs import (
    LONGEST_EXPIRE_AFTER,
    OnBusy,
    OnBusyName,
    OnError,
    OnErrorName,
    Origin,
    OriginName,
    Priority,
    RunMode,
    RunModeName,
    ThreadMode,
    ThreadModeName,
)
from wakeful.contract.settings import Caller, RunSettings, SendOptions, part_of
from wakeful.contract.subagents import BudgetGrant, BudgetRequest, ChildResult, SubagentContext
from wakeful.contract.tools import FrontendTool

V = TypeVar("V")

SETTINGS_BYTES = 150_000
"""Bytes of a run's overrides, of its rules, and of its frontend tools: every inference is given them."""


class Fork(Written):
    """Continue from a step of another thread, which is not changed."""

    thread_id: str
    run_id: str
    """The execution that has the step (a Temporal run id)."""
    step: int = Field(ge=0)
    """The step to continue after, counted from the thread's first."""
    messages: int = Field(ge=1)
    """How many messages the fork keeps."""
    digest: Maybe[str] = None
    """The digest of those messages: after a rollback, others may be as many."""


class BeginsRun(RunSettings, Caller, Written):
    """What a request and a message say of the run that they begin. Their JSON has it beside their own fields."""

    run_mode: Maybe[RunMode] = None
    """Why the run starts, for gates and hooks; by default `foreground`, or `internal_wake` if only mail starts it."""

    @field_validator("overrides", "permissions", "frontend_tools")
    @classmethod
    def _fits(cls, value: V) -> V:
        return within(SETTINGS_BYTES)(value)

    @field_validator("tenant", "user")
    @classmethod
    def _is_name(cls, name: str | None) -> str | None:
        return name if name is None else valid_name(name)

    @field_validator("metadata", mode="before")
    @classmethod
    def _is_given(cls, metadata: object) -> object:
        return {} if metadata is None else metadata

    @field_validator("metadata")
    @classmethod
    def _can_be_recorded(cls, metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return valid_metadata(metadata)

    @field_validator("frontend_tools")
    @classmethod
    def _declares_each_once(cls, tools: tuple[FrontendTool, ...]) -> tuple[FrontendTool, ...]:
        counts = Counter(tool.id for tool in tools)
        if repeated := sorted(name for name, count in counts.items() if count > 1):
            raise ValueError(f"frontend_tools are declared twice: {', '.join(repeated)}")
        return tools

    @property
    def settings(self) -> RunSettings:
        return part_of(self, RunSettings)

    @property
    def caller(self) -> Caller:
        return part_of(self, Caller)


class RunRequest(BeginsRun):
    """Start a run: `{"agent_id": "assistant", "input": "hello"}` is enough.

    Its tenant is that of the thread, with its sub-agents and forks.
    """

    agent_id: str = Field(min_length=1)
    input: Annotated[str | tuple[InputMessage, ...], AfterValidator(fitting)] = ""
    mode: ThreadMode = ThreadMode.RUN
    """`thread` keeps the workflow open after the run, for the next message."""
    on_error: Annotated[OnError, Field(exclude_if=lambda on_error: on_error is OnError.FAIL)] = OnError.FAIL
    """How the workflow closes if its run ends in an error, in `run` mode."""
    restore_from: Maybe[str] = None
    """Continue the conversation of this closed execution of the thread (a Temporal run id)."""
    fork: Maybe[Fork] = None
    """Continue from a step of another thread."""
    title: Maybe[str] = None
    parent_thread_id: Maybe[str] = None
    parent_run_id: Maybe[str] = None
    parent_tool_call_id: Maybe[str] = None
    session_id: Maybe[str] = None
    transport_request_id: Maybe[str] = None
    origin: Origin = Origin.USER
    expire_after: Annotated[Maybe[float], Field(gt=0, le=LONGEST_EXPIRE_AFTER)] = None
    """Seconds that the thread may be idle before it deletes itself, instead of its agent's."""
    priority: Maybe[Priority] = None
    """How Temporal orders the tasks of the thread and its sub-agents, instead of its agent's."""
    subagent: Maybe[SubagentContext] = None
    """Of a sub-agent: what its parent passes on."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            agent_id: str,
            input: str | Sequence[InputMessage] = ...,
            mode: ThreadMode | ThreadModeName = ...,
            on_error: OnError | OnErrorName = ...,
            restore_from: str | None = ...,
            fork: Fork | None = ...,
            title: str | None = ...,
            parent_thread_id: str | None = ...,
            parent_run_id: str | None = ...,
            parent_tool_call_id: str | None = ...,
            session_id: str | None = ...,
            transport_request_id: str | None = ...,
            origin: Origin | OriginName = ...,
            expire_after: float | None = ...,
            priority: Priority | None = ...,
            subagent: SubagentContext | None = ...,
            run_mode: RunMode | RunModeName | None = ...,
            **options: Unpack[SendOptions],
        ) -> None: ...

    @model_validator(mode="after")
    def _has_something_to_say(self) -> "RunRequest":
        begins_a_run = bool(self.messages or self.fork)
        if not begins_a_run and self.mode is ThreadMode.RUN:
            raise ValueError("input is empty: give a text or at least one message")
        if not begins_a_run and self.overrides is not None:
            raise ValueError(
                "overrides are for one run, and no run starts without input: give them with its first message"
            )
        if not begins_a_run and self.permissions:
            raise ValueError("permissions are for one run, and no run starts without input")
        if not begins_a_run and (self.user is not None or self.metadata):
            raise ValueError("user and metadata belong to a message, and no run starts without input")
        if self.fork and self.restore_from:
            raise ValueError("a thread continues another thread (fork) or itself (restore_from), not both")
        return self

    @property
    def messages(self) -> tuple[InputMessage, ...]:
        return as_messages(self.input)


TITLE_LENGTH = 80


def title_of(request: RunRequest) -> str:
    """The thread's title: the one that was given, or the first words of the input."""
    said = request.messages[0].as_message("").text if request.messages else ""
    text = request.title or " ".join(said.split())
    return cut(text, TITLE_LENGTH)


class Submission(BeginsRun):
    """Messages for a thread: a text, or messages with ids of their own."""

    input: Annotated[str | tuple[InputMessage, ...], AfterValidator(fitting)]
    on_busy: OnBusy = OnBusy.ENQUEUE
    agent_id: Maybe[str] = None
    """The agent for the run that they start, if it is to change."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            input: str | Sequence[InputMessage],
            on_busy: OnBusy | OnBusyName = ...,
            agent_id: str | None = ...,
            run_mode: RunMode | RunModeName | None = ...,
            **options: Unpack[SendOptions],
        ) -> None: ...

    @property
    def messages(self) -> tuple[InputMessage, ...]:
        return as_messages(self.input)

    def with_message_id(self, id: str) -> "Submission":
        """The same, whose only message has this id: sent again, it has no effect."""
        (message,) = self.messages
        return self.model_copy(update={"input": (message.model_copy(update={"id": id}),)})


class ScheduledSend(Wire):
    """What a firing of a schedule sends, and to which thread."""

    thread_id: str
    submission: Submission


def as_messages(written: str | tuple[InputMessage, ...]) -> tuple[InputMessage, ...]:
    if isinstance(written, str):
        return (InputMessage(content=written),) if written else ()
    return written


class CloseRequest(Written):
    """Cancel the run of a thread, and close the thread."""

    reason: Maybe[Annotated[str, AfterValidator(cut)]] = None


class CancelRequest(CloseRequest):
    """Cancel the run of a thread."""

    run_id: NewestRun = None


class UndeliveredRequest(Written):
    """Send the thread's undelivered messages again, or drop them."""

    action: Literal["replay", "clear"]


CHANGES = 500
"""How many messages or rules one request changes: as many as can wait in a thread."""

RequestId = Maybe[Annotated[str, Field(max_length=ID_LENGTH)]]
"""The id under which the `outcomes` query has what became of a request; sending it again has no effect."""

SenderTenant = Maybe[Name]
"""A thread of another tenant refuses the request; without one, it counts as the thread's own."""


class WithdrawRequest(Written):
    """Withdraw messages that no run has read."""

    message_ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=CHANGES)]
    request_id: RequestId = None
    tenant: SenderTenant = None


class EditRequest(Written):
    """Replace a message that no run has read by this one, which has the same id."""

    message: InputMessage
    request_id: RequestId = None
    tenant: SenderTenant = None

    @model_validator(mode="after")
    def _names_a_message(self) -> "EditRequest":
        if self.message.id is None:
            raise ValueError("message.id is missing: it says which message to replace")
        return self


class RevokeRequest(Written):
    """Revoke permission rules that decisions with `always` have added to the thread."""

    tools: Annotated[tuple[str, ...], Field(min_length=1, max_length=CHANGES)]
    """The rules, by their `tool`."""
    inherited: Few[bool] = False
    """Lift rules of ancestors and of agents that handed the thread off, instead: a person lets this thread do more."""
    actor: Maybe[Annotated[str, AfterValidator(cut)]] = None
    reason: Maybe[Annotated[str, AfterValidator(cut)]] = None
    request_id: RequestId = None
    tenant: SenderTenant = None


MAX_PAGE = 1000


class PageRequest(Written):
    """A page: at most `limit` entries after number `after`."""

    after: int = Field(default=0, ge=0)
    limit: int = Field(default=200, ge=1, le=MAX_PAGE)


class OutcomesRequest(Written):
    """The decisions and messages that the `outcomes` query asks about, by their ids; all of them, if there are none."""

    ids: Maybe[tuple[str, ...]] = None


class ForkPointRequest(Written):
    """The position in a conversation that the `fork_point` query asks about."""

    messages: int = Field(ge=0)
    digest: Maybe[str] = None
    """The digest of those messages: the conversation must start with exactly these."""


def parse_request(written: object) -> RunRequest:
    """The request that starts a run. Raises `CallerError` with every field that is wrong."""
    return _parse(RunRequest, written, example='{"agent_id": "assistant", "input": "hello"}')


def parse_submission(written: object) -> Submission:
    """The payload of the `submit` signal: `{"input": ...}`, or a bare text."""
    if isinstance(written, str):
        written = {"input": written}
    return _parse(Submission, written, example='{"input": "hello"}')


def parse_decisions(written: object) -> tuple[Decision, ...]:
    """The decisions in the payload of the `decide` signal."""
    return parse_decide(written).decisions


def parse_decide(written: object) -> Decisions:
    """The payload of the `decide` signal: one decision, or `{"decisions": [...]}` to apply together."""
    example = '{"call_id": "1-1", "action": "resume"}'
    if isinstance(written, dict) and "decisions" in written:
        return _parse(Decisions, written, example=example)
    if isinstance(written, list):
        return _parse(Decisions, {"decisions": written}, example=example)
    return _parse(SingleDecision, written, example=example).as_batch()


def parse_cancel(written: object) -> CancelRequest:
    """The payload of the `cancel` signal: nothing, or `{"reason": ..., "run_id": ...}`."""
    return _parse(CancelRequest, {} if written is None else written, example='{"reason": "no longer needed"}')


def parse_close(written: object) -> CloseRequest:
    """The payload of the `close` signal: nothing, or `{"reason": ...}`."""
    return _parse(CloseRequest, {} if written is None else written, example='{"reason": "no longer needed"}')


def parse_page(written: object) -> PageRequest:
    """The argument of a paged query: nothing, or `{"after": n, "limit": n}`."""
    return _parse(PageRequest, {} if written is None else written, example='{"after": 0}')


def parse_outcomes(written: object) -> OutcomesRequest:
    """The argument of the `outcomes` query: nothing, or `{"ids": [...]}`."""
    return _parse(OutcomesRequest, {} if written is None else written, example='{"ids": ["d1"]}')


def parse_fork_point(written: object) -> ForkPointRequest:
    """The argument of the `fork_point` query: `{"messages": n}`."""
    return _parse(ForkPointRequest, written, example='{"messages": 3}')


def parse_undelivered_request(written: object) -> UndeliveredRequest:
    """The payload of the `undelivered` signal: `{"action": ...}`."""
    return _parse(UndeliveredRequest, written, example='{"action": "replay"}')


def parse_withdraw(written: object) -> WithdrawRequest:
    """The payload of the `withdraw` signal."""
    return _parse(WithdrawRequest, written, example='{"message_ids": ["m1"]}')


def parse_edit(written: object) -> EditRequest:
    """The payload of the `edit` signal."""
    return _parse(EditRequest, written, example='{"message": {"id": "m1", "content": "hello"}}')


def parse_revoke(written: object) -> RevokeRequest:
    """The payload of the `revoke` signal."""
    return _parse(RevokeRequest, written, example='{"tools": ["pay"]}')


def parse_mail(written: object) -> AgentMessage | TaskEvent:
    """Parse the payload of the `deliver` signal: a message from another agent, or an event of a running task."""
    example = '{"kind": "task_event", "message_id": "m1", "task_id": "bg_0", "event_type": "progress"}'
    return _validated(_MAIL.validate_python, written, example=example)


def parse_child_settled(written: object) -> ChildResult:
    """The payload of the `child_settled` signal."""
    return _parse(ChildResult, written, example='{"work_id": "bg_0", "thread_id": "t/clerk-1", "status": "completed"}')


def parse_missing_report(written: object) -> MissingReport:
    """The payload of the `missing` signal."""
    return _parse(MissingReport, written, example='{"activity_id": "tool-1-1", "missing": {"what": "tool \'pay\'", …}}')


def parse_mail_returned(written: object) -> ReturnedMessage:
    """The payload of the `mail_returned` signal."""
    return _parse(ReturnedMessage, written, example='{"message": {…}, "error": "recipient_unavailable"}')


def parse_budget_request(written: object) -> BudgetRequest:
    """The payload of the `budget_request` signal."""
    return _parse(BudgetRequest, written, example='{"work_id": "bg_0", "thread_id": "t/clerk-1", "spent": {}}')


def parse_budget_grant(written: object) -> BudgetGrant:
    """The payload of the `budget_grant` signal."""
    return _parse(BudgetGrant, written, example='{"allowance": {"tokens": 1000}}')


_MAIL: TypeAdapter[AgentMessage | TaskEvent] = TypeAdapter(Mail)

W = TypeVar("W", bound=BaseModel)
T = TypeVar("T")
P = TypeVar("P")


def read_signal(payloads: Sequence[P], decode: Callable[[P], Any], parse: Callable[[Any], T]) -> T:
    """What a signal says. The workflow and every reader of its history read signals by this, so that they agree.

    Args:
        decode: decodes one payload; whatever it raises means that the signal is malformed.

    Raises:
        CallerError: it is malformed, in whatever way.
    """
    if len(payloads) > 1:
        raise CallerError(f"it takes one JSON value, got {len(payloads)}")
    try:
        return parse(decode(payloads[0]) if payloads else None)
    except CallerError:
        raise
    except Exception as error:  # no signal, whatever its payload, may block the thread or its readers
        raise CallerError(f"its payload cannot be read: {payload_problem(error)}") from error


def payload_problem(error: BaseException) -> str:
    """Why a payload could not be decoded. The first cause has the detail; converters wrap it."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ValidationError):
        problems = "; ".join(validation_problems(error))
        return f"{problems} (half a surrogate pair, as of a cut emoji)" if "hex escape" in problems else problems
    return ", ".join(map(str, error.args)) or type(error).__name__


def _parse(kind: type[W], written: object, *, example: str) -> W:
    return _validated(kind.model_validate, written, example=example)


def _validated(validate: Callable[[object], T], written: object, *, example: str) -> T:
    if (problem := depth_problem(written)) is not None:
        raise CallerError(problem)
    try:
        return validate(written)
    except ValidationError as error:
        problems = "; ".join(validation_problems(error))
        raise CallerError(f"{problems}. For example: {example}") from error
