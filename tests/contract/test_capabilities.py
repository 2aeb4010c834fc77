"""What the backends of agents support, and what a request asks of them in vain."""

from typing import get_args

import pytest

from wakeful.contract.capabilities import (
    A2A,
    LOCAL,
    CapabilityProfile,
    Feature,
    profile_of,
    unsupported,
    unsupported_message,
)
from wakeful.contract.remote import Endpoint


def test_a_local_agent_supports_everything() -> None:
    """B-630"""
    assert profile_of(None) == LOCAL
    assert unsupported(get_args(Feature), LOCAL) == ()


def test_an_agent_behind_an_a2a_endpoint_supports_what_the_protocol_has() -> None:
    """B-629, B-630"""
    assert (
        profile_of(Endpoint(url="https://agents.example.com"))
        == A2A
        == CapabilityProfile(
            cancellation="remote_abort",
            decisions=True,
            overrides=False,
            frontend_tools=False,
            continuation="remote",
            waits="input_and_auth",
            transcript="incremental",
            output="text_and_artifacts",
        )
    )


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ((), ()),
        (("continuation",), ()),
        (("frontend_tools", "overrides", "decisions"), ("overrides", "frontend_tools")),
    ],
)
def test_what_a_request_asks_in_vain_is_listed_in_one_order(
    asked: tuple[Feature, ...], refused: tuple[Feature, ...]
) -> None:
    """B-628"""
    assert unsupported(asked, A2A) == refused


def test_a_backend_without_memory_does_not_support_continuation() -> None:
    forgetful = A2A.model_copy(update={"continuation": "none"})
    assert unsupported({"continuation"}, forgetful) == ("continuation",)


def test_a_refusal_names_the_agent_and_the_features() -> None:
    """B-628"""
    message = "agent 'weather' backend does not support: decisions, overrides"
    assert unsupported_message("weather", ("decisions", "overrides")) == message
