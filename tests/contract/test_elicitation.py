"""Questions of MCP servers: several of them are asked one after another, and their answers are kept."""

from pydantic import JsonValue

from wakeful.contract.elicitation import AnsweredQuestion, Elicitation, ElicitedAnswer, ElicitedQuestion

SEAT, MEAL = ElicitedQuestion(message="Which seat?"), ElicitedQuestion(message="Which meal?")
YES = ElicitedAnswer(action="accept", content={"seat": "12A"})
NO = ElicitedAnswer(action="decline")


def test_the_questions_of_a_server_are_asked_one_after_another() -> None:
    """B-830"""
    first = Elicitation(question=SEAT, key="seat", open={"meal": MEAL}, request_state="s").answered_with(YES)
    second = first.asking_next()
    assert second is not None
    assert (second.question, second.key, second.open, second.request_state) == (MEAL, "meal", {}, "s")
    last = second.answered_with(NO)
    assert (last.answers, last.asking_next()) == ({"seat": YES, "meal": NO}, None)
    assert last.answered == (
        AnsweredQuestion(question=SEAT, answer=YES),
        AnsweredQuestion(question=MEAL, answer=NO),
    )


def test_a_question_without_a_name_is_only_remembered() -> None:
    """B-830: the server asked in the middle of a call, which begins anew."""
    asked = Elicitation(question=SEAT).answered_with(YES)
    assert (asked.answers, asked.answered) == ({}, (AnsweredQuestion(question=SEAT, answer=YES),))


def test_an_accepted_form_has_the_defaults_of_fields_that_the_person_left_out() -> None:
    fields: dict[str, JsonValue] = {
        "seat": {"type": "string", "default": "1A"},
        "meal": {"type": "string", "default": "soup"},
        "bag": True,
    }
    form = ElicitedQuestion(message="Which?", json_schema={"type": "object", "properties": fields})
    [answered] = Elicitation(question=form).answered_with(YES).answered
    assert answered.answer.content == {"seat": "12A", "meal": "soup"}
    [declined] = Elicitation(question=form).answered_with(NO).answered
    assert declined.answer == NO
