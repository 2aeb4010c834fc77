"""What a misspelt name was probably meant to be."""

from enum import StrEnum

import pytest

from wakeful.contract.suggestions import did_you_mean, nearest, option_problem, registered


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("intructions", ["id", "instructions"], "instructions"),
        ("BUYER", ["buyer"], "buyer"),
        ("gren", Colour, "green"),
        ("zzz", ["buyer"], None),
        ("buyer", [], None),
    ],
)
def test_the_nearest_name_is_the_most_similar_one(name: str, known: list[str], near: str | None) -> None:
    assert nearest(name, known) == near
    assert did_you_mean(name, known) == ("" if near is None else f"; did you mean '{near}'?")


def test_a_higher_similarity_asks_for_more() -> None:
    assert nearest("buy", ["buyer"]) == "buyer"
    assert nearest("buy", ["buyer"], similarity=0.9) is None


def test_what_is_registered_is_listed_in_order() -> None:
    assert registered("buyr", ["seller", "buyer"]) == "registered: buyer, seller; did you mean 'buyer'?"
    assert registered("buyr", []) == "registered: none"


def test_a_value_that_is_no_option_is_a_problem() -> None:
    assert option_problem("colour", "red", Colour) is None
    assert (
        option_problem("colour", "gren", Colour)
        == "colour should be 'red' or 'green', not 'gren'; did you mean 'green'?"
    )
    assert option_problem("colour", None, Colour) == "colour should be 'red' or 'green', not None"
    meant = option_problem("colour", "stop", Colour, synonyms={"stop": "red"})
    assert meant == "colour should be 'red' or 'green', not 'stop'; did you mean 'red'?"
