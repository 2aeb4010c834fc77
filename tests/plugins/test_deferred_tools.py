"""Deferred tools: hidden until they are found, and again when they have not been used for a while."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.plugins.conftest import Serving
from tests.plugins.world import World
from tests.support.app import Recording
from wakeful import (
    Agent,
    Behavior,
    ConfigurationError,
    DeferredTools,
    PermissionPolicy,
    Registry,
    Rule,
    Tool,
    call,
    say,
    tool,
)
from wakeful.plugins.deferred_tools.search import search

PURPOSES = {
    "alert": "Wake the caretaker up.",
    "book_flight": "Book a flight to a city.",
    "book_hotel": "Book a room in a city.",
    "mail_send": "Send a mail.",
    "weather": "What the sky does in a city.",
}


def made(name: str, purpose: str) -> Tool:
    @tool(name=name, description=purpose, read_only=True)
    def done() -> str:
        return f"{name} done"

    return done


TOOLS = [made(name, purpose) for name, purpose in PURPOSES.items()]


def agent(settings: dict[str, Any] | None = None, **more: Any) -> Agent:
    return Agent(
        id="a",
        model="m",
        tools=TOOLS,
        plugins=[DeferredTools()],
        plugin_settings={"deferred_tools": {"keep": 2, **(settings or {})}},
        **more,
    )


def found(query: str, *, max_results: int = 5) -> list[str]:
    return [each.id for each in search([one.descriptor for one in TOOLS], query, max_results=max_results)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select:weather,nothing, alert", ["weather", "alert"]),
        ("mail", ["mail_send"]),
        ("city", ["book_flight", "book_hotel", "weather"]),
        ("city hotel", ["book_hotel", "book_flight", "weather"]),
        ("+book city", ["book_flight", "book_hotel"]),
        ("+book +room", ["book_hotel"]),
        ("+sky book", ["weather"]),
        ("BOOK", ["book_flight", "book_hotel"]),
        ("", []),
        ("+", []),
        ("submarine", []),
    ],
)
def test_tools_are_found_by_name_or_description(query: str, names: Sequence[str]) -> None:
    """B-860."""
    assert found(query) == names
    assert found(query, max_results=1) == (names if query.startswith("select:") else names[:1])


async def test_all_beyond_the_first_few_are_hidden_and_listed() -> None:
    world = World(agent())
    await world.infer()
    assert world.shown == ["alert", "book_flight", "tool_search"]
    text = world.request.messages[0].text
    assert text.startswith("<deferred_tools>\nbook_hotel, mail_send, weather\n</deferred_tools>\n")
    parts = ["you cannot call them yet", "call tool_search first", '"select:name,other_name"', "from your next step on"]
    assert [part for part in parts if part not in text] == []
    assert world.failures == []


def test_the_search_says_what_it_takes_and_returns() -> None:
    (search,) = DeferredTools().tools
    described = f"{search.descriptor.description} {search.descriptor.parameters}"
    parts = ["<deferred_tools>", "from your next step on", "try other keywords", "+ in front", "select:name,other_name"]
    assert [part for part in parts if part not in described] == []


async def test_the_first_matching_rule_decides_what_is_hidden() -> None:
    """B-860."""
    rules = [
        {"tool": "book_hotel", "mode": "eager"},
        {"tool": "book_*", "mode": "deferred"},
        {"tool": "/^w/", "mode": "eager"},
    ]
    world = World(agent({"rules": rules}))
    await world.infer()
    assert world.shown == ["alert", "book_hotel", "mail_send", "tool_search", "weather"]
    with pytest.raises(ConfigurationError, match="has arguments"):
        World(agent({"rules": [{"tool": "alert(x)", "mode": "eager"}]}))


async def test_an_agent_with_few_tools_has_no_search() -> None:
    world = World(agent({"keep": 5}))
    await world.infer()
    assert (world.shown, len(world.request.messages)) == (sorted(PURPOSES), 1)


async def test_a_denied_tool_is_not_found() -> None:
    """B-802, B-860; awaken: permission_exclude_wins_over_deferred_promote"""
    denied = Rule(tool="weather", behavior=Behavior.DENY)
    world = World(agent(permissions=PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(denied,))))
    await world.infer()
    assert "weather" not in world.request.messages[0].text
    outcome = await world.call_tool("tool_search", {"query": "select:weather"})
    assert outcome.result.data == {"tools": []}


async def test_a_found_tool_is_included_until_it_has_not_been_used_for_a_while() -> None:
    """B-860."""
    world = World(agent({"defer_after": 2}))
    await world.infer()
    outcome = await world.call_tool("tool_search", {"query": "select:weather,mail_send"})
    assert outcome.result.data == {
        "tools": [
            {"name": "weather", "description": PURPOSES["weather"]},
            {"name": "mail_send", "description": PURPOSES["mail_send"]},
        ]
    }
    seen = []
    for _ in range(4):
        await world.infer()
        seen.append([name for name in world.shown if name in ("mail_send", "weather")])
        if world.step == 3:
            assert (await world.call_tool("weather")).result.data == "weather done"
    assert seen == [["mail_send", "weather"], ["mail_send", "weather"], ["weather"], ["weather"]]
    assert world.values == {"deferred_tools.promoted": [{"tool": "weather", "step": 3}]}
    await world.infer()
    assert (world.shown, world.values) == (["alert", "book_flight", "tool_search"], {"deferred_tools.promoted": []})


async def test_a_hidden_tool_can_be_called() -> None:
    world = World(agent())
    assert (await world.call_tool("weather")).result.data == "weather done"
    await world.infer()
    assert "weather" in world.shown


async def test_a_search_with_invalid_arguments_is_an_error() -> None:
    world = World(agent())
    outcome = await world.call_tool("tool_search", {"question": "?"})
    assert (outcome.result.status, world.failures) == ("error", [])
    assert "query" in outcome.result.text


async def test_a_model_finds_a_tool_and_calls_it(serving: Serving, thread_id: str) -> None:
    turns = [call("tool_search", query="sky"), call("weather"), say("it says {result}")]
    model = Recording(turns)
    async with serving(Registry(agents=[agent()], models={"m": model})) as client:
        result = await client.run("a", "go", thread_id=thread_id)
    assert result.response == "it says weather done"
    assert ["weather" in {tool.id for tool in request.tools} for request in model.requests] == [False, True, True]
