"""A registry whose parts are not what they have to be: every problem at once, before anything is read."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, JsonValue

from wakeful import Agent, ConfigurationError, Plugin, Price, Registry, ScriptedModel, WakefulPlugin, say, tool
from wakeful.contract.schemas import mismatch
from wakeful.telemetry.pattern_warning import warn_of_patterns


class Audit(Plugin):
    id = "audit"


def plain() -> int:
    return 3


@tool
def stock() -> int:
    """How many pieces are in stock."""
    return 3


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one agent": ({"agents": Agent(id="a")}, "Registry(agents=…) should be a list, not Agent 'a': write agents=[…]"),
    "agents by id": ({"agents": {}}, "Registry(agents=…) should be a list, not a dict: write agents=[…]"),
    "ids": ({"agents": ["buyer"]}, "agents[0] should be an Agent, not 'buyer'"),
    "one path": ({"agent_files": "agents.toml"}, "Registry(agent_files=…) should be a list, not 'agents.toml'"),
    "no path": ({"agent_files": [3]}, "agent_files[0] should be a path, not 3"),
    "a function": ({"tools": [stock, plain]}, "tools[1]: 'plain' is a plain function: decorate it with @tool"),
    "a gate's function": ({"gates": [plain]}, "gates[0]: 'plain' is a plain function: decorate it with @gate"),
    "a class": ({"plugins": [Audit]}, "plugins[0]: 'Audit' is a class: pass an instance, Audit()"),
    "no class of plugins": ({"plugins": [Agent]}, "plugins[0] should be a Plugin, not the class 'Agent'"),
    "a list of models": ({"models": ["openai/gpt-5"]}, "Registry(models=…) should be a dict by the id of the model"),
    "a model": ({"models": {"default": 42}}, "models['default'] should be 'provider/name', or a provider, not 42"),
    "a provider": ({"providers": {"x": 42}}, "providers['x'] should be a provider, not 42"),
    "a price": ({"prices": {"default": 3}}, "prices['default'] should be a Price, not 3: write Price(input=…"),
    "a queue": ({"inference_queues": {"default": 3}}, "inference_queues['default'] should be the name of a task queue"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_part_of_another_type_is_a_problem(wrong: str) -> None:
    parts, problem = WRONG[wrong]
    with pytest.raises(ConfigurationError) as raised:
        Registry(**parts)
    assert problem in str(raised.value)


def test_all_of_them_are_listed_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Registry(agents="buyer", models=[3], prices={"default": 1})  # type: ignore[arg-type, dict-item]
    assert len(raised.value.problems) == 3


def test_what_is_right_is_none() -> None:
    price = Price(input=1, output=2)
    models: dict[str, Any] = {"default": ScriptedModel(), "main": "openai/gpt-5"}
    registry = Registry(
        agents=(Agent(id="a"),), models=models, prices={"main": price}, inference_queues={"main": "gpu"}
    )
    assert registry.models["main"] == "openai/gpt-5"


def test_a_registry_is_what_a_plugin_takes() -> None:
    with pytest.raises(ConfigurationError, match=r"was given Agent 'a': write Registry\(agents=\[…\]\)$"):
        WakefulPlugin(Agent(id="a"))  # type: ignore[arg-type]


class Buyer(BaseModel):
    manager: "Buyer | None" = None
    name: Annotated[str, Field(json_schema_extra={"pattern": r"^(a)\1$"})]


@tool
def order(
    code: Annotated[str, Field(json_schema_extra={"pattern": r"^(?!x)\w+$"})],
    to: Annotated[str, Field(pattern="^[a-z]+$")],
    by: Buyer,
) -> str:
    """Order something."""
    return f"{code} {to} {by}"


def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused_to_the_person_who_writes_it() -> None:
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[Agent(id="a", model="m", tools=[order])], models={"m": ScriptedModel([say("done")])})
    first, *_, last = error.value.problems
    assert first.startswith("tool 'order': parameter 'code' has a pattern that is not supported: '^(?!x)\\\\w+$' ")
    assert last.startswith("tool 'order': a type of its parameters has a pattern that is not supported: '^(a)\\\\1$' ")
    assert all("write it without look-around and backreferences" in problem for problem in (first, last))


def test_a_pattern_that_a_program_brings_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    schemas: list[JsonValue] = [{"pattern": "(?=a)"}, {"properties": {"b": {"pattern": "^b+$"}}}]
    warn_of_patterns(schemas, server="files", tool="read")
    (record,) = caplog.records
    assert (record.message, vars(record)["server"], vars(record)["tool"]) == (
        "a pattern of a JSON schema is ignored",
        "files",
        "read",
    )
    assert vars(record)["problem"].startswith("'(?=a)' is not a regular expression: look-around")
    assert mismatch("b", schemas[0]) is None
