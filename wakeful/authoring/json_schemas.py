"""JSON schemas that people write: whether they are valid, and whether a value matches one of them.

The jsonschema library checks all keywords, which `contract/schemas.py` does not. It takes the values of models, so what
it does in quadratic time or worse is replaced here: patterns, which Python's engine would match, and `uniqueItems`.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from pydantic import JsonValue

from wakeful.contract.schema_patterns import MAX_WORK, PatternSearch, unusable_patterns
from wakeful.contract.schemas import whole_numbers

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


def schema_problem(schema: Any) -> str | None:
    """What is wrong with a schema that a person has written; None if nothing is."""
    try:
        # Without formats: whether a pattern is one, the engine that matches it says.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        return error.message
    return next(unusable_patterns(schema), None)


def value_problem(value: JsonValue, schema: Any) -> ValidationError | None:
    """Why the value does not match the schema; None if it does. Patterns that cannot be checked are ignored."""
    search = PatternSearch(linear=True)
    keywords: dict[str, Keyword] = {
        "pattern": _pattern(search),
        "patternProperties": _pattern_properties(search),
        "additionalProperties": _additional_properties(search),
        "unevaluatedProperties": _unevaluated_properties(schema),
        "uniqueItems": _unique_items,
    }
    validator = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]  # the library's
    found: ValidationError | None = best_match(validator(schema).iter_errors(value))
    if found is None and search.work > MAX_WORK:
        return ValidationError("it is too long for the patterns of its schema to be checked")
    return found


def _pattern(search: PatternSearch) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(value, "string") and search.matches(wanted, value) is False:
            yield ValidationError(f"{value!r} does not match {wanted!r}")

    return check


def _pattern_properties(search: PatternSearch) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(value, "object"):
            for pattern, below in wanted.items():
                for name in filter(lambda name: search.matches(pattern, name), value):  # used at once
                    yield from validator.descend(value[name], below, path=name, schema_path=pattern)

    return check


def _additional_properties(search: PatternSearch) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(value, "object"):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        # What a pattern that cannot be checked may name is not additional.
        more = [
            name
            for name in value
            if name not in known and all(search.matches(pattern, name) is False for pattern in patterns)
        ]
        if wanted is False and more:
            names = ", ".join(map(repr, more))
            yield ValidationError(f"Additional properties are not allowed: {names}")
        elif wanted is not False:
            for name in more:
                yield from validator.descend(value[name], wanted, path=name)

    return check


def _unevaluated_properties(root: Any) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        # The library asks Python's engine which names the patterns evaluate.
        if '"patternProperties"' not in json.dumps(root):
            yield from Draft202012Validator.VALIDATORS["unevaluatedProperties"](validator, wanted, value, schema)

    return check


def _unique_items(validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and validator.is_type(value, "array"):
        texts = {json.dumps(whole_numbers(item), sort_keys=True) for item in value}
        if len(texts) < len(value):
            yield ValidationError("it has items that are alike")
