"""Agents that another service runs, in a registry."""

from pathlib import Path

import pytest

from wakeful import Agent, Budget, ConfigurationError, Endpoint, Registry, RemoteAgent, RetryPolicy, Secret
from wakeful.contract.remote import DEFAULT_REMOTE_TIMEOUT_SECONDS
from wakeful.registry import remote_agents

URL = "https://agents.example.com"


def problems(*agents: Agent) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=agents)
    return error.value.problems


def test_a_remote_agent_is_resolved_with_its_endpoint_and_its_questions() -> None:
    """B-625."""
    token = Secret(env="PARTNER_TOKEN")
    agent = RemoteAgent(id="weather", url=URL, target="rain", token=token, poll_interval=5, idempotent=True)
    resolved = Registry(agents=[agent]).resolve("weather", in_task=True)
    assert resolved.endpoint == Endpoint(url=URL, target="rain", token=token, poll_seconds=5, idempotent=True)
    assert resolved.endpoint.timeout_seconds == DEFAULT_REMOTE_TIMEOUT_SECONDS
    assert (resolved.model.id, resolved.model.provider) == ("weather", "a2a")
    [tool] = resolved.tools
    assert (tool.id, tool.frontend) == ("remote_input", True)


def test_what_the_service_decides_cannot_be_set_here() -> None:
    agent = Agent(id="weather", endpoint=Endpoint(url=URL), model="big", instructions="Be brief.", delegates=["other"])
    decides = "agent 'weather' has an endpoint, so another service decides its"
    assert problems(agent) == (
        f"{decides} instructions: remove it",
        f"{decides} model: remove it",
        f"{decides} delegates: remove it",
    )


def test_limits_of_its_calls_can_be_set_here() -> None:
    agent = Agent(
        id="weather",
        description="Forecasts.",
        endpoint=Endpoint(url=URL),
        retry=RetryPolicy(patience_secs=60),
        budget=Budget(turns=5),
        max_rounds=3,
        inference_heartbeat_timeout=5,
    )
    assert Registry(agents=[agent]).resolve("weather").max_rounds == 3


def test_a_file_can_have_a_remote_agent_and_names_the_line_of_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "weather.toml"
    endpoint = 'endpoint = {url = "https://agents.example.com", token = {env = "TOKEN"}}'
    file.write_text(f"[agent.weather]\n{endpoint}\n")
    resolved = Registry(agent_files=[file]).resolve("weather")
    assert resolved.endpoint == Endpoint(url=URL, token=Secret(env="TOKEN"))
    file.write_text(f'[agent.weather]\nmodel = "big"\n{endpoint}\n')
    with pytest.raises(ConfigurationError, match=r"weather\.toml:2:.*another service decides its model"):
        Registry(agent_files=[file])


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_agents, "find_spec", lambda _name: None)
    expected = "agent 'weather' has an endpoint, which needs the package a2a-sdk: pip install 'wakeful[a2a]'"
    assert problems(RemoteAgent(id="weather", url=URL)) == (expected,)
