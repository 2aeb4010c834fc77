"""Context messages: one per key, placed by target, sent for as long and as often as they say."""

from dataclasses import replace

import pytest

from tests.context.conversations import assistant, ids, mark, system, user
from wakeful.context.compaction import summary_message
from wakeful.context.messages import ContextMessages, PlacedMessages, place
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


def context(*added: ContextMessage) -> ContextMessages:
    messages = ContextMessages()
    for message in added:
        messages = messages.upserting(message)
    return messages


def keys(messages: ContextMessages) -> list[str]:
    return [message.key for message in messages.messages]


def sent_at(messages: ContextMessages, *steps: int) -> list[int]:
    """The steps at which a message is sent."""
    sent = []
    for step in steps:
        emitted, messages = messages.emit(step)
        if emitted.messages:
            sent.append(step)
    return sent


def test_a_message_replaces_the_one_with_its_key() -> None:
    """B-480, B-484"""
    assert context(note("a", "old"), note("b"), note("a", "new")).messages == (note("a", "new"), note("b"))


def test_messages_are_sorted_by_target_priority_and_key() -> None:
    """B-480"""
    messages = context(
        note("z", target=SUFFIX, priority=-9),
        note("y", target=CONVERSATION),
        note("x", target=SESSION),
        note("c", priority=1),
        note("b"),
        note("a", priority=2),
        note("d", priority=-1),
    )
    emitted, _ = messages.emit(1)
    assert ids(emitted.messages) == [f"context:{key}" for key in ("d", "b", "c", "a", "x", "y", "z")]
    assert [len(part) for part in (emitted.system, emitted.session, emitted.conversation, emitted.suffix_system)] == [
        4,
        1,
        1,
        1,
    ]


def test_a_message_is_sent_with_its_role_content_and_visibility() -> None:
    """B-480"""
    message = ContextMessage(
        key="time", role=Role.USER, content=(TextBlock(text="It is noon."),), visibility=Visibility.ALL
    )
    shown = Message(id="context:time", role=Role.USER, content=message.content, visibility=Visibility.ALL)
    assert context(message).emit(1)[0] == PlacedMessages(system=(shown,))


def test_messages_are_placed_by_target_around_instructions_and_history() -> None:
    """B-481"""
    emitted, _ = context(*(note(target.value, target=target) for target in ContextTarget)).emit(1)
    instructions = [system("instructions")]
    history = [summary_message(mark(3)), system("s"), user("u1"), assistant("a1"), system("late"), user("u2")]
    assert ids(place(instructions, history, emitted)) == [
        *("instructions", "context:system"),
        *("summary:3", "s", "context:session", "context:conversation"),
        *("u1", "a1", "late", "u2", "context:suffix_system"),
    ]


def test_without_messages_the_request_is_instructions_and_history() -> None:
    """B-481"""
    assert place([], [user("u")], PlacedMessages()) == (user("u"),)
    assert ids(place([system("i")], [system("s")], PlacedMessages(session=(user("x"),)))) == ["i", "s", "x"]


def test_a_message_is_sent_once() -> None:
    """B-482"""
    assert sent_at(context(note("a", persistent=False)), 1, 2, 3) == [1]


def test_a_persistent_message_is_sent_until_it_is_removed() -> None:
    """B-482"""
    messages = context(note("a"))
    assert sent_at(messages, 1, 2, 3) == [1, 2, 3]
    assert sent_at(messages.removing("a"), 1, 2, 3) == []


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_that_is_consumed_is_sent_once(persistent: bool) -> None:
    """B-482"""
    assert sent_at(context(note("a", persistent=persistent, consume=True)), 1, 2) == [1]


def test_a_message_without_a_cooldown_is_sent_at_every_step() -> None:
    """B-483"""
    emitted, messages = context(note("a", cooldown=0)).emit(1)
    assert (len(emitted.messages), messages) == (1, context(note("a", cooldown=0)))


def test_an_unchanged_message_is_sent_again_after_its_cooldown() -> None:
    """B-483; awaken: throttle_skips_within_cooldown"""
    assert sent_at(context(note("a", cooldown=3)), *range(1, 9)) == [1, 4, 7]


def test_changed_content_is_sent_at_once() -> None:
    """B-483; awaken: throttle_bypassed_on_content_change"""
    _, messages = context(note("a", "old", cooldown=9)).emit(1)
    assert sent_at(messages.upserting(note("a", "new", cooldown=9)), 2, 3) == [2]
    assert sent_at(messages.upserting(note("a", "old", cooldown=9, priority=5)), 2, 3) == []


def test_the_cooldown_outlives_the_message() -> None:
    """B-483"""
    _, messages = context(note("a", cooldown=3, persistent=False)).emit(1)
    assert keys(messages) == []
    assert sent_at(messages.upserting(note("a", cooldown=3)), 2, 3, 4) == [4]


def test_a_message_for_one_request_does_not_wait_for_its_cooldown() -> None:
    """B-482, B-483"""
    once = note("a", cooldown=3, persistent=False)
    _, messages = context(once).emit(1)
    assert sent_at(messages.upserting(once), 2, 3, 4, 5) == []


def test_a_message_that_waits_for_its_cooldown_is_not_consumed_yet() -> None:
    """B-482, B-483"""
    _, messages = context(note("a", cooldown=3)).emit(1)
    assert sent_at(messages.upserting(note("a", cooldown=3, consume=True)), 2, 3, 4, 5) == [4]


def test_messages_are_removed_by_key_and_by_prefix() -> None:
    """B-484"""
    messages = context(note("a"), note("task:1"), note("task:2"))
    assert keys(messages.removing("a")) == ["task:1", "task:2"]
    assert keys(messages.removing_prefix("task:")) == ["a"]
    assert messages.removing("unknown") == messages.removing_prefix("unknown") == messages


def test_messages_for_one_request_can_be_removed_before_it() -> None:
    """B-484"""
    assert keys(context(note("a"), note("b", persistent=False)).removing_ephemeral()) == ["a"]


def test_messages_that_were_sent_are_consumed_unless_they_stay() -> None:
    """B-484"""
    messages = context(note("a"), note("b", consume=True), note("c", consume=True), note("d", persistent=False))
    assert keys(messages.consuming(["a", "b", "d"])) == ["a", "c"]


def test_nothing_is_left_after_a_clear() -> None:
    """B-484"""
    _, messages = context(note("a", cooldown=3)).emit(1)
    assert messages.cleared() == ContextMessages()


def test_every_change_returns_a_new_value() -> None:
    messages = context(note("a"), note("b", persistent=False, cooldown=2))
    before = replace(messages)
    for changed in (messages.upserting(note("c")), messages.removing("a"), messages.emit(1)[1], messages.cleared()):
        assert changed != messages
    assert messages == before
