"""`A2aSource`: a service whose agents a registry discovers by its A2A agent card."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from wakeful.contract.base import Written
from wakeful.contract.errors import InvalidValue
from wakeful.contract.names import LOCAL_SOURCE
from wakeful.contract.remote import DEFAULT_POLL_SECONDS, DEFAULT_REMOTE_TIMEOUT_SECONDS, Endpoint, Secret


def _is_not_local(name: str) -> str:
    if name == LOCAL_SOURCE:
        raise ValueError(f"a source cannot be called {name!r}: these are the agents of the registry itself")
    return name


def _is_address(url: str) -> str:
    try:
        return Endpoint(url=url).url
    except InvalidValue as error:
        raise ValueError(error.fields[0].removeprefix("url: ")) from None


class A2aSource(Written):
    """A service with remote agents: `Registry(sources=[A2aSource(name="partner", url="https://…")])`.

    Its agents have the ids `name/agent`. The settings apply to all of them; they are those of `RemoteAgent`.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$"), AfterValidator(_is_not_local)]
    """The first part of the ids of its agents: letters, digits, `_` and `-`."""
    url: Annotated[str, AfterValidator(_is_address)]
    """The address of the service. Its agent card is at `/.well-known/agent-card.json` of the same origin."""
    token: Secret | None = None
    """Where workers read the bearer token, which is sent for the card, too."""
    headers: dict[str, Secret] = {}
    """More headers with secret values."""
    timeout: float = Field(default=DEFAULT_REMOTE_TIMEOUT_SECONDS, gt=0, allow_inf_nan=False)
    """Seconds that one answer may take, without the time in which people decide."""
    poll_interval: float = Field(default=DEFAULT_POLL_SECONDS, gt=0, allow_inf_nan=False)
    """Seconds after which a worker first asks for the state of a remote task."""
    idempotent: bool = False
    """The service recognises a message that is sent twice, so a lost submission is sent again."""
