"""The request view: what fits, what is left out, and what is always shown."""

from tests.context.conversations import assistant, ids, internal, interrupted, result, system, user
from wakeful.context.tokens import messages_tokens, tool_tokens
from wakeful.context.window import RequestView, beginning_with_user, cut_message, fit, shortened
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import ImageBlock, Message, TextBlock, UrlSource
from wakeful.contract.tools import ToolDescriptor

TOOL = ToolDescriptor(id="look", name="look", description="Look it up.")
LONG = "x" * 9000


def room(tokens: int, *, min_recent: int = 1) -> ContextPolicy:
    """A policy that leaves so many tokens for the request."""
    return ContextPolicy(max_context_tokens=tokens + 100, max_output_tokens=100, min_recent_messages=min_recent)


def turns(count: int) -> list[Message]:
    """Messages of ten tokens each."""
    return [user(f"u{number}", "x" * 24) for number in range(1, count + 1)]


def test_a_conversation_that_fits_is_included_whole() -> None:
    """B-452"""
    said = [system("s"), *turns(3)]
    assert fit(said, (), room(34)) == RequestView(tuple(said), dropped=0, cut=0, estimated_tokens=34)


def test_the_oldest_messages_are_dropped_until_the_rest_fits() -> None:
    """B-452"""
    view = fit(turns(5), (), room(39))
    assert (ids(view.messages), view.dropped, view.estimated_tokens) == (["u3", "u4", "u5"], 2, 30)


def test_leading_system_messages_are_never_dropped() -> None:
    """B-452"""
    said = [system("s1", "x" * 400), system("s2", "x" * 400), *turns(3), system("late"), user("last")]
    assert ids(fit(said, (), room(10)).messages) == ["s1", "s2", "last"]


def test_tools_and_reserved_tokens_count() -> None:
    """B-452"""
    said, tokens = turns(5), tool_tokens(TOOL)
    assert ids(fit(said, [TOOL], room(tokens + 30)).messages) == ["u3", "u4", "u5"]
    view = fit(said, [TOOL], room(tokens + 30), reserved=10)
    assert (ids(view.messages), view.estimated_tokens) == (["u4", "u5"], tokens + 30)


def test_the_calibrated_factor_corrects_every_estimate() -> None:
    """B-452"""
    view = fit(turns(5), (), room(39), factor=2.0, reserved=3)
    assert (ids(view.messages), view.estimated_tokens) == (["u5"], 26)
    assert fit(turns(5), (), room(39), factor=0.5).dropped == 0


def test_the_newest_messages_are_included_even_over_the_limit() -> None:
    """B-452"""
    view = fit(turns(5), [TOOL], room(1, min_recent=3))
    assert (ids(view.messages), view.dropped) == (["u3", "u4", "u5"], 2)


def test_a_round_that_does_not_fit_is_dropped_as_a_whole() -> None:
    """B-453"""
    said = [*turns(1), assistant("a", calls=["c1", "c2"]), result("c1", "x" * 80), result("c2"), *turns(1)]
    everything = messages_tokens(said)
    assert ids(fit(said, (), room(everything - 10)).messages) == ["a", "r-c1", "r-c2", "u1"]
    assert ids(fit(said, (), room(everything - 11)).messages) == ["u1"]


def test_a_round_that_is_partly_recent_is_included_as_a_whole() -> None:
    """B-453"""
    said = [*turns(1), assistant("a", calls=["c1", "c2"]), result("c1"), result("c2"), *turns(1)]
    assert ids(fit(said, (), room(1, min_recent=2)).messages) == ["a", "r-c1", "r-c2", "u1"]


def test_every_unanswered_call_gets_an_interrupted_result_at_the_end_of_its_round() -> None:
    """B-453"""
    said = [assistant("a", calls=["c1", "c2"]), result("c2"), user("u"), assistant("b", calls=["c3"])]
    view = fit(said, (), room(1000))
    assert view.messages == (said[0], said[1], interrupted("c1"), said[2], said[3], interrupted("c3"))
    assert (view.dropped, view.messages[-1].text) == (0, "[Tool execution was interrupted]")


def test_interrupted_results_do_not_count_as_recent_messages() -> None:
    """B-452, B-453"""
    said = [*turns(4), assistant("a", calls=["c1", "c2", "c3"])]
    assert ids(fit(said, (), room(1, min_recent=3)).messages)[:3] == ["u3", "u4", "a"]


def test_a_result_without_its_call_is_never_included() -> None:
    """B-453"""
    said = [result("c0"), *turns(1), result("c0"), result("c0"), *turns(1)]
    assert fit(said, (), room(1000)) == RequestView((said[1], said[4]), dropped=3, cut=0, estimated_tokens=20)


def test_long_results_are_shortened_before_messages_are_dropped() -> None:
    """B-454"""
    said = [*turns(1), assistant("a", calls=["c1"]), result("c1", LONG)]
    view = fit(said, (), room(500))
    assert view.messages == (said[0], said[1], shortened(said[2]))
    assert (view.dropped, view.cut, said[2].text) == (0, 1, LONG)


def test_only_included_results_count_as_shortened() -> None:
    """B-454"""
    said = [assistant("a", calls=["c1"]), result("c1", LONG), *turns(1)]
    view = fit(said, (), room(10))
    assert (ids(view.messages), view.dropped, view.cut) == (["u1"], 2, 0)


def test_a_tail_does_not_start_with_a_result() -> None:
    """B-453"""
    tail = [system("s"), result("c1"), result("c2"), *turns(2)]
    view = fit(tail, (), room(1000), has_more_before=True)
    assert (ids(view.messages), view.dropped, view.wants_more) == (["s", "u1", "u2"], 2, True)


def test_a_tail_that_fills_the_window_wants_no_more() -> None:
    assert not fit(turns(3), (), room(20), has_more_before=True).wants_more


def test_a_whole_conversation_wants_no_more() -> None:
    assert not fit(turns(3), (), room(1000)).wants_more


def test_the_view_of_an_empty_conversation_is_empty() -> None:
    assert fit((), (), room(10)) == RequestView((), dropped=0, cut=0, estimated_tokens=0)


def test_a_request_that_would_begin_with_an_answer_begins_with_a_note_that_quotes_the_user() -> None:
    said = [system("s"), assistant("a", "Well."), user("u2", "Go on.")]
    before = [internal(user("n", "Continue.")), user("u1", "Count to ten."), user("u0", "Hello.")]
    lead, note, *rest = beginning_with_user(said, lambda: before, chars=100)
    assert (lead, rest) == (said[0], said[1:])
    assert note.text == (
        "[Earlier messages of this conversation are not shown.] The user's last message in them was:\n\nCount to ten."
    )
    _, note, *_ = beginning_with_user(said, lambda: [], chars=100)
    assert note.text == "[Earlier messages of this conversation are not shown.]"


def test_a_request_that_begins_with_the_user_has_no_note() -> None:
    for said in ([system("s"), user("u")], [system("s")], []):
        assert beginning_with_user(said, lambda: [user("u0", "Hello.")], chars=100) == tuple(said)


def test_of_a_text_that_is_too_long_the_beginning_and_the_end_are_left() -> None:
    picture = ImageBlock(source=UrlSource(url="https://example.com/p.png"))
    message = user("u").model_copy(update={"content": (TextBlock(text="a" * 50 + "b" * 50), picture)})
    cut = cut_message(message, 20)
    assert cut.content == (
        TextBlock(
            text=f"{'a' * 10}\n\n[80 characters are left out here: the text is too long]\n\n{'b' * 10}",
        ),
        picture,
    )
    assert cut_message(message, 100) is message
