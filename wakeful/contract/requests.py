"""What a person or a client sends to a thread: the request that starts a run, and the messages that follow."""

from pydantic import Field, model_validator

from wakeful.contract.base import Few, Maybe, Written
from wakeful.contract.messages import InputMessage
from wakeful.contract.runs import Origin
from wakeful.contract.tools import FrontendTool


class RunRequest(Written):
    """Start a run: `{"agent_id": "assistant", "input": "hello"}` is enough."""

    agent_id: str = Field(min_length=1)
    input: str | tuple[InputMessage, ...]
    title: Maybe[str] = None
    frontend_tools: Few[tuple[FrontendTool, ...]] = ()
    parent_thread_id: Maybe[str] = None
    parent_run_id: Maybe[str] = None
    parent_tool_call_id: Maybe[str] = None
    session_id: Maybe[str] = None
    transport_request_id: Maybe[str] = None
    origin: Origin = Origin.USER

    @model_validator(mode="after")
    def _has_something_to_say(self) -> "RunRequest":
        if not self.messages:
            raise ValueError("input is empty: give a text or at least one message")
        names = [tool.id for tool in self.frontend_tools]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"frontend_tools are declared twice: {', '.join(repeated)}")
        return self

    @property
    def messages(self) -> tuple[InputMessage, ...]:
        return as_messages(self.input)


class Submission(Written):
    """Messages for a thread that is already there: a text, or messages with ids of their own."""

    input: str | tuple[InputMessage, ...]

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


class PageRequest(Written):
    """Which part of a list a query wants: what comes after `after`, at most `limit` entries."""

    after: int = Field(default=0, ge=0)
    limit: int = Field(default=200, ge=1, le=1000)
