"""Remote agents and sources of remote agents in agent files."""

from pathlib import Path
from textwrap import dedent

import pytest

from wakeful import A2aSource, ConfigurationError, Registry, Secret
from wakeful.contract.remote import Endpoint
from wakeful.registry.content import DiscoveredSource
from wakeful.registry.reloading import Reloaded, Unchanged, describe_outcome, reload


def write(path: Path, text: str) -> None:
    path.write_text(dedent(text).lstrip())


def problems(*paths: Path, sources: tuple[A2aSource, ...] = ()) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        Registry(agent_files=paths, sources=sources)
    return [problem.removeprefix(f"{paths[0].parent}/") for problem in raised.value.problems]


def test_an_agent_in_a_file_can_be_an_endpoint_of_another_service(tmp_path: Path) -> None:
    """B-625. awaken: remote_endpoint_serde_roundtrip"""
    write(
        tmp_path / "weather.toml",
        """
        [agent.weather]
        description = "Tells the weather."

        [agent.weather.endpoint]
        url = "https://agents.example.com/a2a"
        target = "weather"
        token = { env = "PARTNER_TOKEN" }
        headers = { X-Key = { file = "/run/secrets/key" } }
        timeout_seconds = 60
        poll_seconds = 5
        idempotent = true
        """,
    )
    endpoint = Registry(agent_files=[tmp_path]).resolve("weather").endpoint
    assert endpoint == Endpoint(
        url="https://agents.example.com/a2a",
        target="weather",
        token=Secret(env="PARTNER_TOKEN"),
        headers={"X-Key": Secret(file="/run/secrets/key")},
        timeout_seconds=60,
        poll_seconds=5,
        idempotent=True,
    )
    assert Endpoint.model_validate_json(endpoint.model_dump_json()) == endpoint


def test_mistakes_in_an_endpoint_have_a_file_and_a_line(tmp_path: Path) -> None:
    """B-622, B-625

    awaken: remote_endpoint_rejects_mixed_legacy_and_canonical_fields, resolve_delegate_rejects_unknown_remote_backend
    """
    write(
        tmp_path / "a.toml",
        """
        [agent.weather.endpoint]
        url = "https://agents.example.com"
        bearer_token = "canary"
        backend = "acp"
        token = {}
        """,
    )
    assert problems(tmp_path / "a.toml") == [
        "a.toml:3: agent 'weather': unknown key 'bearer_token' in endpoint",
        "a.toml:4: agent 'weather': endpoint.backend should be 'a2a', not 'acp'",
        "a.toml:5: agent 'weather': endpoint.token: a secret is in one place: give env, the name of an environment "
        "variable, or file",
    ]


def test_a_source_can_be_in_a_file(tmp_path: Path) -> None:
    """B-626"""
    write(
        tmp_path / "partner.toml",
        """
        [source.partner]
        url = "https://agents.example.com"
        token = { env = "PARTNER_TOKEN" }
        timeout = 60

        [agent.boss]
        delegates = ["partner/weather"]
        """,
    )
    coded = A2aSource(name="coded", url="https://coded.example.com")
    assert Registry(agent_files=[tmp_path], sources=[coded]).sources == (
        coded,
        A2aSource(name="partner", url="https://agents.example.com", token=Secret(env="PARTNER_TOKEN"), timeout=60),
    )


def test_mistakes_in_sources_have_a_file_and_a_line(tmp_path: Path) -> None:
    """B-622"""
    write(
        tmp_path / "a.toml",
        """
        [source.partner]
        where = "https://agents.example.com"
        urll = "x"

        [source.local]
        url = "https://agents.example.com"

        [source.coded]
        url = "agents.example.com"

        [source.twice]
        url = "https://agents.example.com"
        """,
    )
    write(tmp_path / "b.toml", 'source = "https://agents.example.com"\n')
    write(tmp_path / "c.toml", '[source.twice]\nurl = "https://agents.example.com"\n')
    found = problems(tmp_path / "a.toml", tmp_path / "b.toml", tmp_path / "c.toml")
    assert [problem.replace(str(tmp_path), "…") for problem in found] == [
        "a.toml:1: source 'partner': 'url' is missing",
        "a.toml:2: source 'partner': unknown key 'where'",
        "a.toml:3: source 'partner': unknown key 'urll'; did you mean 'url'?",
        "a.toml:5: source 'local': name: a source cannot be called 'local': these are the agents of the registry "
        "itself",
        "a.toml:9: source 'coded': url: the url 'agents.example.com' must start with http:// or https://, and have no "
        "spaces",
        "b.toml:1: write [source.<name>], and the settings of the source under it",
        "c.toml:1: source 'twice' is registered twice: here and at …/a.toml:11",
    ]
    coded = A2aSource(name="twice", url="https://a.example.com")
    assert problems(tmp_path / "c.toml", sources=(coded,)) == [
        "c.toml:1: source 'twice' is registered twice: here and in code"
    ]


def test_a_reload_reports_changed_sources_and_keeps_what_was_discovered_of_the_others(tmp_path: Path) -> None:
    """B-620"""
    one, other = (f'[source.{name}]\nurl = "https://{name}.example.com"\n' for name in ("one", "other"))
    (tmp_path / "sources.toml").write_text(one + other)
    registry = Registry(agent_files=[tmp_path])
    registry.adopt([DiscoveredSource(source, ()) for source in registry.sources])
    assert reload(registry) == Unchanged(2)
    (tmp_path / "sources.toml").write_text(one + other + "timeout = 5\n")
    outcome = reload(registry)
    assert outcome == Reloaded(3, sources=("other",))
    assert describe_outcome(outcome) == "agents reloaded, version 3 is in force: changed sources other"
    assert [source.name for source in registry.sources] == ["one", "other"]
