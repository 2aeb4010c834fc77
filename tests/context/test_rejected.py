"""Content that a provider rejects is left out of requests, from little to much, and stays left out."""

from tests.context.conversations import assistant, result, system, user
from wakeful.context.rejected import MESSAGE_NOTE, reductions, without, without_rejected
from wakeful.contract.messages import ImageBlock, LeftOut, Message, TextBlock, UrlSource

PICTURE = ImageBlock(source=UrlSource(url="https://example.com/p.png"))


def with_picture(message: Message) -> Message:
    return message.model_copy(update={"content": (*message.content, PICTURE)})


def answered_without(message: Message, left: tuple[LeftOut, ...]) -> Message:
    return message.model_copy(update={"left_out": left})


def test_media_are_left_out_first_and_the_text_beside_them_stays() -> None:
    said = [user("u0", "Hello."), assistant("a0", "Hi."), with_picture(user("u1", "What is this?"))]
    [left] = reductions(said)
    sent = without(said, left)
    assert sent[:2] == tuple(said[:2])
    question, note = sent[2].content
    assert question == TextBlock(text="What is this?")
    assert isinstance(note, TextBlock)
    assert note.text.startswith("[A block of type 'image' was left out: the provider rejected it.")


def test_a_picture_that_was_answered_is_left_out_only_after_the_new_ones() -> None:
    said = [with_picture(user("u0", "Look.")), assistant("a0", "Nice."), with_picture(user("u1", "And this?"))]
    new, media = reductions(said)
    assert (len(new), len(media)) == (1, 2)
    assert without(said, new)[:2] == tuple(said[:2])


def test_then_every_message_that_no_answer_has_accepted_except_what_the_user_said_last() -> None:
    said = [user("u0", "fine"), assistant("a0"), user("u1", "awful"), system("s"), user("u2", "Are you there?")]
    [left] = reductions(said)
    assert [message.text for message in without(said, left)] == [*("fine", "", MESSAGE_NOTE, "", "Are you there?")]


def test_results_of_tools_are_left_out_so_that_the_run_can_continue() -> None:
    said = [user("u0", "Look."), assistant("a0", calls=["1-1"]), result("1-1", "awful")]
    [left] = reductions(said)
    assert left == (LeftOut(content="1-1"),)
    assert [message.text for message in without(said, left)] == ["Look.", "", MESSAGE_NOTE]


def test_both_are_tried_in_this_order() -> None:
    said = [with_picture(user("u0", "Look at this.")), user("u1", "Well?")]
    media, both = reductions(said)
    assert [each.media_only for each in media] == [True]
    assert [message.text for message in without(said, both)] == [MESSAGE_NOTE, "Well?"]


def test_the_only_message_of_the_user_is_never_left_out() -> None:
    assert list(reductions([user("u0", "awful")])) == []
    assert list(reductions([])) == []


def test_what_an_answer_had_to_do_without_stays_left_out() -> None:
    said = [user("u0", "awful"), user("u1", "Hello?")]
    [left] = reductions(said)
    later = [*said, answered_without(assistant("a1", "Yes?"), left), user("u2", "Good.")]
    assert [message.text for message in without_rejected(later)] == [MESSAGE_NOTE, "Hello?", "Yes?", "Good."]
    assert without_rejected(said) == tuple(said)
