"""The users of a thread, and what the search attribute shows of them. Pure."""

import json
from functools import reduce

import pytest

from wakeful.contract.limits import valid_name
from wakeful.contract.users import MAX_USERS, NO_USER, OTHERS, Users, parse_shown, shown_users

LIMIT = 1_500


def users(*names: str, more: bool = False) -> Users:
    return reduce(Users.adding, names, Users(more=more))


def test_each_user_is_known_once_in_the_order_of_first_writing() -> None:
    assert users("bob", "ann", "bob").adding(None) == Users(names=("bob", "ann"))


def test_beyond_the_limit_users_are_only_known_to_be_incomplete() -> None:
    full = users(*(f"u{number}" for number in range(MAX_USERS)))
    assert (full.adding("u0"), full.more) == (full, False)
    beyond = full.adding("ann")
    assert (beyond.names, beyond.more) == (full.names, True)
    assert beyond.adding("bob") is beyond


def test_users_of_a_thread_whose_first_ones_are_unknown_are_added_all_the_same() -> None:
    assert users("ann", more=True) == Users(names=("ann",), more=True)


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        (users(), [NO_USER]),
        (users("ann", "bob"), ["ann", "bob"]),
        (users("ann", more=True), ["ann", OTHERS]),
        (users(more=True), [OTHERS]),
    ],
)
def test_the_attribute_shows_names_and_whether_they_are_all(known: Users, shown: list[str]) -> None:
    assert shown_users(known, limit=LIMIT) == shown
    assert parse_shown(shown) == known


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f642"])
def test_names_that_do_not_fit_are_marked_as_missing(letter: str) -> None:
    known = users("ann", *(f"{number}{letter * 100}" for number in range(MAX_USERS)), "bob")
    shown = shown_users(known, limit=LIMIT)
    assert (shown[0], shown[-1]) == ("ann", OTHERS)
    assert sum(len(json.dumps(each)) for each in shown) <= LIMIT
    assert parse_shown(shown).more


@pytest.mark.parametrize("marker", [OTHERS, NO_USER])
def test_no_user_is_called_like_a_marker(marker: str) -> None:
    with pytest.raises(ValueError, match="no space at its ends"):
        valid_name(marker)
