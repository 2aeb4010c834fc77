"""`Registry`: all problems are listed at once, and an agent resolves to everything that a run depends on."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from wakeful import (
    Agent,
    Behavior,
    Budget,
    ConfigurationError,
    GateCall,
    PermissionPolicy,
    Price,
    Registry,
    Rule,
    ScriptedModel,
    gate,
    say,
    tool,
)
from wakeful.authoring.plugin import Plugin
from wakeful.authoring.profiles import ProfileKey
from wakeful.contract.agents import ModelBinding
from wakeful.contract.context import ContextPolicy
from wakeful.contract.errors import InvalidValue
from wakeful.contract.remote import Endpoint
from wakeful.contract.stopping import ContentMatch, LoopDetection, MaxRounds, Timeout
from wakeful.registry.registry import RegistrySnapshot, default_model


@tool
def look(where: str) -> str:
    """Look."""
    return where


@tool(name="look")
def look_again() -> None:
    """Another tool of the same name."""


@tool
def infer() -> None:
    """A tool with a reserved name."""


def test_all_problems_are_listed_at_once() -> None:
    """B-621."""
    with pytest.raises(ConfigurationError) as error:
        Registry(
            agents=[
                Agent(id="a", tools=[look, "fly"], model="none"),
                Agent(id="a"),
                Agent(id="b", tools=[look_again, look_again, infer]),
            ],
            models={"odd": "gpt", "lost": "nowhere/gpt"},
        )
    assert error.value.problems == (
        "agent 'a' is registered twice",
        "tool 'look' is registered twice, as two different functions",
        "tool 'look' is registered twice, as two different functions",
        "tool 'infer' has a reserved name; rename it (reserved: "
        "archive_thread, call_remote_agent, cancel_remote_task, check_archived_thread, compact, "
        "delete_expired_thread, deliver_message, describe_worker, find_stopping_ancestor, infer, "
        "post_task_update, resolve_agent, restore_thread, run_hooks, wake_thread)",
        "agent 'a' names unknown tool 'fly'; registered: infer, look",
        "agent 'a' names unknown model 'none'; registered: default, lost, odd",
        "agent 'b' lists tools twice: look",
        "model 'odd' is 'gpt'; write it as 'provider/name'",
        "model 'lost' names unknown provider 'nowhere'; registered: anthropic, azure, azure-responses, "
        "openai, openai-responses, pydantic-ai",
    )


def test_unknown_tools_and_models_are_reported_with_the_registered_ones() -> None:
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[Agent(id="a", tools=["fly"], model="gpt")], tools=[look])
    assert error.value.problems == (
        "agent 'a' names unknown tool 'fly'; registered: look",
        "agent 'a' names unknown model 'gpt'; registered: default",
    )


def test_a_plain_function_is_not_a_tool() -> None:
    def plain() -> None: ...

    with pytest.raises(InvalidValue, match="'plain' is a plain function: decorate it with @tool"):
        Agent(id="a", tools=[plain])  # type: ignore[list-item]


def test_an_agent_with_a_misspelt_field_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="instruction"):
        Agent(id="a", instruction="Be brief.")  # type: ignore[call-arg]


def test_an_agent_resolves_to_everything_that_a_run_depends_on() -> None:
    """B-605."""
    registry = Registry(agents=[Agent(id="a", instructions="Be brief.", tools=[look], max_rounds=2)])
    resolved = registry.resolve("a")
    assert resolved.tools == (look.descriptor,)
    assert (resolved.instructions, resolved.max_rounds, resolved.registry_version) == ("Be brief.", 2, 1)
    assert resolved.digest() == registry.resolve("a").digest()


def test_the_digest_changes_with_the_agent() -> None:
    digests = {
        Registry(agents=[Agent(id="a", instructions=text)]).resolve("a").digest() for text in ("Be brief.", "Be kind.")
    }
    assert len(digests) == 2


def test_a_provider_can_be_a_model_of_its_own_or_serve_several() -> None:
    mine, ours = ScriptedModel([say("mine")]), ScriptedModel([say("ours")])
    registry = Registry(
        agents=[Agent(id="a", model="m"), Agent(id="b", model="n")],
        models={"m": mine, "n": "ours/big"},
        providers={"ours": ours},
    )
    assert registry.resolve("b").model == ModelBinding(id="n", provider="ours", name="big")
    assert registry.provider(registry.resolve("a").model) is mine
    assert registry.provider(registry.resolve("b").model) is ours
    assert registry.provider(ModelBinding(id="gone", provider="gone", name="x")) is None


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-5-mini"),
        ({"OPENAI_BASE_URL": "http://localhost:11434/v1", "OPENAI_MODEL": "llama3"}, "openai/llama3"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-4-5"),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "claude-x"}, "anthropic/claude-x"),
    ],
)
def test_the_environment_chooses_the_default_model(environ: dict[str, str], model: str) -> None:
    assert default_model(environ=environ) == model


def test_without_a_key_the_default_model_is_scripted() -> None:
    offline = ScriptedModel([say("hello")])
    assert default_model(environ={}, offline=offline) is offline
    assert isinstance(default_model(environ={}), ScriptedModel)


class Sum(BaseModel):
    total: int

    @field_validator("total")
    @classmethod
    def _is_even(cls, total: int) -> int:
        if total % 2:
            raise ValueError("odd")
        return total


def test_an_output_type_is_resolved_to_its_schema() -> None:
    registry = Registry(agents=[Agent(id="a", output=Sum, output_repairs=3)])
    resolved = registry.resolve("a")
    assert resolved.output is not None
    assert (resolved.output.name, resolved.output.max_repairs) == ("Sum", 3)
    assert resolved.output.json_schema["required"] == ["total"]
    check = registry.output_check(resolved)
    assert check is not None
    assert check({"total": 2}) is None
    assert check({"total": 3}) == "total: odd"


def test_an_output_type_that_has_changed_since_is_not_checked() -> None:
    before = Registry(agents=[Agent(id="a", output=Sum)]).resolve("a")
    assert Registry(agents=[Agent(id="a", output=list[int])]).output_check(before) is None
    assert Registry(agents=[Agent(id="a")]).output_check(before) is None
    assert Registry(agents=[Agent(id="b")]).output_check(before) is None


def test_a_schema_is_an_output_type_too() -> None:
    schema = {"type": "object", "title": "My answer!"}
    registry = Registry(agents=[Agent(id="a", output=schema)])
    resolved = registry.resolve("a")
    assert resolved.output is not None
    assert (resolved.output.name, resolved.output.json_schema) == ("My_answer_", schema)
    assert registry.output_check(resolved) is None


@pytest.mark.parametrize("output", [{"type": "wrong"}, type("Odd", (), {})])
def test_an_output_type_without_a_schema_is_rejected(output: object) -> None:
    with pytest.raises(ConfigurationError, match="agent 'a': its output type has no valid JSON schema"):
        Registry(agents=[Agent(id="a", output=output)])


def test_fallbacks_are_models_of_the_registry() -> None:
    models = {"main": "openai/big", "spare": "anthropic/other"}
    registry = Registry(agents=[Agent(id="a", model="main", fallbacks=["spare"])], models=models)
    assert registry.resolve("a").fallbacks == (ModelBinding(id="spare", provider="anthropic", name="other"),)
    with pytest.raises(ConfigurationError, match="agent 'a' names unknown model 'gone'"):
        Registry(agents=[Agent(id="a", fallbacks=["gone"])])


def test_the_model_that_summarises_is_bound_or_reported_if_it_is_unknown() -> None:
    models = {"main": "openai/big", "small": "anthropic/other"}
    policy = ContextPolicy(summary_model="small")
    registry = Registry(agents=[Agent(id="a", model="main", context=policy)], models=models)
    assert registry.resolve("a").summary_model == ModelBinding(id="small", provider="anthropic", name="other")
    with pytest.raises(ConfigurationError, match="agent 'a' names unknown model 'small'; registered: default"):
        Registry(agents=[Agent(id="a", context=policy)])
    own = Registry(agents=[Agent(id="a", context=ContextPolicy())])
    assert own.resolve("a").summary_model is None


@gate
def careful(call: GateCall) -> None:
    """Look twice."""


@gate(name="careful")
def careful_too(call: GateCall) -> None:
    """Another gate of the same name."""


def test_gates_resolve_to_their_names_in_order_and_permissions_are_unchanged() -> None:
    policy = PermissionPolicy(rules=(Rule(tool="look(up)", behavior=Behavior.ALLOW),))
    agent = Agent(id="a", tools=[look], gates=["second", careful], permissions=policy)
    registry = Registry(agents=[agent], gates=[gate(name="second")(lambda _call: None)])
    resolved = registry.resolve("a")
    assert (resolved.gates, resolved.permissions) == (("second", "careful"), policy)
    assert registry.gates["careful"] is careful
    assert Registry(agents=[Agent(id="a")]).resolve("a").permissions is None


def test_all_problems_of_gates_and_rules_are_listed_at_once() -> None:
    rules = (
        Rule(tool="look(", behavior=Behavior.DENY),
        Rule(tool='look(x =~ "[")', behavior=Behavior.DENY),
        Rule(tool="look", behavior=Behavior.DENY),
        Rule(tool="look", behavior=Behavior.ALLOW),
    )
    with pytest.raises(ConfigurationError) as error:
        Registry(
            agents=[
                Agent(id="a", gates=[careful, careful, "gone"], permissions=PermissionPolicy(rules=rules)),
                Agent(id="b", gates=[careful_too]),
            ]
        )
    assert error.value.problems == (
        "gate 'careful' is registered twice, as two different functions",
        "agent 'a' names unknown gate 'gone'; registered: careful",
        "agent 'a' lists gates twice: careful",
        "agent 'a': permission rule 'look(', character 6: the '(' is never closed",
        "agent 'a': permission rule 'look(x =~ \"[\")', character 11: '[' is not a regular expression: "
        "unclosed character class",
        "agent 'a' has two permission rules for 'look'",
    )


def test_a_plain_function_is_not_a_gate() -> None:
    def plain(call: GateCall) -> None: ...

    with pytest.raises(InvalidValue, match="'plain' is a plain function: decorate it with @gate"):
        Agent(id="a", gates=[plain])  # type: ignore[list-item]


def test_limits_are_resolved_with_the_agent() -> None:
    limited = Agent(id="a", budget=Budget(cost=2), max_depth=2, delegate_timeout=60, expire_after=3600)
    agents = [limited, Agent(id="b", budget=Budget()), Agent(id="c")]
    registry = Registry(agents=agents, prices={"default": Price(input=1, output=2)})
    resolved = registry.resolve("a")
    assert (resolved.budget, resolved.max_depth, resolved.delegate_timeout_seconds) == (Budget(cost=2), 2, 60)
    assert resolved.expire_after_seconds == 3600
    assert [registry.resolve(id).budget for id in ("b", "c")] == [None, None]


@pytest.mark.parametrize(
    "wrong", [{"max_depth": 0}, {"delegate_timeout": 0}, {"expire_after": 0}, {"budget": {"tokens": -1}}]
)
def test_invalid_limits_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Agent.model_validate({"id": "a", **wrong})


def test_prices_must_be_for_registered_models() -> None:
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[], models={"m": "openai/big"}, prices={"m": PRICE, "n": PRICE, "default": PRICE})
    assert error.value.problems == ("prices has the unknown model 'n'; registered: default, m",)


def test_a_cost_budget_needs_the_price_of_every_model_that_it_covers() -> None:
    """Of the agent, its fallbacks and its summaries, and of agents that share the budget, however far down."""
    models = {"big": "openai/big", "small": "openai/small", "sum": "openai/sum", "free": "openai/free"}
    context = ContextPolicy(max_context_tokens=50_000, summary_model="sum")
    lead = Agent(
        id="lead", model="big", fallbacks=["small"], context=context, budget=Budget(cost=1), delegates=["clerk"]
    )
    others = [
        Agent(id="clerk", model="big", handoffs=["expert", "lead"]),
        Agent(id="expert", model="free"),
        Agent(id="alone", model="free", budget=Budget(tokens=1)),
    ]
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[lead, *others], models=models, prices={"big": PRICE})
    remedy = "has no price: set Registry(prices={{{!r}: Price(input=…, output=…)}}), or limit tokens instead".format
    assert error.value.problems == (
        f"agent 'lead' has a cost budget, and model 'small' {remedy('small')}",
        f"agent 'lead' has a cost budget, and model 'sum' {remedy('sum')}",
        f"agent 'lead' has a cost budget, and model 'free' of agent 'expert', which shares the budget, "
        f"{remedy('free')}",
    )
    Registry(agents=[lead, *others], models=models, prices=dict.fromkeys(models, PRICE))


def test_the_models_without_a_price_that_a_run_may_call_are_known() -> None:
    context = ContextPolicy(max_context_tokens=50_000, summary_model="sum")
    agent = Agent(id="a", model="big", fallbacks=["small", "big"], context=context)
    models = {"big": "openai/big", "small": "openai/small", "sum": "openai/sum"}
    free = Registry(agents=[agent], models=models)
    priced = Registry(agents=[agent], models=models, prices={"big": PRICE, "sum": PRICE})
    assert (free.unpriced(free.resolve("a")), priced.unpriced(priced.resolve("a"))) == (
        ("big", "small", "sum"),
        ("small",),
    )


def test_what_a_remote_agent_costs_is_not_asked() -> None:
    remote = Agent(id="far", endpoint=Endpoint(url="https://example.org"))
    lead = Agent(id="lead", budget=Budget(cost=1), delegates=["far"])
    registry = Registry(agents=[lead, remote], prices={"default": PRICE})
    assert registry.unpriced(registry.resolve("far")) == ()


PRICE = Price(input=1, output=2)
OTHER = Price(input=3, output=4)


@pytest.mark.parametrize(
    ("binding", "price"),
    [
        (ModelBinding(id="m", provider="openai", name="big"), PRICE),
        (ModelBinding(id="n", provider="openai", name="small"), OTHER),
        (ModelBinding(id="m", provider="openai", name="small"), OTHER),  # named as its provider names it
        (ModelBinding(id="m", provider="openai", name="unregistered"), PRICE),
        (ModelBinding(id="free", provider="openai", name="tiny"), None),
        (ModelBinding(id="gone", provider="openai", name="older"), None),
    ],
)
def test_a_model_has_its_registered_price(binding: ModelBinding, price: Price | None) -> None:
    models = {"m": "openai/big", "n": "openai/small", "free": "openai/tiny"}
    assert Registry(agents=[], models=models, prices={"n": OTHER, "m": PRICE}).price(binding) == price


@tool
def fetch(what: str) -> str:
    """Fetch."""
    return what


def test_a_replacement_is_in_force_at_once_and_increments_the_version() -> None:
    """B-620."""
    registry = Registry(agents=[Agent(id="a", tools=[look])], models={"m": "openai/big"})
    before = registry.snapshot()
    assert registry.replace(Registry(agents=[Agent(id="b", tools=[fetch], gates=[careful])])) == 2
    assert (before.version, before.agents, before.tools, before.models) == (1, ("a",), ("look",), ("default", "m"))
    assert registry.snapshot() == RegistrySnapshot(
        version=2,
        agents=("b",),
        tools=("fetch",),
        gates=("careful",),
        plugins=(),
        models=("default",),
        providers=(),
    )
    assert registry.resolve("b").registry_version == registry.version == 2
    with pytest.raises(ConfigurationError, match="agent not found: 'a'; registered: b"):
        registry.resolve("a")


def test_parts_that_are_not_replaced_stay() -> None:
    registry = Registry(agents=[Agent(id="a", tools=[look])], tools=[fetch], models={"m": "openai/big"})
    registry.replace(agents=[Agent(id="a", model="m", tools=[look_again, "fetch"])])
    assert registry.tools == {"look": look_again, "fetch": fetch}
    assert registry.resolve("a").model.name == "big"


def test_a_replacement_with_problems_changes_nothing() -> None:
    registry = Registry(agents=[Agent(id="a", tools=[look])])
    before = registry.resolve("a")
    with pytest.raises(ConfigurationError, match="names unknown tool 'fly'"):
        registry.replace(agents=[Agent(id="a", tools=["fly"]), Agent(id="b")])
    assert (registry.resolve("a"), registry.snapshot().agents) == (before, ("a",))


def test_what_a_replacement_lacks_stays_available_to_runs_that_are_bound_to_it() -> None:
    """I-12."""
    alone, ours = ScriptedModel([say("alone")]), ScriptedModel([say("ours")])
    registry = Registry(
        agents=[Agent(id="a", tools=[look], gates=[careful], model="alone", output=Sum), Agent(id="b", model="n")],
        models={"alone": alone, "n": "ours/big"},
        providers={"ours": ours},
        prices={"n": PRICE},
    )
    a, b = registry.resolve("a"), registry.resolve("b")
    for version in (2, 3):
        assert registry.replace(Registry(agents=[Agent(id="a")], models={"alone": "openai/x"})) == version
        assert (dict(registry.tools), dict(registry.gates)) == ({}, {})
        assert (registry.tool("look"), registry.gate("careful")) == (look, careful)
        assert (registry.provider(a.model), registry.provider(b.model)) == (alone, ours)
        assert registry.price(b.model) == PRICE
        assert registry.output_check(a) is not None
    assert registry.tool("never registered") is None


def test_the_current_version_is_searched_first_and_then_the_newest_retired_one() -> None:
    registry = Registry(agents=[], tools=[look], models={"m": "openai/big"}, prices={"m": PRICE})
    old = ModelBinding(id="m", provider="openai", name="big")
    registry.replace(tools=[look_again], prices={"m": OTHER})
    assert (registry.tool("look"), registry.price(old)) == (look_again, OTHER)
    registry.replace(tools=[], models={}, prices={})
    assert (registry.tool("look"), registry.price(old)) == (look_again, OTHER)
    assert registry.price(ModelBinding(id="m", provider="openai", name="unregistered")) == OTHER


@pytest.mark.parametrize(
    ("allowed", "excluded", "left"),
    [
        (None, [], ["agent_run_b", "fetch", "look", "recover_failed_messages", "send_message"]),
        ([], [], []),
        (["look"], [], ["look"]),
        (["agent_run_*", "*e*"], [], ["agent_run_b", "fetch", "recover_failed_messages", "send_message"]),
        (["*"], ["*_messages", "look"], ["agent_run_b", "fetch", "send_message"]),
        (["look", "fetch"], ["look"], ["fetch"]),
    ],
)
def test_globs_select_among_the_tools_of_an_agent(
    allowed: list[str] | None, excluded: list[str], left: list[str]
) -> None:
    """B-623."""
    agent = Agent(
        id="a",
        tools=[look, fetch],
        delegates=["b"],
        messages=True,
        allowed_tools=allowed,
        excluded_tools=excluded,
    )
    resolved = Registry(agents=[agent, Agent(id="b")]).resolve("a")
    assert [tool.id for tool in resolved.tools] == left


def test_a_glob_that_matches_no_tool_is_a_problem() -> None:
    agent = Agent(
        id="a",
        tools=[look],
        allowed_tools=["lok", "l*"],
        excluded_tools=["agent_run_*"],
        replaceable_tools=["l*", "look"],
    )
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[agent])
    has = "cancel_task, look"
    assert error.value.problems == (
        f"agent 'a': 'lok' in allowed_tools matches no tool of the agent; it has: {has}",
        f"agent 'a': 'agent_run_*' in excluded_tools matches no tool of the agent; it has: {has}",
        f"agent 'a': 'l*' in replaceable_tools matches no tool of the agent; it has: {has}",
    )


def test_a_max_rounds_condition_takes_the_place_of_the_agents_max_rounds_b086() -> None:
    def rounds(agent: Agent) -> int:
        return Registry(agents=[agent]).resolve(agent.id).max_rounds

    many = (MaxRounds(rounds=40),)
    assert rounds(Agent(id="a")) == 16
    assert rounds(Agent(id="a", stop_conditions=many)) == 40
    assert rounds(Agent(id="a", stop_conditions=(*many, MaxRounds(rounds=30)))) == 30
    with pytest.raises(ConfigurationError) as raised:
        Registry(agents=[Agent(id="a", max_rounds=8, stop_conditions=many)])
    assert raised.value.problems == (
        "agent 'a' limits its rounds twice: max_rounds=8 is short for the stop condition max_rounds, which says 40; "
        "remove one of them",
    )


def test_stop_conditions_are_checked_and_resolved_with_the_agent() -> None:
    met = Agent(id="a", stop_conditions=[Timeout(seconds=60), ContentMatch(pattern="DONE")])
    assert Registry(agents=[met]).resolve("a").stop_conditions == (Timeout(seconds=60), ContentMatch(pattern="DONE"))
    wrong = Agent(id="a", stop_conditions=[Timeout(seconds=60), ContentMatch(pattern="("), LoopDetection(window=999)])
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[wrong])
    pattern, window = error.value.problems
    assert pattern.startswith("agent 'a': content_match: ")
    assert window == "agent 'a': loop_detection: the window is 999; at most 100 answers can be compared"


def test_profile_keys_have_unique_names_and_outlive_a_replacement() -> None:
    tone, other = ProfileKey("tone", str, default=""), ProfileKey("tone", int, default=0)
    with pytest.raises(ConfigurationError, match="profile key 'tone' is registered twice, as two different keys"):
        Registry(profile_keys=[tone, other])
    registry = Registry(profile_keys=[tone, tone])
    assert registry.copy().profile_keys == (tone,)
    registry.replace(Registry())
    assert registry.profile_keys == (tone,)


class Limits(BaseModel):
    most: int = 3


class Guard(Plugin[Limits]):
    id = "guard"
    tools = [fetch]


def test_plugins_are_bound_with_their_settings_and_add_their_tools() -> None:
    agent = Agent(id="a", plugins=["guard"], plugin_settings={"guard": {"most": 5}})
    registry = Registry(agents=[agent], plugins=[Guard()])
    resolved = registry.resolve("a")
    assert [(plugin.id, plugin.settings) for plugin in resolved.plugins] == [("guard", {"most": 5})]
    assert resolved.tools == (fetch.descriptor,)
    registry.replace(Registry(agents=[Agent(id="a")]))
    assert (registry.plugin("guard") is not None, dict(registry.plugins)) == (True, {})


def test_all_problems_of_plugins_are_listed_at_once() -> None:
    """B-622."""
    agents = [
        Agent(id="a", plugins=["guard", "gone"], plugin_settings={"guard": {"most": "many"}, "gone": {}}),
        Agent(id="b", plugins=[Guard(), "guard"], plugin_settings={"other": {}}),
    ]
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=agents, plugins=[Guard()])
    assert error.value.problems == (
        "plugin 'guard' is registered twice, as two different objects, by Registry(plugins=[…]) and agent 'b': "
        "share one instance, or list it in Registry(plugins=[…]) and refer to it by its id",
        "agent 'a' names unknown plugin 'gone'; registered: guard",
        "agent 'a': the settings of plugin 'guard' are invalid: most: Input should be a valid integer, "
        "unable to parse string as an integer",
        "agent 'b' lists plugins twice: guard",
        "agent 'b' has settings for plugin 'other', which it does not use; used: guard",
    )
