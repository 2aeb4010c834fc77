"""An agent that another service runs: where it is, how a worker signs in, and how long a call may take.

History records the endpoint of a run's agent, and only the names of its secrets: a worker reads their values when it
sends a request.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from wakeful.contract.base import Few, Maybe, Written

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
