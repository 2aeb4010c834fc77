"""What a person or a client sends to a thread: the request that starts a run, and the messages that follow."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, model_validator

from wakeful.contract.base import Few, Maybe, Written
from wakeful.contract.budgets import Budget
from wakeful.contract.decisions import Decision, Decisions
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.mail import Letter, Mail, Returned, TaskEvent
from wakeful.contract.messages import InputMessage, fitting
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import OnBusy, Origin, ThreadMode
from wakeful.contract.subagents import Family, Grant, Loan, Settled
from wakeful.contract.tools import FrontendTool


class Fork(Written):
    """Go on from a place in another thread, which stays as it is."""

    thread_id: str
    run_id: str
    """The execution that has the place (a Temporal run id)."""
    step: int = Field(ge=0)
    """After this step, counted from the thread's first."""
    messages: int = Field(ge=1)
    """How many messages that is."""
    digest: Maybe[str] = None
    """What their chain of digests comes to: if they were rolled back meanwhile, others would be as many."""


class RunRequest(Written):
    """Start a run: `{"agent_id": "assistant", "input": "hello"}` is enough."""

    agent_id: str = Field(min_length=1)
    input: Annotated[str | tuple[InputMessage, ...], AfterValidator(fitting)] = ""
    mode: ThreadMode = ThreadMode.RUN
    """`thread` keeps the workflow open after the run, for the next message."""
    restore_from: Maybe[str] = None
    """Go on with the conversation of this earlier, closed execution of the thread (a Temporal run id)."""
    fork: Maybe[Fork] = None
    """Go on from a place in another thread."""
    title: Maybe[str] = None
    frontend_tools: Few[tuple[FrontendTool, ...]] = ()
    parent_thread_id: Maybe[str] = None
    parent_run_id: Maybe[str] = None
    parent_tool_call_id: Maybe[str] = None
    session_id: Maybe[str] = None
    transport_request_id: Maybe[str] = None
    origin: Origin = Origin.USER
    overrides: Maybe[InferenceOverrides] = None
    """What this one run wants otherwise than its agent says; the thread's later runs know nothing of it."""
    permissions: Few[tuple[Rule, ...]] = ()
    """What this one run allows, asks and denies; a rule replaces the agent's or the thread's for the same `tool`."""
    budget: Maybe[Budget] = None
    """What this one run, with everything it starts, may spend."""
    family: Maybe[Family] = None
    """Of a sub-agent: where it stands; its parent writes it."""

    @model_validator(mode="after")
    def _has_something_to_say(self) -> "RunRequest":
        begins_a_run = bool(self.messages or self.fork)
        if not begins_a_run and self.mode is ThreadMode.RUN:
            raise ValueError("input is empty: give a text or at least one message")
        if not begins_a_run and self.overrides is not None:
            raise ValueError(
                "overrides are for one run, and without input none begins: give them with its first message"
            )
        if not begins_a_run and self.permissions:
            raise ValueError("permissions are for one run, and without input none begins")
        if self.fork and self.restore_from:
            raise ValueError(
                "a thread goes on from another one (fork) or from itself (restore_from), and not from both"
            )
        names = [tool.id for tool in self.frontend_tools]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"frontend_tools are declared twice: {', '.join(repeated)}")
        return self

    @property
    def messages(self) -> tuple[InputMessage, ...]:
        return as_messages(self.input)


TITLE_LENGTH = 80


def title_of(request: RunRequest) -> str:
    """The thread's title: the one that was given, or the first words of the input."""
    said = request.messages[0].as_message("").text if request.messages else ""
    text = request.title or " ".join(said.split())
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + "…"


class Submission(Written):
    """Messages for a thread that is already there: a text, or messages with ids of their own."""

    input: Annotated[str | tuple[InputMessage, ...], AfterValidator(fitting)]
    on_busy: OnBusy = OnBusy.ENQUEUE
    agent_id: Maybe[str] = None
    """The agent for the run they begin, if it is to be another one."""
    overrides: Maybe[InferenceOverrides] = None
    """What the run they begin wants otherwise than its agent says."""

    @property
    def messages(self) -> tuple[InputMessage, ...]:
        return as_messages(self.input)


def as_messages(written: str | tuple[InputMessage, ...]) -> tuple[InputMessage, ...]:
    if isinstance(written, str):
        return (InputMessage(content=written),) if written else ()
    return written


class CancelRequest(Written):
    """Cancel the run of a thread."""

    reason: Maybe[str] = None


class LettersRequest(Written):
    """Send the thread's dead letters again, or forget them."""

    action: Literal["replay", "clear"]


MAX_PAGE = 1000


class PageRequest(Written):
    """Which part of a list a query wants: what comes after `after`, at most `limit` entries."""

    after: int = Field(default=0, ge=0)
    limit: int = Field(default=200, ge=1, le=MAX_PAGE)


class PointRequest(Written):
    """The place in a conversation that the `point` query asks about."""

    messages: int = Field(ge=0)
    digest: Maybe[str] = None
    """What the chain of their digests comes to: only a conversation that begins with these very messages is meant."""


def parse_request(written: object) -> RunRequest:
    """What starts a run. Raises `CallerError` with every field that is wrong."""
    return _parse(RunRequest, written, example='{"agent_id": "assistant", "input": "hello"}')


def parse_submission(written: object) -> Submission:
    """What the `submit` signal brings: `{"input": ...}`, or a bare text."""
    if isinstance(written, str):
        written = {"input": written}
    return _parse(Submission, written, example='{"input": "hello"}')


def parse_decisions(written: object) -> tuple[Decision, ...]:
    """What the `decide` signal brings: one decision, or `{"decisions": [...]}` to apply together."""
    example = '{"call_id": "call_1", "action": "resume"}'
    if isinstance(written, dict) and "decisions" in written:
        return _parse(Decisions, written, example=example).decisions
    if isinstance(written, list):
        return _parse(Decisions, {"decisions": written}, example=example).decisions
    return (_parse(Decision, written, example=example),)


def parse_cancel(written: object) -> CancelRequest:
    """What the `cancel` signal brings: nothing, or `{"reason": ...}`."""
    return _parse(CancelRequest, {} if written is None else written, example='{"reason": "no longer needed"}')


def parse_page(written: object) -> PageRequest:
    """What a paged query brings: nothing, or `{"after": n, "limit": n}`."""
    return _parse(PageRequest, {} if written is None else written, example='{"after": 0}')


def parse_point(written: object) -> PointRequest:
    """What the `point` query brings: `{"messages": n}`."""
    return _parse(PointRequest, written, example='{"messages": 3}')


def parse_letters(written: object) -> LettersRequest:
    """What the `letters` signal brings: `{"action": ...}`."""
    return _parse(LettersRequest, written, example='{"action": "replay"}')


def parse_mail(written: object) -> Letter | TaskEvent:
    """What the `deliver` signal brings: a letter, or what a running task tells."""
    example = '{"kind": "task_event", "message_id": "m1", "task_id": "task-1", "event_type": "progress"}'
    return _validated(_MAIL.validate_python, written, example=example)


def parse_settled(written: object) -> Settled:
    """What the `settled` signal brings."""
    return _parse(Settled, written, example='{"work_id": "task-1", "thread_id": "t/task-1", "status": "completed"}')


def parse_returned(written: object) -> Returned:
    """What the `returned` signal brings."""
    return _parse(Returned, written, example='{"letter": {…}, "error": "recipient_unavailable"}')


def parse_loan(written: object) -> Loan:
    """What the `lend` signal brings."""
    return _parse(Loan, written, example='{"work_id": "task-1", "thread_id": "t/task-1", "spent": {}}')


def parse_grant(written: object) -> Grant:
    """What the `grant` signal brings."""
    return _parse(Grant, written, example='{"allowance": {"tokens": 1000}}')


_MAIL: TypeAdapter[Letter | TaskEvent] = TypeAdapter(Mail)

W = TypeVar("W", bound=BaseModel)
T = TypeVar("T")


def _parse(kind: type[W], written: object, *, example: str) -> W:
    return _validated(kind.model_validate, written, example=example)


def _validated(validate: Callable[[object], T], written: object, *, example: str) -> T:
    try:
        return validate(written)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc']) or 'the whole value'}: {detail['msg']}"
            for detail in error.errors(include_url=False)
        )
        raise CallerError(f"{wrong}. Write for example {example}") from error
