"""Pending decisions as forms, names of tools, and schemas of results. Nothing here needs a server."""

import sys
from typing import Any, cast

import jsonschema
import pytest
from pydantic import BaseModel, JsonValue

from wakeful import Agent, Client, ConfigurationError, DecisionAction, PendingDecision, Registry, ResumeMode
from wakeful.contract.errors import CallerError
from wakeful.mcp import app
from wakeful.mcp.questions import Answer, form, parse_form
from wakeful.mcp.results import output_schema
from wakeful.mcp.served import tool_names
from wakeful.registry.content import output_spec


def pending(**more: Any) -> PendingDecision:
    return PendingDecision(ticket="t/1-1", thread_id="t", path=("t",), call_id="1-1", tool_name="ask", **more)


def answered(result: JsonValue) -> Answer:
    return Answer(DecisionAction.RESUME, result=result)


def test_an_approval_is_an_empty_form() -> None:
    assert form(pending()) == {"type": "object", "properties": {}}
    assert parse_form(pending(), None) == Answer(DecisionAction.RESUME)
    assert parse_form(pending(), {"always": True}) == Answer(DecisionAction.RESUME)


def test_an_approval_that_can_be_remembered_asks_whether_to() -> None:
    asked = pending(remember="pay")
    assert [*form(asked)["properties"]] == ["always"]
    assert parse_form(asked, {"always": True}) == Answer(DecisionAction.RESUME, always=True)


@pytest.mark.parametrize(
    ("schema", "fields", "content", "result"),
    [
        (None, {"answer": {"type": "string"}}, {"answer": "yes"}, "yes"),
        ({"type": "integer", "minimum": 1}, {"answer": {"type": "integer", "minimum": 1}}, {"answer": 3}, 3),
        (
            {"type": "object", "properties": {"n": {"type": "string", "pattern": "^a"}}},
            {"n": {"type": "string"}},
            {"n": "abc"},
            {"n": "abc"},
        ),
        (
            {"type": "array", "items": {"type": "string"}},
            {
                "answer": {
                    "type": "string",
                    "description": 'JSON that matches this schema: {"type": "array", "items": {"type": "string"}}',
                }
            },
            {"answer": '["a"]'},
            ["a"],
        ),
        (
            {"type": "object", "properties": {"n": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            None,
            {"answer": '{"n": null}'},
            {"n": None},
        ),
        ({"type": "integer", "enum": [1, 2]}, None, {"answer": "2"}, 2),
    ],
)
def test_a_question_is_a_form_of_flat_fields_or_asks_for_json(
    schema: JsonValue, fields: dict[str, Any] | None, content: dict[str, Any], result: JsonValue
) -> None:
    asked = pending(response_schema=schema, resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)
    assert fields is None or form(asked)["properties"] == fields
    assert parse_form(asked, content) == answered(result)


def test_an_answer_that_is_no_json_says_so() -> None:
    with pytest.raises(CallerError, match="the answer is not JSON"):
        parse_form(pending(response_schema={"type": "array"}), {"answer": "red"})


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["writer", "data-analyst_2"], ["writer", "data-analyst_2"]),
        (["partner/weather"], ["partner_weather"]),
        (["a.b", "a_b", "a b"], ["a_b_2e7336dc", "a_b", "a_b_c8687a08"]),
        (["continue", "cancel"], ["continue_e256ee8e", "cancel_2374d917"]),
        (["é", "_x_"], ["agent_4a99557e", "_x_"]),
        (["x" * 70], [f"{'x' * 55}_c71bd109"]),
    ],
)
def test_a_tool_has_the_name_of_its_agent_in_a_safe_spelling(ids: list[str], names: list[str]) -> None:
    assert [*tool_names(ids).values()] == names


class Inner(BaseModel):
    n: int


class Outer(BaseModel):
    inner: Inner
    more: "Outer | None" = None


@pytest.mark.parametrize(
    ("output", "structured"),
    [
        (Inner, {"n": 1}),
        (Outer, {"inner": {"n": 1}, "more": {"inner": {"n": 2}, "more": None}}),
        (list[Inner], {"result": [{"n": 1}]}),
        (int | None, {"result": None}),
        (dict[str, int], {"a": 1}),
    ],
)
def test_a_schema_allows_the_answer_or_what_the_run_waits_for(output: Any, structured: JsonValue) -> None:
    spec = output_spec(Agent(id="a", output=output))
    assert spec is not None
    schema = output_schema(spec.json_schema)
    assert schema["type"] == "object"
    jsonschema.validate(structured, schema)
    jsonschema.validate({"waiting": {"thread_id": "t", "decisions": []}}, schema)
    refused: list[JsonValue] = [{"n": "x", "result": "x", "a": "x"}, {"waiting": {}}]
    for wrong in refused:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


@pytest.mark.parametrize(
    ("agents", "problem"), [(["nobody"], "agent not found: 'nobody'; registered: a"), ([], "no agent is named")]
)
def test_agents_that_are_not_there_are_refused(agents: list[str], problem: str) -> None:
    client = cast(Client, None)  # it is not called
    with pytest.raises(ConfigurationError, match=problem):
        app(client, registry=Registry(agents=[Agent(id="a")]), agents=agents)


def test_a_program_without_the_extra_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name == "mcp" or name.startswith(("mcp.", "wakeful.mcp.server"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'wakeful\[mcp\]'"):
        app(cast(Client, None), agents=["a"])
