"""`wakeful permissions --explain`: which rule decides about a call, for a registry and for a thread."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from tests.support.waiting import until
from wakeful import Agent, PermissionPolicy, Registry, Rule, ScriptedModel, call, say, tool
from wakeful.cli.app import app
from wakeful.cli.explaining import Asked, in_registry, in_thread, lines_of, parse_call
from wakeful.contract.errors import CallerError
from wakeful.testing import runtime


@tool
def charge(amount: float) -> str:
    """Charge a card."""
    return f"charged {amount}"


HAND = Agent(
    id="hand",
    description="Charges.",
    tools=[charge],
    model="hand",
    permissions=PermissionPolicy(
        default_behavior="allow",
        rules=[
            Rule(tool="charge(amount > 100)", behavior="ask", message="Charge {amount} EUR for {$user}?"),
            Rule(tool='charge($tenant = "beta")', behavior="deny"),
        ],
    ),
)
BOSS = Agent(id="boss", delegates=["hand"])
MODELS = {
    "default": ScriptedModel([call("agent_run_hand", prompt="Charge 250."), say("{result}")]),
    "hand": ScriptedModel([call("charge", amount=250), say("{result}")]),
}
REGISTRY = Registry(agents=[HAND, BOSS], models=MODELS)


def asking(written: str, *rules: str, tenant: str | None = None, user: str | None = None) -> Asked:
    return Asked.parse(written, [*rules], tenant, user, {})


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("pay", {}),
        ("pay()", {}),
        ("pay(amount=250)", {"amount": 250}),
        (' pay ( to = "A, B)", n=-1.5, ok=true ) ', {"to": "A, B)", "n": -1.5, "ok": True}),
        ("pay(to=Ann Lee, amount=5 EUR)", {"to": "Ann Lee", "amount": "5 EUR"}),
        ('pay(items=[{"id": 1}], to=)', {"items": [{"id": 1}], "to": ""}),
        ('pay({"amount": 5, "to": null})', {"amount": 5, "to": None}),
    ],
)
def test_a_call_is_written_with_named_arguments_or_as_json(written: str, arguments: JsonValue) -> None:
    assert parse_call(written) == ("pay", arguments)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "the tool's name is missing"),
        ("pay(amount=5", "its arguments are not in parentheses"),
        ("pay(5)", "expected name=value at '5'"),
        ("pay({5})", "its arguments are not JSON"),
    ],
)
def test_a_call_that_cannot_be_read_is_refused_with_an_example(written: str, says: str) -> None:
    with pytest.raises(CallerError) as error:
        parse_call(written)
    assert str(error.value).startswith(f"--explain {written!r}: {says}")
    assert "write a call such as 'pay(amount=250" in str(error.value)


def test_a_registry_is_explained_for_every_agent_that_has_the_tool_also_as_a_sub_agent() -> None:
    explained = in_registry(asking("charge(amount=250)", "charge(amount > 200)=deny", tenant="acme"), REGISTRY, None)
    of_hand = [
        "  decides        deny charge(amount > 200), of the request: amount is 250",
        "  also matches   ask charge(amount > 100), of the agent: amount is 250",
        '  does not match deny charge($tenant = "beta"), of the agent: $tenant is "acme"',
    ]
    assert lines_of(explained, as_json=False) == [
        *("hand: denies charge(amount=250)", *of_hand),
        *("boss > hand: denies charge(amount=250)", *of_hand),
    ]


def test_a_request_that_allows_does_not_allow_what_a_sub_agent_asks_about() -> None:
    root, child = in_registry(asking("charge(amount=250)", "charge(amount > 100)=allow", tenant="acme"), REGISTRY, None)
    assert [(each.where, each.explanation.ruling.behavior) for each in (root, child)] == [
        ("hand", "allow"),
        ("boss > hand", "ask"),
    ]


def test_what_an_agent_asks_about_is_asked_in_its_sub_agents_whatever_they_allow() -> None:
    allowing = PermissionPolicy(default_behavior="allow", rules=[Rule(tool="charge(*)", behavior="allow")])
    careful = PermissionPolicy(
        default_behavior="allow",
        rules=[Rule(tool="charge(amount > 10)", behavior="ask"), Rule(tool="agent_run_hand", behavior="allow")],
    )
    agents = [
        Agent(id="hand", description="Charges.", tools=[charge], permissions=allowing),
        Agent(id="boss", delegates=["hand"], permissions=careful),
    ]
    registry = Registry(agents=agents, models={"default": ScriptedModel([say("ok")])})
    root, child = in_registry(asking("charge(amount=250)"), registry, None)
    assert root.explanation.ruling.behavior == "allow"
    assert lines_of([child], as_json=False) == [
        "boss > hand: asks about charge(amount=250)",
        "  decides        ask charge(amount > 10), of agent boss: amount is 250",
        "  also matches   allow charge(*), of the agent: any arguments",
    ]


def test_a_tool_that_no_agent_has_is_refused_unless_an_agent_is_named() -> None:
    with pytest.raises(CallerError, match="no agent has tool 'chrge'; did you mean 'charge'"):
        in_registry(asking("chrge"), REGISTRY, None)
    (explained,) = in_registry(asking("mcp__desk__open"), REGISTRY, "boss")
    assert lines_of([explained], as_json=False) == [
        "boss: allows mcp__desk__open()",
        "  decides        default_behavior: allow, because no rule matches",
    ]


async def test_a_thread_of_a_sub_agent_is_explained_with_the_rules_that_its_run_has() -> None:
    async with runtime(REGISTRY) as client:
        rules = [Rule(tool="charge(amount > 1000)", behavior="deny")]
        thread = await client.start("boss", "Go.", permissions=rules, tenant="acme", user="ann")
        (child,) = (await until(client, thread, lambda view: bool(view.children))).children
        await until(client, child, lambda view: bool(view.pending))
        (large,) = await in_thread(asking("charge(amount=2000)"), client, child)
        (asked,) = await in_thread(asking("charge(amount=250)"), client, child)
        assert lines_of([asked], as_json=False) == [
            f"{child}: asks about charge(amount=250)",
            "  says           Charge 250 EUR for ann?",
            "  decides        ask charge(amount > 100), of the agent: amount is 250",
            '  does not match deny charge($tenant = "beta"), of the agent: $tenant is "acme"',
            "  does not match deny charge(amount > 1000), of an ancestor: amount is 250",
        ]
        (told,) = map(json.loads, lines_of([large], as_json=True))
        assert (told["behavior"], told["decided_by"]) == ("deny", "charge(amount > 1000)")
        assert (told["rules"][0]["of"], told["rules"][0]["part"]) == ("an ancestor", "decides")
        (beta,) = await in_thread(asking("charge(amount=5)", tenant="beta"), client, child)
        assert beta.explanation.ruling.decided_by == 'charge($tenant = "beta")'
        await client.cancel(thread)


def test_the_command_explains_a_registry_without_a_server() -> None:
    here = f"{Path(__file__).relative_to(Path.cwd())}:REGISTRY"
    told = CliRunner().invoke(
        app, ["permissions", "--explain", "charge(amount=5)", "--app", here, "--agent", "hand", "--tenant", "beta"]
    )
    assert (told.exit_code, told.output.splitlines()[0]) == (0, "hand: denies charge(amount=5)")
    usage = CliRunner().invoke(app, ["permissions"])
    assert (usage.exit_code, "name a thread, or a call with --explain" in usage.output) == (2, True)


async def test_a_thread_is_explained_as_its_run_decides_after_a_decision_with_always() -> None:
    model = ScriptedModel([call("charge", amount=250), call("charge", amount=250), say("Done.")])
    registry = Registry(agents=[Agent(id="clerk", tools=[charge])], models={"default": model})
    async with runtime(registry) as client:
        asks = Rule(tool="charge", behavior="ask")
        thread = await client.start("clerk", "Go.", mode="thread", permissions=[asks])
        await until(client, thread, lambda view: bool(view.pending))
        (before,) = await in_thread(asking("charge(amount=250)"), client, thread)
        assert before.explanation.ruling.behavior == "ask"
        await client.decide(thread, "1-1", "resume", always=True)
        assert (await client.result(thread)).status_reason == "natural"  # the second call was not asked about
        (after,) = await in_thread(asking("charge(amount=250)"), client, thread)
        assert lines_of([after], as_json=False) == [
            f"{thread}: allows charge(amount=250)",
            "  decides        allow charge, of the thread: any arguments",
            "  is replaced    allow charge, of the thread: any arguments",
            "  is replaced    ask charge, of the run: any arguments",
        ]


TRIAGE = PermissionPolicy(
    default_behavior="allow",
    rules=[Rule(tool="charge(amount > 200)", behavior="deny"), Rule(tool="charge(*)", behavior="allow")],
)
HANDING = Registry(
    agents=[HAND, Agent(id="triage", handoffs=["hand"], permissions=TRIAGE), Agent(id="lead", delegates=["triage"])],
    models=MODELS,
)


def test_an_agent_that_a_handoff_reaches_is_explained_with_what_the_agents_before_it_hand_on() -> None:
    """B-809"""
    explained = in_registry(asking("charge(amount=250)", "charge(amount > 100)=allow", tenant="acme"), HANDING, None)
    assert [(each.where, each.explanation.ruling.behavior) for each in explained] == [
        ("hand", "allow"),
        ("triage hands off to hand", "deny"),
        ("lead > triage hands off to hand", "deny"),
    ]
    assert lines_of(explained[1:2], as_json=False)[1] == (
        "  decides        deny charge(amount > 200), of agent triage: amount is 250"
    )
    small = in_registry(asking("charge(amount=150)", "charge(amount > 100)=allow", tenant="acme"), HANDING, None)
    # The request's own run keeps its exception through a handoff; a sub-agent does not get it.
    assert [each.explanation.ruling.behavior for each in small] == ["allow", "allow", "ask"]
