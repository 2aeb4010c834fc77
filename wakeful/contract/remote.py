"""An agent that another service runs: where it is, how a worker signs in, and how long a call may take.

History records the endpoint of a run's agent, and only the names of its secrets: a worker reads their values when it
sends a request.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from wakeful.contract.base import Few, Maybe, Wire, Written

DEFAULT_REMOTE_TIMEOUT_SECONDS = 7 * 24 * 3600.0
DEFAULT_POLL_SECONDS = 2.0


class Secret(Written):
    """Where a worker reads a secret when it needs it. The value itself is in no history, log or error."""

    env: Maybe[Annotated[str, Field(min_length=1)]] = None
    """The environment variable of the worker that holds it."""
    file: Maybe[Annotated[str, Field(min_length=1)]] = None
    """The file that holds it. The whitespace at its ends does not count."""

    @model_validator(mode="after")
    def _is_in_one_place(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret is in one place: give env, the name of an environment variable, or file")
        return self

    def __str__(self) -> str:
        return f"environment variable {self.env!r}" if self.env is not None else f"file {self.file!r}"


def _is_usual_timeout(value: float) -> bool:
    return value == DEFAULT_REMOTE_TIMEOUT_SECONDS


def _is_usual_poll(value: float) -> bool:
    return value == DEFAULT_POLL_SECONDS


class Endpoint(Written):
    """A remote agent: a service that speaks the A2A protocol."""

    backend: Literal["a2a"] = "a2a"
    url: str
    """The address of the service. Its agent card is at `/.well-known/agent-card.json` of the same origin."""
    target: Maybe[str] = None
    """Which of the agents of the service, if it serves several: the `tenant` of its interface."""
    token: Maybe[Secret] = None
    """The bearer token."""
    headers: Few[dict[str, Secret]] = {}
    """More headers with secret values."""
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False, exclude_if=_is_usual_timeout)] = (
        DEFAULT_REMOTE_TIMEOUT_SECONDS
    )
    """How long one answer may take, without the time in which people decide."""
    poll_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False, exclude_if=_is_usual_poll)] = DEFAULT_POLL_SECONDS
    """The first interval at which a worker asks for the state of a remote task; later ones grow."""
    idempotent: Few[bool] = False
    """The service itself recognises a message that is sent twice, by its id: a lost submission is sent again."""

    @property
    def service(self) -> str:
        """Which agent of which service it is, in one word."""
        return self.url if self.target is None else f"{self.url}#{self.target}"

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")) or any(character.isspace() for character in url):
            raise ValueError(f"the url {url!r} must start with http:// or https://, and have no spaces")
        if "@" in url.split("/")[2]:
            raise ValueError("the url has a user name or a password: history would show it; use token or headers")
        return url


def _known_settings(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: setting for name, setting in value.items() if name in Endpoint.model_fields}
    return value


RecordedEndpoint = Annotated[Endpoint, BeforeValidator(_known_settings)]
"""An endpoint as history records it: an older worker ignores settings that it does not know."""


REMOTE_TASK = "remote-task"
"""The type of the activity snapshots that show watchers the task of a remote agent."""


class RemoteState(StrEnum):
    """The state of a remote task, in the words of the A2A protocol."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"

    @property
    def is_at_work(self) -> bool:
        """Whether the service has more to do before anyone else has."""
        return self in (RemoteState.SUBMITTED, RemoteState.WORKING)

    @property
    def is_interrupted(self) -> bool:
        """Whether the task waits for an answer."""
        return self in (RemoteState.INPUT_REQUIRED, RemoteState.AUTH_REQUIRED)


class RemoteOrigin(Wire):
    """Where a remote agent made an answer. The transcript has it, so that the next message continues there."""

    service: str
    thread_id: str
    """The thread that was answered: a fork of it begins a conversation of its own."""
    context_id: str
    """The service's conversation."""
    task_id: Maybe[str] = None
    """Absent if the service answered with a message alone."""


class RemoteProgress(Wire):
    """How far a call of a remote agent is: a part of its heartbeat, from which the next attempt continues.

    Times are in milliseconds since 1970.
    """

    service: str
    context_id: str
    message_id: str
    task_id: Maybe[str] = None
    state: Maybe[RemoteState] = None
    state_since: Maybe[int] = None
    """When the task entered its state, or was first seen in it."""
    polls: Few[int] = 0
    """How many attempts have found the task at work."""
    reported: Few[int] = 0
    """The newest attempt that has ended with a report; workers were lost in the attempts after it."""
    may_be_sent: Few[bool] = False
    """That attempt may have sent the message, and has not learned the task's id."""


class CancelRemoteInput(Wire):
    """Which remote task to cancel."""

    agent: str
    """The digest of the remote agent."""
    work_id: str
    """The call whose task it is; its heartbeat has the task's id."""
    task_id: Maybe[str] = None
    """The task, if the call has ended: it waits for input."""
