"""Tools, gates and instructions that are methods of a class."""

import inspect
from dataclasses import dataclass
from types import MethodType
from typing import Any

import pytest
from pydantic import ValidationError

from wakeful import Agent, ConfigurationError, GateCall, InstructionsContext, Registry, ToolContext, gate, tool
from wakeful.contract.runs import RunIdentity

CONTEXT: ToolContext = ToolContext(
    identity=RunIdentity(thread_id="t", run_id="r", agent_id="a"),
    call_id="1-1",
    tool_name="find",
    arguments={},
    idempotency_key="k",
)


@dataclass
class Desk:
    orders: dict[str, str]

    @tool(read_only=True)
    def find(self, order: str, ctx: ToolContext = CONTEXT, *, short: bool = False) -> str:
        """Find an order.

        Args:
            order: its number.
        """
        return self.orders[order][: 1 if short else None]

    @tool
    async def ship(self, order: str) -> str:
        """Ship an order."""
        self.orders[order] = "shipped"
        return "done"

    @staticmethod
    @tool
    def currency(country: str) -> str:
        """The currency of a country."""
        return f"{country} dollar"

    @tool
    @staticmethod
    def country(city: str) -> str:
        """The country of a city."""
        return f"of {city}"

    @tool
    @classmethod
    def kind(cls, order: str) -> str:
        """The kind of an order."""
        return f"{cls.__name__} {order}"

    @gate
    def check(self, call: GateCall) -> None:
        assert call.tool_name in self.orders

    def instructions(self, ctx: InstructionsContext) -> str:
        """Written at the desk."""
        return f"{len(self.orders)} orders"


DESK = Desk({"7": "packed"})


def test_a_bound_method_is_a_tool_without_self_in_its_schema() -> None:
    assert DESK.find.descriptor.parameters["properties"] == {
        "order": {"type": "string", "description": "its number."},
        "short": {"type": "boolean", "default": False},
    }
    assert (DESK.find.name, DESK.find.context_parameter, DESK.ship.is_async) == ("find", "ctx", True)
    assert DESK.find("7", short=True) == "p"


async def test_each_instance_has_tools_of_its_own() -> None:
    other = Desk({"8": "new"})
    await other.ship("8")
    assert (other.orders, DESK.orders) == ({"8": "shipped"}, {"7": "packed"})


def test_a_tool_keeps_the_name_the_documentation_and_the_signature_of_its_function() -> None:
    assert [str(inspect.signature(each)) for each in (DESK.ship, Desk.ship)] == [
        "(order: str) -> str",
        "(self, order: str) -> str",
    ]
    assert (DESK.ship.__name__, DESK.ship.__doc__) == ("ship", "Ship an order.")  # type: ignore[attr-defined]
    assert inspect.getdoc(DESK.ship) == "Ship an order."


def test_static_and_class_methods_are_tools_of_their_class() -> None:
    assert [Desk.currency("US"), DESK.currency("US"), DESK.country("Rome")] == ["US dollar", "US dollar", "of Rome"]
    bound: Any = Desk.kind  # type checkers do not bind what is above @classmethod
    assert bound(order="7") == "Desk 7"
    Agent(id="a", tools=[Desk.currency, Desk.country, Desk.kind])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"tools": [Desk.find]},
            r"tool 'find' is a method of Desk that is not bound .* pass Desk\(…\).find",
        ),
        ({"gates": [Desk.check]}, r"gate 'check' is a method of Desk that is not bound .* pass Desk\(…\).check"),
    ],
)
def test_an_unbound_method_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Agent(id="a", **given)
    with pytest.raises(ConfigurationError, match=problem):
        Registry(agents=[Agent(id="a")], **given)


def test_a_tool_below_classmethod_is_refused_with_the_right_order() -> None:
    """From Python 3.13 on, `@classmethod` makes a plain method of what it decorates."""
    made: Any = MethodType(Desk.kind, Desk)
    with pytest.raises(ValidationError, match="tool 'kind' is a class method: write @tool above @classmethod"):
        Agent(id="a", tools=[made])


def test_agents_share_the_methods_of_one_instance_and_not_those_of_two() -> None:
    """A method is bound anew whenever it is read."""
    shared = [Agent(id=id, tools=[DESK.find], gates=[DESK.check], instructions=DESK.instructions) for id in ("a", "b")]
    registry = Registry(agents=shared)
    assert registry.tool("find") == DESK.find
    assert registry.resolve("a").gates == ("check",)
    twice = [*shared, Agent(id="c", tools=[Desk({}).find], gates=[Desk({}).check])]
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=twice)
    assert sorted(error.value.problems) == [
        "gate 'check' is registered twice, as two different functions",
        "tool 'find' is registered twice, as two different functions",
    ]
