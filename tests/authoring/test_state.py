"""State keys and the view that tools and hooks have of them."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from wakeful import ConfigurationError, State, StateKey, StateMerge, StateScope
from wakeful.contract.state import STATE_LIMIT, StateAction, StateKeySpec, StateOp, StateView


class Place(BaseModel):
    name: str
    visited: date


VISITS = StateKey("visits", int, merge="add", default=0)
NOTES = StateKey("notes", list[str], merge="append", default=[])
SEEN = StateKey("seen", set[str], merge="union", default=set())
BEST: StateKey[float | None] = StateKey("best", float | None, merge="max", default=None)
FIRST = StateKey("first", date, merge="min", default=date(9999, 1, 1))
HOME: StateKey[Place | None] = StateKey("home", Place | None, default=None, scope="thread")
KEYS = (VISITS, NOTES, SEEN, BEST, FIRST, HOME)


def state(**values: Any) -> State:
    return State(StateView(revision=7, values=values), [key.spec for key in KEYS], agent_id="a")


def test_a_key_is_bound_to_runs_by_its_spec() -> None:
    """B-400."""
    assert VISITS.spec == StateKeySpec(key="visits", merge=StateMerge.ADD, default=0)
    assert HOME.spec == StateKeySpec(key="home", scope=StateScope.THREAD)
    assert FIRST.spec.default == "9999-01-01"
    assert repr(HOME) == "StateKey('home', scope='thread', merge='exclusive')"


@pytest.mark.parametrize(
    ("type", "merge", "default", "problem"),
    [
        (str, "add", "", "state key 'k': merge 'add' needs int or float, not str"),
        (bool, "add", False, "needs int or float, not bool"),
        (set[int], "append", set(), "needs a list, not set[int]"),
        (dict[str, int], "union", {}, "needs a set or a list, not dict[str, int]"),
        (list[int], "max", [], "needs numbers, strings or dates, not list[int]"),
        (int | str, "min", 0, "needs numbers, strings or dates, not int | str"),
        (int, "exclusive", "many", "state key 'k': Input should be a valid integer"),
        (float, "add", float("inf"), "state key 'k': infinity and NaN are not JSON"),
        (object(), "exclusive", 1, "state key 'k': Unable to generate pydantic-core schema"),
    ],
)
def test_the_merge_and_the_default_must_match_the_type(type: Any, merge: Any, default: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        StateKey("k", type, merge=merge, default=default)
    assert problem in str(error.value)


def test_a_key_has_a_name() -> None:
    with pytest.raises(ConfigurationError, match="a state key has an empty name"):
        StateKey("", int, default=0)


def test_an_unwritten_key_has_its_default_which_readers_cannot_change() -> None:
    seen = state()
    seen.get(NOTES).append("mine")
    assert (seen.get(VISITS), seen.get(NOTES), seen.get(SEEN), seen.get(BEST)) == (0, [], set(), None)
    assert seen.operations == ()


def test_values_are_read_as_their_type() -> None:
    seen = state(home={"name": "Bonn", "visited": "2024-05-01"}, seen=["a", "b"], visits=3)
    assert seen.get(HOME) == Place(name="Bonn", visited=date(2024, 5, 1))
    assert (seen.get(SEEN), seen.get(VISITS), seen.base) == ({"a", "b"}, 3, 7)


def test_writes_are_read_back_and_recorded_as_operations() -> None:
    """B-403."""
    written = state(visits=3, notes=["a"], seen=["x"], best=2.5)
    written.add(VISITS, 2)
    written.append(NOTES, "b")
    written.union(SEEN, {"z", "y", "x"})
    written.max(BEST, 2.0)
    written.min(FIRST, date(2024, 5, 1))
    written.set(HOME, Place(name="Bonn", visited=date(2024, 5, 1)))
    written.reset(VISITS)
    merge = StateAction.MERGE
    assert written.operations == (
        StateOp(key="visits", action=merge, value=2),
        StateOp(key="notes", action=merge, value=["b"]),
        StateOp(key="seen", action=merge, value=["x", "y", "z"]),
        StateOp(key="best", action=merge, value=2.0),
        StateOp(key="first", action=merge, value="2024-05-01"),
        StateOp(key="home", action=StateAction.SET, value={"name": "Bonn", "visited": "2024-05-01"}),
        StateOp(key="visits", action=StateAction.RESET),
    )
    assert (written.get(VISITS), written.get(NOTES), written.get(SEEN)) == (0, ["a", "b"], {"x", "y", "z"})
    assert (written.get(BEST), written.get(FIRST)) == (2.5, date(2024, 5, 1))


def test_each_key_is_written_with_the_method_of_its_merge() -> None:
    wrongs: list[tuple[Callable[[Any], None], str]] = [
        (lambda s: s.set(VISITS, 1), "state.add(), not state.set()"),
        (lambda s: s.add(HOME, 1), "state key 'home' cannot hold 1"),
        (lambda s: s.union(NOTES, ["a"]), "state.append(), not state.union()"),
        (lambda s: s.max(FIRST, date.today()), "state.min(), not state.max()"),
        (lambda s: s.add(VISITS, "many"), "state key 'visits' cannot hold 'many': Input should be a valid integer"),
    ]
    for wrong, hint in wrongs:
        touched = state()
        with pytest.raises(ValueError) as error:
            wrong(touched)
        assert hint in str(error.value)
        assert touched.operations == ()


def test_an_undeclared_key_is_rejected_by_name() -> None:
    """B-402."""
    other = StateKey("other", int, default=0)
    with pytest.raises(ConfigurationError) as error:
        state().get(other)
    assert str(error.value) == (
        "agent 'a' does not declare state key 'other': add it to the `state` of the agent or of a plugin; "
        "declared: best, first, home, notes, seen, visits"
    )
    with pytest.raises(ConfigurationError, match="declared: none"):
        State().reset(other)


def test_the_key_that_the_run_is_bound_to_counts() -> None:
    bound = State(keys=[StateKeySpec(key="visits", merge=StateMerge.MAX, default=5)])
    assert bound.get(VISITS) == 5
    with pytest.raises(ValueError, match=r"has merge='max': write it with state.max\(\)"):
        bound.add(VISITS, 1)


def test_a_stored_value_of_another_type_is_rejected() -> None:
    with pytest.raises(ValueError, match="the stored value of state key 'visits' is not of its type"):
        state(visits=["a"]).get(VISITS)


def test_staged_writes_count_when_they_are_committed() -> None:
    whole = state(visits=1)
    whole.add(VISITS, 1)
    staged = whole.staged()
    staged.add(VISITS, 3)
    assert (staged.get(VISITS), whole.get(VISITS), staged.base) == (5, 2, 7)
    whole.commit(staged)
    assert whole.get(VISITS) == 5
    assert [operation.value for operation in whole.operations] == [1, 3]


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\ud800"]}, {"\udfff": 1}, float("inf"), [float("nan")]])
def test_values_that_json_cannot_represent_are_rejected(value: Any) -> None:
    anything = StateKey("anything", Any, default=None)
    view = State(None, [anything.spec])
    with pytest.raises(ValueError, match="state key 'anything' cannot hold"):
        view.set(anything, value)
    assert view.operations == ()


def test_a_write_that_would_make_the_state_too_large_is_rejected() -> None:
    notes = state(seen=["x" * (STATE_LIMIT - 1000)])
    notes.append(NOTES, "y" * 500)
    with pytest.raises(ValueError, match=r"'notes' cannot be written: the whole state would have 400,\d\d\d bytes"):
        notes.append(NOTES, "é" * 300)
    assert notes.get(NOTES) == ["y" * 500]
    assert len(notes.operations) == 1
    full = state(seen=["x" * STATE_LIMIT])
    full.reset(SEEN)
    full.append(NOTES, "there is room again")


@pytest.mark.parametrize("levels", [150, 5_000])
def test_a_value_that_is_nested_too_deeply_is_rejected(levels: int) -> None:
    value: Any = "leaf"
    for _ in range(levels):
        value = [value]
    with pytest.raises(ValueError, match=r"state key 'tree' cannot hold .{1,210}: ") as raised:
        StateKey("tree", Any, default=None).written(value)
    assert len(str(raised.value)) < 500
