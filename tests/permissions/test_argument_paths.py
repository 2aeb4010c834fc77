"""Whether the argument paths of a rule exist in the parameters of a tool."""

import pytest
from pydantic import JsonValue

from wakeful.contract.permissions import Behavior, Rule
from wakeful.permissions import argument_paths

PERSON: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "boss": {"$ref": "#/$defs/Person"}},
}
PAY: dict[str, JsonValue] = {
    "type": "object",
    "$defs": {"Person": PERSON, "a/b": PERSON, "loop": {"$ref": "#/$defs/loop"}},
    "additionalProperties": False,
    "anyOf": [{"required": ["to"]}, {"required": ["amount"]}],
    "properties": {
        "to": {"type": "string"},
        "amount": {"type": ["number", "null"]},
        "person": {"$ref": "#/$defs/Person"},
        "slashed": {"$ref": "#/$defs/a~1b"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}]},
        "both": {"allOf": [PERSON, {"properties": {"age": {}}}]},
        "people": {"type": "array", "items": PERSON},
        "pair": {"type": "array", "prefixItems": [PERSON, {"type": "string"}], "items": False},
        "bare": {"type": "array"},
        "free": {"type": "object"},
        "by_name": {"type": "object", "additionalProperties": PERSON},
        "pattern": {"type": "object", "properties": {"a": {}}, "patternProperties": {"^x": {}}},
        "more": {"properties": {"a": {"type": "string"}}, "additionalProperties": True},
        "any": {},
        "any_of_any": {"anyOf": [{"type": "string"}, {}]},
        "conditional": {"type": "object", "properties": {"a": {}}, "if": {}},
        "elsewhere": {"$ref": "https://example.org/schema"},
        "nowhere": {"$ref": "#/$defs/missing"},
        "never": {"allOf": [False], "type": "object", "properties": {"a": {}}},
        "loop": {"$ref": "#/$defs/loop"},
        "odd": {"type": "object", "properties": [], "anyOf": {}},
    },
}


def fit_problem(pattern: str, schemas: dict[str, JsonValue]) -> str | None:
    return argument_paths.fit_problem(Rule(tool=pattern, behavior=Behavior.DENY), schemas)


@pytest.mark.parametrize(
    "path",
    [
        *("to", "amount", "person", "person.name", "person.boss.boss.boss.name", "slashed.name", "maybe.name"),
        *("both.name", "both.age", "people[*].name", "people[7].boss.name", "pair[0].name", "pair[*].name", "pair[1]"),
        *("bare[*].x.y", "free.x.y[0]", "by_name.ann.name", "by_name.*.name", "pattern.zzz", "more.zzz.y", "any.x.y"),
        *("any_of_any.x", "conditional.x", "elsewhere.x", "nowhere.x", "*", "*.name", "person.*", "odd.x", "never.a"),
    ],
)
def test_a_path_that_a_call_may_have_is_no_problem(path: str) -> None:
    assert fit_problem(f'pay({path} = "x")', {"pay": PAY}) is None


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("too", "has no argument 'too'; it has: amount, any, "),
        ("too", "did you mean 'to'?"),
        ("amout", "did you mean 'amount'?"),
        ("to.name", "has no argument 'to.name'; there are no fields in 'to'"),
        ("to[*]", "has no argument 'to[*]'; there are no fields in 'to'"),
        ("person.nme", "has no argument 'person.nme'; it has: boss, name in 'person'; did you mean 'name'?"),
        ("person.boss.nme", "it has: boss, name in 'person.boss'"),
        ("maybe.nme", "it has: boss, name in 'maybe'"),
        ("people.name", "there are no fields in 'people'"),
        ("people[*].nme", "it has: boss, name in 'people[*]'"),
        ("pair[2]", "there are no fields in 'pair'"),
        ("pair[1].name", "there are no fields in 'pair[1]'"),
        ("by_name.ann.nme", "it has: boss, name in 'by_name.ann'"),
        ("never.b", "it has: a in 'never'"),
        ("loop.x", "there are no fields in 'loop'"),
        ("to.*", "there are no fields in 'to'"),
    ],
)
def test_a_path_that_no_call_can_have_is_a_problem(path: str, says: str) -> None:
    problem = fit_problem(f'pay({path} = "x")', {"pay": PAY})
    assert problem is not None
    assert problem.startswith(f"""permission rule 'pay({path} = "x")' matches no call: tool 'pay' has no argument """)
    assert says in problem


def test_every_condition_needs_its_path_and_those_on_the_run_need_none() -> None:
    assert fit_problem('pay($user = "x", $metadata.zzz = "y", to = "z")', {"pay": PAY}) is None
    assert fit_problem('pay(to = "z", zzz = "y")', {"pay": PAY}) is not None


@pytest.mark.parametrize("rule", ["pay", "pay(zzz *)", 'other(zzz = "x")'])
def test_a_rule_without_paths_or_for_another_tool_is_no_problem(rule: str) -> None:
    assert fit_problem(rule, {"pay": PAY}) is None


def test_a_glob_is_a_problem_if_no_tool_that_it_matches_has_the_path() -> None:
    tools: dict[str, JsonValue] = {"pay": PAY, "pay_person": PERSON, "find": {"properties": {"zzz": {}}}}
    assert fit_problem('pay*(name = "x")', tools) is None
    problem = fit_problem('pay*(zzz = "x")', tools)
    assert problem is not None
    assert problem.endswith(", and 1 more tools that it matches have no such path")


def test_a_schema_of_many_references_is_followed_in_little_time() -> None:
    """Each definition refers to the next one a hundred times: a walk of every way would never end."""
    definitions: dict[str, JsonValue] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"} for _ in range(100)]} for n in range(9)
    }
    schema: JsonValue = {"$defs": {**definitions, "d9": PERSON}, "$ref": "#/$defs/d0"}
    assert fit_problem('pay(name = "x")', {"pay": schema}) is None
    assert fit_problem('pay(zzz = "x")', {"pay": schema}) is not None


def test_a_schema_with_very_many_parts_is_taken_to_allow_any_path() -> None:
    schema: JsonValue = {"allOf": [{"type": "object", "properties": {f"n{n}": {}}} for n in range(2_000)]}
    assert fit_problem('pay(zzz = "x")', {"pay": schema}) is None


def test_a_problem_names_twenty_fields_and_is_never_as_long_as_the_schema_or_the_rule() -> None:
    def of(count: int) -> str:
        fields: JsonValue = {"properties": {f"n{n:02}": {} for n in range(count)}}
        return fit_problem('pay(zzz = "x")', {"pay": fields}) or ""

    named = ", ".join(f"n{n:02}" for n in range(20))
    assert of(20).endswith(f"it has: {named}")
    assert of(21).endswith(f"it has: {named}, …")
    assert of(60_000).endswith(f"it has: {named}, …")
    assert len(fit_problem(f'pay(zzz = "{"x" * 9_999}")', {"pay": {"properties": {}, "type": "object"}}) or "") < 1_001


TYPED: dict[str, JsonValue] = {
    "properties": {
        "amount": {"type": "number"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "price": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "to": {"type": "string"},
        "ok": {"type": ["boolean", "null"]},
        "kind": {"enum": ["a", "b"]},
        "any_kind": {"title": "Any", "properties": {}},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "never": {"type": "null"},
    },
    "$defs": {"row": {"type": "object", "properties": {"price": {"type": "number"}}}},
}


@pytest.mark.parametrize(
    "condition",
    [
        *("amount > 5", "count = 5", "price < 5", "kind in [1]", "rows[*].price >= 0.5", "any_kind > 1", "never > 1"),
        *('to in ["DE"]', 'to not in ["DE", 5]', 'price in ["x"]', "amount in [5]", "$metadata.level > 5"),
    ],
)
def test_a_number_or_a_list_that_fits_the_type_of_its_argument_is_no_problem(condition: str) -> None:
    assert fit_problem(f"pay({condition})", {"pay": TYPED}) is None


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("to > 5", "has an argument 'to' of type string, which is never compared with a number"),
        ("ok = 1", "has an argument 'ok' of type boolean, which is never compared with a number"),
        ('amount in ["5 EUR"]', "has an argument 'amount' of type number, which is never compared with a string"),
        ("rows != 5", "has an argument 'rows' of type array, which is never compared with a number"),
        ('rows in ["x", 5]', "which is never compared with a number or string"),
        ("amuont > 5", "has no argument 'amuont'; it has: amount, "),
    ],
)
def test_a_number_is_not_compared_with_an_argument_of_another_type(condition: str, says: str) -> None:
    problem = fit_problem(f"pay({condition})", {"pay": TYPED})
    assert problem is not None
    assert problem.startswith(f"permission rule {f'pay({condition})'!r} fits no call: tool 'pay' ")
    assert says in problem


def test_a_rule_that_would_restrict_every_call_of_a_tool_without_the_argument_is_a_problem() -> None:
    """Because an argument that is absent counts as a match; a rule that allows does not match such a call."""
    tools: dict[str, JsonValue] = {"pay": TYPED, "pay_all": {"properties": {"to": {"type": "string"}}}}
    assert fit_problem("pay*(amount > 5)", tools) == (
        "permission rule 'pay*(amount > 5)' also matches tool 'pay_all', which has no argument 'amount'; it has: to: "
        "the rule would deny all its calls; name the tools that have it"
    )
    assert fit_problem("pay*(amount > 5)", {"pay": TYPED, "pay_some": TYPED}) is None
    allowing = Rule(tool="pay*(amount > 5)", behavior=Behavior.ALLOW)
    assert argument_paths.fit_problem(allowing, tools) is None


def test_the_placeholders_of_a_message_are_arguments_of_every_tool_that_the_rule_fits() -> None:
    tools: dict[str, JsonValue] = {"pay": TYPED, "wire": PERSON}
    asking = Rule(
        tool='pay(to = "x")', behavior=Behavior.ASK, message="Pay {amount} to {to} for {$user}, {rows[*].price}?"
    )
    assert argument_paths.fit_problem(asking, tools) is None
    assert argument_paths.fit_problem(asking.model_copy(update={"tool": '*(to ~ "x")'}), tools) is None
    assert argument_paths.fit_problem(asking.model_copy(update={"tool": "*"}), tools) == (
        "permission rule '*': its message has {amount}, and tool 'wire' has no argument 'amount'; it has: boss, name"
    )
