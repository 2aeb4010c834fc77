"""Which result answers which call."""

from tests.context.conversations import assistant, result, user
from wakeful.context.window import Round, Rounds, find_rounds
from wakeful.contract.messages import ToolCall


def test_a_round_reaches_from_the_calls_to_their_last_result() -> None:
    said = [user("u"), assistant("a", calls=["c1", "c2"]), result("c2"), result("c1"), assistant("b")]
    found = find_rounds(said)
    assert found == Rounds((Round(1, 4, ()), Round(4, 5, ())), frozenset())
    assert found.seams == {2, 3}


def test_a_call_without_a_result_is_unanswered() -> None:
    said = [assistant("a", calls=["c1", "c2"]), result("c2")]
    assert find_rounds(said) == Rounds((Round(0, 2, (ToolCall(id="c1", name="look"),)),), frozenset())


def test_a_message_between_a_call_and_its_result_belongs_to_the_round() -> None:
    said = [assistant("a", calls=["c1"]), user("u"), result("c1")]
    assert find_rounds(said).seams == {1, 2}


def test_a_result_after_the_next_answer_of_the_model_answers_nothing() -> None:
    said = [assistant("a", calls=["c1"]), assistant("b"), result("c1")]
    found = find_rounds(said)
    assert found == Rounds((Round(0, 1, said[0].tool_calls), Round(1, 2, ())), frozenset({2}))


def test_a_second_result_for_the_same_call_answers_nothing() -> None:
    assert find_rounds([assistant("a", calls=["c1"]), result("c1"), result("c1")]).orphans == {2}


def test_a_result_before_any_call_or_without_an_id_answers_nothing() -> None:
    nameless = result("c1").model_copy(update={"tool_call_id": None})
    assert find_rounds([result("c1"), assistant("a", calls=["c1"]), nameless]).orphans == {0, 2}
