"""Agents of several sources are addressed by `source/agent`, and plain ids search the local ones first."""

import pytest

from wakeful import A2aSource, Agent, ConfigurationError, Registry, RemoteAgent
from wakeful.contract.tools import RuntimeTool
from wakeful.registry.addressing import agent_tool_name
from wakeful.registry.content import DiscoveredSource

CLOUD = A2aSource(name="cloud", url="https://cloud.example.com")
PARTNER = A2aSource(name="partner", url="https://partner.example.com")


def found(source: A2aSource, *ids: str) -> DiscoveredSource:
    agents = (RemoteAgent(id=f"{source.name}/{id}", url=source.url, description=f"{source.name}'s {id}") for id in ids)
    return DiscoveredSource(source, tuple(agents))


def composite(*agents: Agent, discovered: tuple[DiscoveredSource, ...] = ()) -> Registry:
    registry = Registry(
        agents=agents or [Agent(id="local-agent", instructions="Local agent.")], sources=[CLOUD, PARTNER]
    )
    registry.adopt(discovered)
    return registry


def resolved(registry: Registry, address: str) -> str | None:
    """The id of the agent that an address names."""
    try:
        return registry.resolve(address).agent_id
    except ConfigurationError:
        return None


@pytest.mark.parametrize(
    ("address", "id"),
    [
        pytest.param("local-agent", "local-agent", id="local_agent_lookup"),
        pytest.param("nonexistent", None, id="missing_agent_returns_none"),
        pytest.param("remote-coder", "cloud/remote-coder", id="cached_remote_agent_lookup"),
        pytest.param("shared", "shared", id="local_takes_precedence_over_remote"),
        pytest.param("local/local-agent", "local-agent", id="namespaced_lookup_local_source"),
        pytest.param("cloud/translator", "cloud/translator", id="namespaced_lookup_remote_source"),
        pytest.param("cloud/shared", "cloud/shared", id="a_source_by_name"),
        pytest.param("partner/remote-coder", None, id="namespaced_lookup_wrong_source_returns_none"),
        pytest.param("local/nonexistent", None, id="namespaced_lookup_nonexistent_local_returns_none"),
        pytest.param("local/remote-coder", None, id="local_is_no_source"),
        pytest.param("summarizer", "partner/summarizer", id="source_tracking_on_cached_agents"),
        pytest.param("team/a", "team/a", id="a_slash_in_a_local_id"),
    ],
)
def test_an_address_names_one_agent(address: str, id: str | None) -> None:
    """B-626"""
    agents = (Agent(id="local-agent"), Agent(id="shared"), Agent(id="team/a"))
    sources = (found(CLOUD, "remote-coder", "translator", "shared"), found(PARTNER, "translator", "summarizer"))
    assert resolved(composite(*agents, discovered=sources), address) == id


def test_multi_source_same_agent_id_both_kept() -> None:
    """B-626: a plain id names that of the first source."""
    registry = composite(discovered=(found(PARTNER, "translator"), found(CLOUD, "translator")))
    assert registry.agent_ids == ("cloud/translator", "local/local-agent", "partner/translator")
    assert resolved(registry, "translator") == "cloud/translator"
    assert registry.discovered["partner/translator"].description == "partner's translator"


def test_ids_are_listed_with_their_source() -> None:
    """B-626. awaken: agent_ids_includes_local_namespaced, agent_ids_includes_both_local_and_remote_namespaced"""
    assert composite().agent_ids == ("local/local-agent",)
    registry = composite(discovered=(found(CLOUD, "remote-agent"),))
    assert registry.agent_ids == ("cloud/remote-agent", "local/local-agent")


def test_add_remote_sources() -> None:
    """B-620"""
    assert [source.name for source in composite().sources] == ["cloud", "partner"]


def test_a_source_that_is_not_discovered_yet_is_named() -> None:
    with pytest.raises(ConfigurationError, match="not discovered yet: 'cloud', 'partner'"):
        composite().resolve("cloud/translator")


def runtimes(registry: Registry, agent_id: str) -> dict[str, RuntimeTool | None]:
    return {tool.id: tool.runtime for tool in registry.resolve(agent_id).tools}


def test_agents_name_agents_of_sources_as_delegates_spawns_and_handoffs() -> None:
    """B-626"""
    boss = Agent(
        id="boss",
        delegates=["cloud/translator", "summarizer", "local/clerk"],
        spawns=["translator", "cloud/translator", "local/clerk"],
        handoffs=["partner/summarizer"],
        excluded_tools=["cancel_task", "list_tasks", "task_result"],
    )
    registry = composite(boss, Agent(id="clerk"))
    named = {"agent_run_cloud__translator", "agent_run_summarizer", "agent_run_clerk", "handoff_to_partner__summarizer"}
    assert {*runtimes(registry, "boss")} == {*named, "spawn_agent"}, "before they are discovered, too"
    registry.adopt([found(CLOUD, "translator"), found(PARTNER, "summarizer")])
    tools = runtimes(registry, "boss")
    agents = {id: runtime.agent_id for id, runtime in tools.items() if runtime is not None}
    assert agents == {
        "agent_run_cloud__translator": "cloud/translator",
        "agent_run_summarizer": "partner/summarizer",
        "agent_run_clerk": "clerk",
        "handoff_to_partner__summarizer": "partner/summarizer",
        "spawn_agent": None,
    }
    assert (spawning := tools["spawn_agent"]) is not None
    assert spawning.agent_ids == ("cloud/translator", "clerk")
    delegate = next(tool for tool in registry.resolve("boss").tools if tool.id == "agent_run_cloud__translator")
    assert (
        """agent 'cloud/translator' and wait for its answer. Its description: "cloud's translator\""""
        in delegate.description
    )


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("weather", "agent_run_weather"),
        ("local/weather", "agent_run_weather"),
        ("partner/weather", "agent_run_partner__weather"),
        ("partner/Größe 1.0/x", "agent_run_partner__Gr__e_1_0__x"),
        ("partner/" + "x" * 60, f"agent_run_partner__{'x' * 36}_1dd9643d"),
    ],
)
def test_the_tool_for_an_agent_has_a_name_that_providers_accept(address: str, name: str) -> None:
    assert agent_tool_name("agent_run_", address) == name
    assert len(name) <= 64


def test_names_that_no_source_has_are_problems_once_all_are_discovered() -> None:
    """B-622"""
    registry = composite(Agent(id="boss", delegates=["partner/translater", "clark"]))
    registry.adopt([found(CLOUD, "translator")])  # the other source may have them
    with pytest.raises(ConfigurationError) as refused:
        registry.adopt([found(CLOUD, "translator"), found(PARTNER, "translator")])
    registered = "registered: boss, cloud/translator, partner/translator"
    assert refused.value.problems == (
        f"agent 'boss' names unknown agent 'partner/translater' in delegates; {registered}; did you mean "
        "'partner/translator'?",
        f"agent 'boss' names unknown agent 'clark' in delegates; {registered}",
    )
    assert [*registry.discovered] == ["cloud/translator"]


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (Agent(id="boss", delegates=["nowhere/x"]), "names unknown agent 'nowhere/x' in delegates"),
        (Agent(id="boss", spawns=["local/clerk"]), "names unknown agent 'local/clerk' in spawns"),
        (Agent(id="boss", handoffs=["local/boss"]), "hands off to itself"),
        (Agent(id="boss", delegates=["boss", "local/boss"]), "lists agents twice in delegates: boss"),
        (
            Agent(id="boss", delegates=["cloud/a.b", "cloud/a_b"]),
            "'cloud/a.b' and 'cloud/a_b', whose tools would both be",
        ),
        (Agent(id="cloud/a"), "agent 'cloud/a' has an id like those of the agents of source 'cloud': rename it"),
        (Agent(id="local/a"), "agent 'local/a' has an id like those of the agents of source 'local': rename it"),
    ],
)
def test_addresses_that_cannot_be_are_problems_at_once(agent: Agent, problem: str) -> None:
    """B-622"""
    with pytest.raises(ConfigurationError, match=problem):
        composite(agent)


def test_two_sources_have_two_names() -> None:
    """B-622"""
    with pytest.raises(ConfigurationError, match="source 'cloud' is registered twice"):
        Registry(sources=[CLOUD, CLOUD])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "a/b"}, "String should match pattern"),
        ({"name": "local"}, "a source cannot be called 'local'"),
        ({"url": "agents.example.com"}, "the url 'agents.example.com' must start with http"),
        ({"timeout": 0}, "greater than 0"),
    ],
)
def test_a_source_has_a_plain_name_and_address(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        A2aSource.model_validate({"name": "partner", "url": "https://a.example.com", **settings})


def test_agents_that_were_discovered_outlive_a_replacement_that_keeps_their_source() -> None:
    """B-620"""
    registry = composite(discovered=(found(CLOUD, "translator"), found(PARTNER, "summarizer")))
    assert registry.version == 2
    moved = A2aSource(name="partner", url="https://moved.example.com")
    registry.replace(agents=[Agent(id="boss", delegates=["cloud/translator"])], sources=[moved, CLOUD])
    assert (registry.version, [*registry.discovered]) == (3, ["cloud/translator"])
    registry.replace(Registry(sources=[CLOUD]))
    assert [*registry.discovered] == ["cloud/translator"]
    with pytest.raises(ConfigurationError, match="unknown agent 'cloud/gone'"):
        registry.replace(Registry(agents=[Agent(id="boss", delegates=["cloud/gone"])], sources=[CLOUD]))
    registry.replace(sources=[])
    assert (registry.version, registry.discovered) == (5, {})
