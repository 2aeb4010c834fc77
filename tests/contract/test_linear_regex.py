"""Regular expressions that others write: their size is bounded from their text, before anything is compiled."""

import random
import time

import pytest
from pydantic_core import SchemaError, SchemaValidator, core_schema

from wakeful.contract import linear_regex
from wakeful.contract.linear_regex import (
    MAX_POSITIONS,
    MAX_WEIGHT,
    LacksPattern,
    check_pattern,
    compiling_cost,
    cost,
    is_match,
    size,
)

USUAL = (
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$",
    r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}\.[A-Za-z]{2,24}$",
    r"^(?i:https?)://[^\s/$.?#].[^\s]*$",
    r"^\w{1,64}$",
    r"[[:alpha:]]+[^]a-]\p{Greek}?\x{10ffff}?",
    "(?x) ^ a{2} # two )\n $",
)


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_fit(pattern: str) -> None:
    check_pattern(pattern)
    assert cost(pattern, "x" * 1_000) < 1_000_000


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:[a-z]{0,99}){0,99}",
        "a{99}{99}",
        r"\w{500}",
        "(?:(?:(?:a|b){9}){9}){99}",
        "(?x)(?:a{99} # )\n){99}",
        "(?:[)]a{99}){99}",
        "(?:[]a)]a{99}){99}",
        r"(?:[\])]a{99}){99}",
        "(?:[[)]]a{99}){99}",
        "a" * 20_000,
        "(?: a{ 99 , } ){9999999999999}",
    ],
)
def test_patterns_that_are_too_large_are_refused_before_they_are_compiled(pattern: str) -> None:
    with pytest.raises(LacksPattern, match=r"is too large: .* use smaller counts"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "(?!a)b", "(", "a)", "[", "[a", "\ud83d", "(?P<a"])
def test_what_the_engine_lacks_is_refused(pattern: str) -> None:
    with pytest.raises(LacksPattern, match="is not a regular expression"):
        is_match(pattern, "a")
    assert compiling_cost(pattern) > 0


def test_patterns_stay_compiled_while_they_are_not_too_large_together() -> None:
    first, *others = [rf"\w{{190}}{number}" for number in range(20)]
    compiled = linear_regex._compiled(first)
    for pattern in others[:10]:
        linear_regex._compiled(pattern)
    assert linear_regex._compiled(first) is compiled
    for pattern in (*others, *others):
        linear_regex._compiled(pattern)
    assert linear_regex._compiled(first) is not compiled


def test_a_lone_surrogate_in_the_text_is_searched_as_a_replacement() -> None:
    assert is_match("a.b", "a\ud83db")
    assert cost("ä", "ä") == 4 * cost("ä", "a")


def test_the_size_is_never_less_than_what_the_engine_compiles() -> None:
    """A pattern that fits by its text is never one that the engine refuses as too large, which has ten megabytes."""
    chance = random.Random(7)
    parts = ("a", "é", ".", r"\w", r"\d", r"\PL", "[a-z]", "[^x]", "[[a-c]x]", r"[\w--a]", r"\x{61}", "|", "^", r"\b")

    def grown(depth: int) -> str:
        made = "".join(
            f"({grown(depth - 1)})" if depth and chance.random() < 0.4 else chance.choice(parts)
            for _ in range(chance.randrange(1, 4))
        )
        return made if chance.random() < 0.4 or made in ("|", "^") else f"(?:{made}){chance.choice(COUNTS)}"

    fitting = 0
    for _ in range(300):
        pattern = grown(3)
        positions, weight = size(pattern)
        if positions <= MAX_POSITIONS and weight <= MAX_WEIGHT:
            fitting += 1
            problem = ""
            try:
                SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
            except SchemaError as error:
                problem = str(error)
            assert "size limit" not in problem, pattern
    assert fitting > 100


COUNTS = ("*", "+", "?", "{3}", "{0,7}", "{20}", "{2,90}", "{5,}", "{40}{3}")


def test_the_time_of_a_search_is_within_its_cost() -> None:
    chance = random.Random(1)
    text = "".join(chance.choice("ab") for _ in range(8_000))
    for pattern in ("[ab]*a[ab]{90}!", "(?s)a.{150}!", "(?:[a-z]{0,9}){0,20}!", r"(?:\w|a){20}!"):
        check_pattern(pattern)
        began = time.thread_time()
        assert not is_match(pattern, text)
        assert time.thread_time() - began < 0.05 + cost(pattern, text) * 350e-9  # ten times what it takes
