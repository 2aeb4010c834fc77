"""Endpoints of remote agents, and where their secrets are."""

import pytest

from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.errors import InvalidValue
from wakeful.contract.remote import Endpoint, RemoteState, Secret


@pytest.mark.parametrize("places", [{}, {"env": "A", "file": "b"}])
def test_a_secret_is_in_one_place(places: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="a secret is in one place"):
        Secret(**places)


def test_a_secret_is_shown_by_its_place() -> None:
    assert str(Secret(env="TOKEN")) == "environment variable 'TOKEN'"
    assert str(Secret(file="/run/token")) == "file '/run/token'"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("agents.example.com", "must start with http"),
        ("https://agents example.com", "must start with http"),
        ("https://me:canary@agents.example.com/a2a", "user name or a password"),
    ],
)
def test_an_endpoint_has_a_plain_address(url: str, problem: str) -> None:
    """B-625"""
    with pytest.raises(InvalidValue, match=problem):
        Endpoint(url=url)


def test_a_recorded_endpoint_ignores_settings_of_a_newer_release() -> None:
    model = ModelBinding(id="weather", provider="a2a", name="weather")
    agent = ResolvedAgent(agent_id="weather", model=model, endpoint=Endpoint(url="https://agents.example.com"))
    written = agent.model_dump(mode="json")
    written["endpoint"]["of_tomorrow"] = 1
    assert ResolvedAgent.model_validate(written) == agent


def test_a_remote_task_is_at_work_interrupted_or_ended() -> None:
    """B-629"""
    at_work = {state for state in RemoteState if state.is_at_work}
    interrupted = {state for state in RemoteState if state.is_interrupted}
    assert at_work == {RemoteState.SUBMITTED, RemoteState.WORKING}
    assert interrupted == {RemoteState.INPUT_REQUIRED, RemoteState.AUTH_REQUIRED}
