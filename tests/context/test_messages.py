"""Context messages: kept by key, shown in order at their places, for as long and as often as they say."""

from dataclasses import replace

import pytest

from tests.context.talking import assistant, ids, mark, system, user
from wakeful.context.compaction import summary_message
from wakeful.context.messages import ContextMessages, Emitted, place
from wakeful.contract.context import ContextMessage, ContextTarget
from wakeful.contract.messages import Message, Role, TextBlock, Visibility

SYSTEM, SESSION, CONVERSATION, SUFFIX = ContextTarget


def note(
    key: str,
    text: str = "",
    *,
    target: ContextTarget = SYSTEM,
    cooldown: int = 0,
    persistent: bool = True,
    consume: bool = False,
    priority: int = 0,
) -> ContextMessage:
    return ContextMessage(
        key=key,
        content=(TextBlock(text=text or key),),
        target=target,
        cooldown_turns=cooldown,
        persistent=persistent,
        consume_after_emit=consume,
        priority=priority,
    )


def holding(*messages: ContextMessage) -> ContextMessages:
    kept = ContextMessages()
    for message in messages:
        kept = kept.upserting(message)
    return kept


def keys(kept: ContextMessages) -> list[str]:
    return [message.key for message in kept.messages]


def shown_at(kept: ContextMessages, *steps: int) -> list[int]:
    """The steps at which anything is shown."""
    shown = []
    for step in steps:
        emitted, kept = kept.emit(step)
        if emitted.messages:
            shown.append(step)
    return shown


def test_a_message_replaces_the_one_with_its_key() -> None:
    """B-480, B-484"""
    assert holding(note("a", "old"), note("b"), note("a", "new")).messages == (note("a", "new"), note("b"))


def test_messages_are_shown_by_place_priority_and_key_in_whatever_order_they_came() -> None:
    """B-480"""
    kept = holding(
        note("z", target=SUFFIX, priority=-9),
        note("y", target=CONVERSATION),
        note("x", target=SESSION),
        note("c", priority=1),
        note("b"),
        note("a", priority=2),
        note("d", priority=-1),
    )
    emitted, _ = kept.emit(1)
    assert ids(emitted.messages) == [f"context:{key}" for key in ("d", "b", "c", "a", "x", "y", "z")]
    assert [len(part) for part in (emitted.system, emitted.session, emitted.conversation, emitted.suffix_system)] == [
        4,
        1,
        1,
        1,
    ]


def test_a_message_is_shown_with_its_role_content_and_visibility() -> None:
    """B-480"""
    message = ContextMessage(
        key="time", role=Role.USER, content=(TextBlock(text="It is noon."),), visibility=Visibility.ALL
    )
    shown = Message(id="context:time", role=Role.USER, content=message.content, visibility=Visibility.ALL)
    assert holding(message).emit(1)[0] == Emitted(system=(shown,))


def test_messages_stand_at_their_places_around_instructions_and_history() -> None:
    """B-481"""
    emitted, _ = holding(*(note(target.value, target=target) for target in ContextTarget)).emit(1)
    instructions = [system("instructions")]
    history = [summary_message(mark(3)), system("s"), user("u1"), assistant("a1"), system("late"), user("u2")]
    assert ids(place(instructions, history, emitted)) == [
        *("instructions", "context:system"),
        *("summary:3", "s", "context:session", "context:conversation"),
        *("u1", "a1", "late", "u2", "context:suffix_system"),
    ]


def test_without_messages_the_request_is_instructions_and_history() -> None:
    """B-481"""
    assert place([], [user("u")], Emitted()) == (user("u"),)
    assert ids(place([system("i")], [system("s")], Emitted(session=(user("x"),)))) == ["i", "s", "x"]


def test_a_message_is_shown_once_and_forgotten() -> None:
    """B-482"""
    assert shown_at(holding(note("a", persistent=False)), 1, 2, 3) == [1]


def test_a_persistent_message_is_shown_until_it_is_removed() -> None:
    """B-482"""
    kept = holding(note("a"))
    assert shown_at(kept, 1, 2, 3) == [1, 2, 3]
    assert shown_at(kept.removing("a"), 1, 2, 3) == []


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_that_is_consumed_is_shown_once(persistent: bool) -> None:
    """B-482"""
    assert shown_at(holding(note("a", persistent=persistent, consume=True)), 1, 2) == [1]


def test_a_message_without_a_cooldown_is_shown_at_every_step() -> None:
    """B-483"""
    emitted, kept = holding(note("a", cooldown=0)).emit(1)
    assert (len(emitted.messages), kept) == (1, holding(note("a", cooldown=0)))


def test_an_unchanged_message_is_shown_again_after_its_cooldown() -> None:
    """B-483"""
    assert shown_at(holding(note("a", cooldown=3)), *range(1, 9)) == [1, 4, 7]


def test_changed_content_is_shown_at_once() -> None:
    """B-483"""
    _, kept = holding(note("a", "old", cooldown=9)).emit(1)
    assert shown_at(kept.upserting(note("a", "new", cooldown=9)), 2, 3) == [2]
    assert shown_at(kept.upserting(note("a", "old", cooldown=9, priority=5)), 2, 3) == []


def test_the_throttle_remembers_a_message_that_is_gone() -> None:
    """B-483"""
    _, kept = holding(note("a", cooldown=3, persistent=False)).emit(1)
    assert keys(kept) == []
    assert shown_at(kept.upserting(note("a", cooldown=3)), 2, 3, 4) == [4]


def test_a_message_for_one_request_does_not_wait_for_its_cooldown() -> None:
    """B-482, B-483"""
    once = note("a", cooldown=3, persistent=False)
    _, kept = holding(once).emit(1)
    assert shown_at(kept.upserting(once), 2, 3, 4, 5) == []


def test_a_message_that_waits_for_its_cooldown_is_not_consumed_yet() -> None:
    """B-482, B-483"""
    _, kept = holding(note("a", cooldown=3)).emit(1)
    assert shown_at(kept.upserting(note("a", cooldown=3, consume=True)), 2, 3, 4, 5) == [4]


def test_messages_are_removed_by_key_and_by_the_beginning_of_it() -> None:
    """B-484"""
    kept = holding(note("a"), note("task:1"), note("task:2"))
    assert keys(kept.removing("a")) == ["task:1", "task:2"]
    assert keys(kept.removing_prefix("task:")) == ["a"]
    assert kept.removing("unknown") == kept.removing_prefix("unknown") == kept


def test_what_is_meant_for_one_request_can_be_removed_before_it() -> None:
    """B-484"""
    assert keys(holding(note("a"), note("b", persistent=False)).removing_ephemeral()) == ["a"]


def test_what_was_shown_is_consumed_unless_it_stays() -> None:
    """B-484"""
    kept = holding(note("a"), note("b", consume=True), note("c", consume=True), note("d", persistent=False))
    assert keys(kept.consuming(["a", "b", "d"])) == ["a", "c"]


def test_nothing_is_left_after_a_clear() -> None:
    """B-484"""
    _, kept = holding(note("a", cooldown=3)).emit(1)
    assert kept.cleared() == ContextMessages()


def test_every_change_makes_a_new_value() -> None:
    kept = holding(note("a"), note("b", persistent=False, cooldown=2))
    before = replace(kept)
    for changed in (kept.upserting(note("c")), kept.removing("a"), kept.emit(1)[1], kept.cleared()):
        assert changed != kept
    assert kept == before
