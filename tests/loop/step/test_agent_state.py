"""Agent state: merges and conflicts, writes that apply as a whole, and the lifetime of each scope."""

import pytest
from pydantic import JsonValue

from tests.loop.children import BILLING
from tests.loop.driving import (
    COUNT,
    DRAFT,
    KEYS,
    NOTES,
    THREAD,
    VISITS,
    Driver,
    after_continue_as_new,
    asks,
    call,
    merge_op,
    ok,
    reset_op,
    says,
    set_op,
    state_effects,
    with_hooks,
)
from wakeful.contract.agents import ToolMode
from wakeful.contract.events import StateConflict, StateDelta, StateSnapshot
from wakeful.contract.hooks import HookEffects
from wakeful.contract.state import STATE_LIMIT, StateAction, StateKeySpec, StateMerge, StateOp, StateView, applied
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.views import carryover

LIMITS = {merge: StateKeySpec(key="k", merge=merge) for merge in StateMerge}


def written(values: AgentState, *ops: StateOp, base: int = 0) -> AgentState:
    after = values.writing(KEYS, ops, base=base, source="c1")
    assert isinstance(after, AgentState)
    return after


@pytest.mark.parametrize(
    ("merge", "before", "new", "after"),
    [
        (StateMerge.ADD, None, 2, 2),
        (StateMerge.ADD, 1, 2.5, 3.5),
        (StateMerge.APPEND, None, ["a"], ["a"]),
        (StateMerge.APPEND, ["a"], ["a", "b"], ["a", "a", "b"]),
        (StateMerge.UNION, None, ["a", "a"], ["a"]),
        (StateMerge.UNION, ["a", {"n": 1}], [{"n": 1}, "b"], ["a", {"n": 1}, "b"]),
        (StateMerge.MAX, None, "a", "a"),
        (StateMerge.MAX, 1, 2, 2),
        (StateMerge.MAX, "b", "a", "b"),
        (StateMerge.MIN, None, 1, 1),
        (StateMerge.MIN, 1, 2, 1),
        (StateMerge.MIN, "b", "a", "a"),
    ],
)
def test_a_value_is_merged_as_its_key_says(
    merge: StateMerge, before: JsonValue, new: JsonValue, after: JsonValue
) -> None:
    assert applied(LIMITS[merge], before, merge_op("k", new)) == after


@pytest.mark.parametrize(
    ("merge", "before", "new"),
    [
        (StateMerge.ADD, 1, "2"),
        (StateMerge.APPEND, ["a"], "b"),
        (StateMerge.UNION, "a", ["b"]),
        (StateMerge.MAX, 1, "a"),
        (StateMerge.MIN, None, [1]),
    ],
)
def test_a_value_of_the_wrong_type_is_not_merged(merge: StateMerge, before: JsonValue, new: JsonValue) -> None:
    with pytest.raises(ValueError, match=f"cannot be merged into key 'k' by {merge.value}"):
        applied(LIMITS[merge], before, merge_op("k", new))


def test_only_an_exclusive_key_is_set_and_only_another_is_merged() -> None:
    assert applied(DRAFT, "old", set_op("draft", {"n": 1})) == {"n": 1}
    with pytest.raises(ValueError, match="key 'draft' is merged by exclusive, so it cannot be merge"):
        applied(DRAFT, "old", merge_op("draft", 1))
    with pytest.raises(ValueError, match="key 'count' is merged by add, so it cannot be set"):
        applied(COUNT, 1, set_op("count", 1))


def test_a_key_starts_with_its_default_and_is_reset_to_it() -> None:
    spec = StateKeySpec(key="k", merge=StateMerge.ADD, default=10)
    assert applied(spec, None, merge_op("k", 1)) == 11
    assert applied(spec, 99, reset_op("k")) == 10


def test_the_writes_of_one_outcome_make_one_revision() -> None:
    """B-401, I-08"""
    values = written(
        AgentState(), merge_op("count", 1), merge_op("count", 2), set_op("draft", "a"), merge_op("visits", 1)
    )
    assert values.view == StateView(revision=1, values={"count": 3, "draft": "a", "visits": 1})
    assert (values.run, values.thread) == ({"count": 3, "draft": "a"}, {"visits": 1})
    assert written(values, merge_op("count", 1)).revision == 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (set_op("undeclared", 1), "the agent declares no such key"),
        (set_op("draft", "b"), "a concurrent write changed it"),
        (merge_op("count", "one"), "'one' cannot be merged into key 'count' by add"),
    ],
)
def test_writes_are_refused_as_a_whole(bad: StateOp, reason: str) -> None:
    """B-401, I-08"""
    values = written(AgentState(), set_op("draft", "a"))
    refused = values.writing(KEYS, (merge_op("count", 1), bad), base=0, source="c2")
    assert refused == StateConflict(key=bad.key, source="c2", reason=reason)


def test_a_write_based_on_the_last_write_of_an_exclusive_key_is_accepted() -> None:
    values = written(written(AgentState(), set_op("draft", "a")), merge_op("count", 1), base=0)
    assert written(values, set_op("draft", "b"), base=1).view == StateView(
        revision=3, values={"draft": "b", "count": 1}
    )


def test_twenty_parallel_tools_lose_nothing_and_are_merged_in_call_order() -> None:
    ids = [f"c{number}" for number in range(20)]
    driver = Driver(with_hooks().model_copy(update={"tool_mode": ToolMode.PARALLEL}))
    driver.model(asks(*(call(id) for id in ids)))
    for id in reversed(ids):
        driver.tool(id, ok(1), state_effects(merge_op("count", 1), merge_op("notes", [id])))
    assert driver.thread.agent_state.view == StateView(revision=20, values={"count": 20, "notes": [*ids]})
    assert driver.events_of("state_conflict") == []


def test_of_two_parallel_writers_of_an_exclusive_key_the_later_call_is_refused_as_a_whole() -> None:
    """B-223"""
    driver = Driver(with_hooks().model_copy(update={"tool_mode": ToolMode.PARALLEL}))
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c2", ok(1), state_effects(merge_op("count", 1), set_op("draft", "second")))
    driver.tool("c1", ok(1), state_effects(set_op("draft", "first")))
    assert driver.thread.agent_state.view == StateView(revision=1, values={"draft": "first"})
    assert driver.events_of("state_conflict") == [
        StateConflict(key="draft", source="c2", reason="a concurrent write changed it")
    ]


def test_a_call_sees_what_earlier_calls_have_written() -> None:
    driver = Driver(with_hooks())
    driver.model(asks(call("c1"), call("c2")))
    (first,) = driver.tool_commands("c1")
    driver.tool("c1", ok(1), state_effects(set_op("draft", "a")))
    (second,) = driver.tool_commands("c2")
    assert (first.state, second.state) == (StateView(), StateView(revision=1, values={"draft": "a"}))
    driver.tool("c2", ok(1), state_effects(set_op("draft", "b"), base=1))
    assert driver.thread.agent_state.view.values == {"draft": "b"}


def test_commands_of_an_agent_without_keys_and_hooks_have_no_state() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    assert (driver.inference().state, driver.tool_commands("c1")[0].state) == (None, None)


def test_watchers_see_the_state_before_the_step_ends_if_it_has_changed() -> None:
    """B-404"""
    driver = Driver(with_hooks())
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1), state_effects(merge_op("count", 1)))
    driver.model(says("Done."))
    shown = ["state_snapshot", "step_end", "step_start", "run_finish"]
    assert [kind for kind in driver.event_types if kind in shown] == [
        *("step_start", "state_snapshot", "step_end"),
        *("step_start", "step_end", "run_finish"),
    ]
    (snapshot,) = driver.events_of("state_snapshot")
    assert getattr(snapshot, "snapshot", None) == {"revision": 1, "extensions": {"count": 1}}


def thread_with_state() -> Driver:
    driver = Driver(with_hooks(), request=THREAD)
    driver.model(says("Hello!"), state_effects(merge_op("visits", 1), merge_op("count", 1), merge_op("notes", ["a"])))
    return driver


def test_the_state_of_a_run_ends_with_it_and_that_of_a_thread_does_not() -> None:
    """B-406, I-08"""
    driver = thread_with_state()
    assert driver.thread.agent_state.view.values == {"visits": 1, "count": 1, "notes": ["a"]}
    driver.submit("m2")
    assert driver.thread.agent_state.view.values == {"visits": 1}
    driver.resolve(with_hooks())
    driver.model(says("Hello again!"), state_effects(merge_op("visits", 1), base=driver.thread.agent_state.revision))
    assert driver.thread.agent_state.view.values == {"visits": 2}


def test_watchers_see_that_the_state_of_a_run_is_dropped() -> None:
    driver = thread_with_state()
    driver.submit("m2")
    driver.resolve(with_hooks())
    driver.model(says("Hello again!"))
    snapshots = [getattr(event, "snapshot", None) for event in driver.events_of("state_snapshot")]
    assert snapshots[1:] == [{"revision": 2, "extensions": {"visits": 1}}]


def test_watchers_see_the_changes_if_those_are_less_than_the_state() -> None:
    """B-404, B-700"""
    driver = Driver(with_hooks(), request=THREAD)
    long: list[JsonValue] = ["x" * 300]
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1), state_effects(merge_op("notes", long), merge_op("visits", 1)))
    driver.model(asks(call("c2")))
    driver.tool("c2", ok(1), state_effects(merge_op("visits", 1), merge_op("count", 1), base=1))
    shown = [event for event in driver.events if isinstance(event, StateSnapshot | StateDelta)]
    assert shown == [
        StateSnapshot(snapshot={"revision": 1, "extensions": {"notes": long, "visits": 1}}),
        StateDelta(
            delta=(
                {"op": "replace", "path": "/revision", "value": 2},
                {"op": "add", "path": "/extensions/count", "value": 1},
                {"op": "add", "path": "/extensions/visits", "value": 2},
            )
        ),
    ]
    assert after_continue_as_new(driver.thread).agent_state == driver.thread.agent_state


def test_keys_that_are_dropped_are_removed_if_watchers_know_them() -> None:
    """B-700"""
    state = AgentState(1, run={"draft": 1}, thread={"visits": 1}, emitted=1, changed={})
    written = state.writing(KEYS, (merge_op("count", 1),), base=1, source="c1")
    assert isinstance(written, AgentState)
    next_run = written.for_next_run()
    assert next_run.delta == (
        {"op": "replace", "path": "/revision", "value": 3},
        {"op": "remove", "path": "/extensions/draft"},
    )
    rolled_back = written.rolled_back(state)
    assert rolled_back.delta == (
        {"op": "replace", "path": "/revision", "value": 3},
        {"op": "add", "path": "/extensions/draft", "value": 1},
        {"op": "add", "path": "/extensions/visits", "value": 1},
    )


def test_a_run_that_wrote_only_the_threads_state_changes_nothing_by_its_end() -> None:
    driver = Driver(with_hooks(), request=THREAD)
    driver.model(says("Hello!"), state_effects(merge_op("visits", 1)))
    driver.submit("m2")
    assert driver.thread.agent_state.revision == 1


def test_values_of_an_agent_or_a_plugin_that_left_are_kept_for_one_that_declares_the_key_b408() -> None:
    driver = Driver(with_hooks(), request=THREAD)
    driver.model(asks(call("c1")), state_effects(merge_op("visits", 1), merge_op("count", 1)))
    driver.tool("c1", ok(1), HookEffects(handoff="billing"))
    driver.resolve(BILLING)
    assert dict(driver.thread.agent_state.view.values) == {"visits": 1, "count": 1}
    driver.model(says("Hello!"), state_effects(merge_op("visits", 1)))
    (conflict,) = driver.events_of("state_conflict")
    assert conflict == StateConflict(key="visits", source="infer-2", reason="the agent declares no such key")
    driver.submit("m1", agent_id="assistant")
    driver.resolve(with_hooks())
    driver.model(says("Hello!"), state_effects(merge_op("visits", 1), base=9))
    assert dict(driver.thread.agent_state.view.values) == {"visits": 2}


def test_state_survives_continue_as_new() -> None:
    state = thread_with_state().thread
    assert after_continue_as_new(state).agent_state == state.agent_state


def test_a_woken_thread_has_its_thread_state_and_not_the_state_of_its_last_run() -> None:
    """B-405, I-08"""
    kept = carryover(thread_with_state().thread)
    assert kept.state == {"visits": 1}
    woken = Driver(with_hooks(), carryover=kept)
    before = thread_with_state().thread.agent_state.revision
    assert woken.thread.agent_state.view == StateView(revision=before + 1, values={"visits": 1})
    woken.model(says("Hello!"), state_effects(merge_op("visits", 1), base=before + 1))
    assert woken.thread.agent_state.view == StateView(revision=before + 2, values={"visits": 2})


def test_the_state_keys_of_an_agent_are_bound_with_it() -> None:
    driver = Driver(with_hooks().model_copy(update={"state_keys": (NOTES, VISITS)}))
    driver.model(says("Hello!"), state_effects(merge_op("visits", 1), merge_op("count", 1)))
    assert driver.thread.agent_state == AgentState()
    assert driver.events_of("state_conflict") == [
        StateConflict(key="count", source="infer-1", reason="the agent declares no such key")
    ]


def test_state_has_a_size_limit() -> None:
    """Commands include the state; one that is too large for the server would leave the run stuck."""
    spec = StateKeySpec(key="k")
    refused = AgentState().writing(
        [spec], [StateOp(key="k", action=StateAction.SET, value="x" * STATE_LIMIT)], base=0, source="c1"
    )
    assert isinstance(refused, StateConflict)
    assert "at most 400,000 are allowed" in refused.reason


def test_a_sum_that_overflows_is_refused() -> None:
    spec = StateKeySpec(key="k", merge=StateMerge.ADD)
    with pytest.raises(ValueError, match="larger than a number can be"):
        applied(spec, 1e308, StateOp(key="k", action=StateAction.MERGE, value=1e308))


def test_a_union_of_many_values_is_fast_and_distinguishes_true_from_one() -> None:
    spec = StateKeySpec(key="k", merge=StateMerge.UNION)
    many: list[JsonValue] = [f"n{number}" for number in range(30_000)]
    assert applied(spec, many, StateOp(key="k", action=StateAction.MERGE, value=many)) == many
    assert applied(spec, [1], StateOp(key="k", action=StateAction.MERGE, value=[True, 1, "1"])) == [1, True, "1"]
