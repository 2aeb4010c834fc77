"""What each kind of backend can do for a run, and which parts of a request it cannot serve. Pure.

A backend is what makes the answers of an agent: this runtime (`LOCAL`), or a service behind an endpoint (`A2A`).
"""

from collections.abc import Collection
from typing import Literal, get_args

from wakeful.contract.base import Wire
from wakeful.contract.remote import Endpoint

Feature = Literal["decisions", "overrides", "frontend_tools", "continuation"]
"""Something that a request can ask for, and that not every backend supports."""


class CapabilityProfile(Wire):
    """What a backend supports."""

    cancellation: Literal["none", "cooperative", "remote_abort", "both"]
    """How a run is stopped: the runtime stops it itself, or asks the service to."""
    decisions: bool
    """A suspended run can be decided, and continues."""
    overrides: bool
    """A request can override the model and its settings."""
    frontend_tools: bool
    """A request can bring tools that its sender performs."""
    continuation: Literal["none", "in_process", "remote"]
    """Who keeps the conversation for the next run of a thread: no one, the runtime, or the service."""
    waits: Literal["none", "input", "auth", "input_and_auth"]
    """What a run can wait for, without ending."""
    transcript: Literal["full", "incremental", "single_prompt"]
    """What the backend is sent: the conversation, what is new in it, or one prompt."""
    output: Literal["text", "text_and_artifacts"]


LOCAL = CapabilityProfile(
    cancellation="both",
    decisions=True,
    overrides=True,
    frontend_tools=True,
    continuation="in_process",
    waits="input_and_auth",
    transcript="full",
    output="text_and_artifacts",
)
"""Of agents that this runtime runs: everything."""

A2A = CapabilityProfile(
    cancellation="remote_abort",
    decisions=True,
    overrides=False,
    frontend_tools=False,
    continuation="remote",
    waits="input_and_auth",
    transcript="incremental",
    output="text_and_artifacts",
)
"""Of agents behind an A2A endpoint."""


def profile_of(endpoint: Endpoint | None) -> CapabilityProfile:
    """The profile of an agent's backend, by its endpoint."""
    return LOCAL if endpoint is None else A2A


def unsupported(features: Collection[Feature], profile: CapabilityProfile) -> tuple[Feature, ...]:
    """Those of the features that the backend does not support, in the order of `Feature`."""
    supported: dict[Feature, bool] = {
        "decisions": profile.decisions,
        "overrides": profile.overrides,
        "frontend_tools": profile.frontend_tools,
        "continuation": profile.continuation != "none",
    }
    return tuple(feature for feature in get_args(Feature) if feature in features and not supported[feature])


def unsupported_message(agent_id: str, features: Collection[Feature]) -> str:
    """Why a request is refused that needs these features."""
    return f"agent {agent_id!r} backend does not support: {', '.join(features)}"
