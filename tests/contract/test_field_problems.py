"""What a person reads who has constructed a value with wrong fields."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from wakeful import Agent, ConfigurationError, MaxRounds, McpServer, Plugin
from wakeful.contract.base import Written
from wakeful.contract.budgets import Budget
from wakeful.contract.context import ContextPolicy
from wakeful.contract.errors import CallerError, InvalidValue, WakefulError
from wakeful.contract.field_problems import SHOWN_VALUE, shown
from wakeful.contract.messages import InputMessage
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.permissions import Rule
from wakeful.contract.remote import Endpoint, Secret
from wakeful.contract.requests import RunRequest, WithdrawRequest
from wakeful.contract.runs import Priority

WRONG: Mapping[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "misspelt": (Budget, {"token": 1}, "Budget: unknown field 'token'; did you mean 'tokens'?"),
    "in another case": (Budget, {"Tokens": 1}, "Budget: unknown field 'Tokens'; did you mean 'tokens'?"),
    "like no field of few": (
        Priority,
        {"key": 1},
        "Priority: unknown field 'key'; it has: priority_key, fairness_key, fairness_weight",
    ),
    "like no field of many": (ContextPolicy, {"zzz": 1}, "ContextPolicy: unknown field 'zzz'"),
    "inside": (Agent, {"id": "a", "budget": {"token": 1}}, "unknown field 'token' in budget; did you mean 'tokens'?"),
    "inside of a list": (
        Agent,
        {"id": "a", "stop_conditions": [{"type": "max_rounds", "round": 3}]},
        "Agent 'a': 'rounds' is missing in stop_conditions[0]\n"
        "Agent 'a': unknown field 'round' in stop_conditions[0]; did you mean 'rounds'?",
    ),
    "of another framework": (
        Agent,
        {"id": "a", "system_prompt": "Be brief.", "deps_type": dict, "output_type": int, "retries": 2},
        "Agent 'a': unknown field 'system_prompt'; write instructions=… instead\n"
        "Agent 'a': unknown field 'deps_type'; write Registry(lifespan=…) instead\n"
        "Agent 'a': unknown field 'output_type'; write output=… instead\n"
        "Agent 'a': unknown field 'retries'; write output_repairs=…, or @tool(retries=…), instead",
    ),
    "missing": (Agent, {"instructions": "Be brief."}, "Agent: 'id' is missing"),
    "misspelt and required": (
        RunRequest,
        {"agent": "buyer", "input": "x"},
        "RunRequest: 'agent_id' is missing\nRunRequest: unknown field 'agent'; did you mean 'agent_id'?",
    ),
    "of another type": (Budget, {"tokens": "many"}, "Budget: tokens should be an integer, not 'many'"),
    "out of range": (ModelSettings, {"top_p": 3}, "ModelSettings: top_p should be less than or equal to 1, not 3"),
    "no option": (
        ModelSettings,
        {"reasoning_effort": "hihg"},
        "reasoning_effort should be 'none', 'low', 'medium', 'high' or 'max', not 'hihg'; did you mean 'high'?",
    ),
    "a number instead of an option": (
        Rule,
        {"tool": "order", "behavior": 3},
        "behavior should be 'allow', 'ask' or 'deny', not 3",
    ),
    "a text instead of a list": (
        Agent,
        {"id": "a", "tools": "order"},
        "Agent 'a': tools should be a list, not 'order'",
    ),
    "a model instead of its fields": (Agent, {"id": "a", "budget": 5}, "Agent 'a': budget should be a Budget, not 5"),
    "in a list that may be a text": (
        InputMessage,
        {"content": [{"type": "text"}]},
        "InputMessage: 'text' is missing in content[0]",
    ),
    "no entry": (WithdrawRequest, {"message_ids": []}, "WithdrawRequest: message_ids should have at least one entry"),
    "of the whole": (
        McpServer,
        {"name": "shop"},
        "McpServer 'shop': give command, a program to start, or url, an endpoint",
    ),
    "an object with an id": (
        RunRequest,
        {"agent_id": Agent(id="buyer"), "input": "x"},
        "RunRequest: agent_id should be a string, not Agent 'buyer': pass its id, 'buyer'",
    ),
    "no JSON": (
        RunRequest,
        {"agent_id": "a", "input": "x", "metadata": {"a": {1}}},
        "metadata.a should be JSON: a str",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_message_names_the_field_and_what_was_meant(wrong: str) -> None:
    make, fields, message = WRONG[wrong]
    with pytest.raises(InvalidValue) as raised:
        make(**fields)
    assert message in str(raised.value)
    assert raised.value.problems == tuple(f"{raised.value.subject}: {each}" for each in raised.value.fields)


def test_fields_are_given_by_name() -> None:
    with pytest.raises(InvalidValue, match=r"^MaxRounds: it takes its fields by name, as in MaxRounds\(rounds=…\)$"):
        MaxRounds(3)  # type: ignore[call-arg, arg-type]
    with pytest.raises(InvalidValue, match=r"as in Budget\(name=…\)$"):
        Budget(3)  # type: ignore[call-arg]


def test_it_can_be_caught_by_who_is_at_fault_and_as_a_value_error() -> None:
    for kind in (ConfigurationError, CallerError, WakefulError, ValueError):
        with pytest.raises(kind, match="did you mean 'tokens'"):
            Budget(token=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (Endpoint, {"url": "https://example.com", "token": "canary-4711"}),
        (Endpoint, {"url": "https://example.com", "headers": {"X-Key": "canary-4711"}}),
        (McpServer, {"name": "shop", "url": "https://example.com", "token": "canary-4711"}),
    ],
)
def test_a_secret_that_is_given_by_mistake_is_not_shown(make: Callable[..., Any], fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="should be a Secret, not a str") as raised:
        make(**fields)
    assert "canary" not in str(raised.value)


def test_a_long_value_is_cut() -> None:
    assert shown("x" * 500) == f"'{'x' * (SHOWN_VALUE - 1)}…"
    assert (shown(Plugin), shown(Secret(env="A")), shown(None)) == ("the class 'Plugin'", "a Secret", "None")


class Team(BaseModel):
    """A model of another library with values of ours."""

    budget: Budget
    lead: Agent

    @field_validator("budget")
    @classmethod
    def _is_small(cls, budget: Budget) -> Budget:
        Budget(tokens=-(budget.tokens or 0))
        return budget


def test_inside_of_another_model_pydantic_collects_what_is_wrong() -> None:
    with pytest.raises(ValidationError) as raised:
        Team.model_validate({"budget": {"token": 1}, "lead": {"instructions": "x"}})
    assert [error["loc"] for error in raised.value.errors()] == [("budget", "token"), ("lead", "id")]
    with pytest.raises(ValidationError, match="Value error, Budget: tokens should be greater than or equal to 0"):
        Team.model_validate({"budget": {"tokens": 5}, "lead": {"id": "a"}})


def test_a_value_that_is_validated_is_checked_as_pydantic_does() -> None:
    with pytest.raises(ValidationError):
        Budget.model_validate({"token": 1})
    assert Budget.model_validate({"tokens": 1}) == Budget(tokens=1)


def test_every_written_model_is_constructed_by_pydantic_itself_inside_of_others() -> None:
    """Pydantic would call a constructor of ours for every value in history, which takes longer."""
    assert not Written.__pydantic_custom_init__
    assert not Agent.__pydantic_custom_init__
