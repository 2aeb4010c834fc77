"""The scripted model: stateless, so it continues after a crash and on any worker."""

import json
from datetime import date

import pytest
from pydantic import BaseModel, Field, JsonValue

from wakeful import (
    ConfigurationError,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    ScriptedModel,
    call,
    say,
    tool,
)
from wakeful.authoring.scripted import Check, Turn
from wakeful.authoring.unexpected_call import UnexpectedModelCall
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall, Visibility
from wakeful.contract.tools import ToolDescriptor


def ask(model: ScriptedModel, *messages: Message) -> ModelResponse:
    return model.answer(ModelRequest(model="m", messages=messages, tools=TOOLS))


def message(role: Role, text: str) -> Message:
    return Message(id=text, role=role, content=(TextBlock(text=text),))


def note(text: str) -> Message:
    return message(Role.USER, text).model_copy(update={"visibility": Visibility.INTERNAL})


USER, ASSISTANT, TOOL = Role.USER, Role.ASSISTANT, Role.TOOL
TOOLS = tuple(ToolDescriptor(id=name, name=name) for name in ("a", "b", "look", "order", "wave"))
LOOK = ToolCall(id="1-1", name="look", arguments={"where": "up"})


def test_the_next_turn_depends_on_the_answers_since_the_last_user_message() -> None:
    model = ScriptedModel([call("look", where="up"), say("I saw {result}, {input}")])
    first = ask(model, message(USER, "Ann"))
    assert [(c.name, c.arguments) for c in first.tool_calls] == [("look", {"where": "up"})]
    second = ask(model, message(USER, "Ann"), message(ASSISTANT, ""), message(TOOL, "stars"))
    assert second.text == "I saw stars, Ann"
    again = ask(model, *[message(USER, "Ann"), message(ASSISTANT, ""), message(ASSISTANT, "")], message(USER, "Bob"))
    assert again.tool_calls[0].id != first.tool_calls[0].id


def test_patterns_select_the_script() -> None:
    model = ScriptedModel([say("else")], when={"^hi": [say("hi yourself")]})
    assert [ask(model, message(USER, text)).text for text in ("Hi there", "bye")] == ["hi yourself", "else"]


def test_a_turn_may_have_text_and_several_calls() -> None:
    turn = say("Looking. ") & call("a") & call("b", n=1)
    answer = ask(ScriptedModel([turn]), message(USER, "go"))
    assert (answer.text, [c.name for c in answer.tool_calls]) == ("Looking. ", ["a", "b"])


def test_a_lenient_script_without_more_turns_says_so() -> None:
    assert ask(ScriptedModel(strict=False), message(USER, "go")).text == "The script has no more turns."


def test_internal_messages_do_not_restart_the_script() -> None:
    model = ScriptedModel([call("look"), say("{input}: {result}")])
    said = [
        message(USER, "Ann"),
        note("continue"),
        message(ASSISTANT, ""),
        message(TOOL, "stars"),
        note("task bg_0 ended"),
    ]
    assert [c.name for c in ask(model, *said[:2]).tool_calls] == ["look"]
    assert ask(model, *said).text == "Ann: stars"


def test_a_pattern_may_select_a_script_for_internal_messages() -> None:
    model = ScriptedModel([say("started")], when={"bg_0": [say("heard: {input}"), say("again")]})
    said = [message(USER, "Ann"), message(ASSISTANT, "started"), note("bg_0 ended"), note("bg_1 ended")]
    assert ask(model, *said).text == "heard: bg_0 ended"
    assert ask(model, *said, message(ASSISTANT, "heard")).text == "again"


def test_internal_messages_alone_start_the_script() -> None:
    assert ask(ScriptedModel([say("hello {input}")]), note("wake up")).text == "hello "


def test_a_model_call_after_the_last_turn_fails_and_shows_the_conversation() -> None:
    model = ScriptedModel([call("look", where="up")])
    asked = (message(USER, "Ann"), message(ASSISTANT, "").model_copy(update={"tool_calls": (LOOK,)}))
    with pytest.raises(UnexpectedModelCall) as raised:
        ask(model, *asked, message(TOOL, "stars"))
    assert str(raised.value) == (
        "the script has 1 turn, but this is model call 2 since the message 'Ann': add a turn, or find out why the "
        "agent calls the model again\n"
        "the conversation:\n"
        "  user: Ann\n"
        '  assistant: → look({"where": "up"})\n'
        "  tool: stars"
    )
    assert (raised.value.kind, raised.value.kind.transient) == (ProviderErrorKind.UNEXPECTED_CALL, False)
    assert model.unexpected == (raised.value,)


def test_the_error_names_the_pattern_whose_script_is_over_and_shows_the_newest_messages() -> None:
    model = ScriptedModel(when={"^hi": []})
    conversation = [message(USER, f"hi {n}") for n in range(25)]
    with pytest.raises(UnexpectedModelCall, match=r"^the script for '\^hi' has 0 turns.*'hi 24'") as raised:
        ask(model, *conversation)
    assert "(5 earlier messages)\n  user: hi 5\n" in str(raised.value)


def test_a_turn_can_expect_something_of_its_request() -> None:
    def is_brief(request: ModelRequest) -> None:
        assert request.instructions == "Be brief.", f"{request.instructions!r} is not brief"

    asked = message(USER, "Ann")
    assert ask(ScriptedModel([say("hi").expecting("^A").expecting(lambda _request: None)]), asked).text == "hi"
    unmet: list[tuple[str | Check, str]] = [
        ("Bob", "the newest message does not match 'Bob': 'Ann'"),
        (is_brief, "AssertionError: '' is not brief"),
        (lambda _request: False, "<lambda> returned False"),
        (lambda request: request.tools[9], "IndexError: tuple index out of range"),
    ]
    for expected, why in unmet:
        with pytest.raises(UnexpectedModelCall, match=r"^turn 1 of the script does not fit the request: ") as raised:
            ask(ScriptedModel([(say("hi") & call("look")).expecting(expected)]), asked)
        assert why in raised.value.headline


def test_a_function_can_make_a_turn_from_the_request() -> None:
    model = ScriptedModel([lambda request: call("order", pieces=10 - int(request.messages[0].text)), say("ok")])
    assert ask(model, message(USER, "3")).tool_calls[0].arguments == {"pieces": 7}
    with pytest.raises(UnexpectedModelCall, match="turn 1 of the script does not fit the request: ValueError"):
        ask(model, message(USER, "three"))
    with pytest.raises(UnexpectedModelCall, match="must return a Turn, such as say"):
        ask(ScriptedModel([lambda _request: "hi"]), message(USER, "3"))  # type: ignore[list-item, return-value]


def test_a_function_can_play_a_provider_that_fails() -> None:
    def busy(request: ModelRequest) -> Turn:
        raise ProviderError(ProviderErrorKind.OVERLOADED, "busy")

    model = ScriptedModel([busy])
    with pytest.raises(ProviderError, match="busy") as raised:
        ask(model, message(USER, "go"))
    assert (raised.value.kind, model.unexpected) == (ProviderErrorKind.OVERLOADED, ())


def test_a_script_says_which_turns_were_not_reached() -> None:
    def shrug(request: ModelRequest) -> Turn:
        return say("?")

    model = ScriptedModel([call("look", where="up"), say("done")], when={"bye": [say("bye") & call("wave"), shrug]})
    ask(model, message(USER, "go"))
    with pytest.raises(AssertionError) as raised:
        model.assert_used_up()
    assert str(raised.value) == (
        "in 1 model calls, none has reached these turns:\n"
        "  turn 2: say('done')\n"
        "  turn 1 for 'bye': say('bye') & call('wave')\n"
        "  turn 2 for 'bye': a function"
    )
    ask(model, message(USER, "go"), message(ASSISTANT, ""))
    ask(model, message(USER, "bye"))
    ask(model, message(USER, "bye"), message(ASSISTANT, ""))
    model.assert_used_up()
    assert [len(request.messages) for request in model.requests] == [1, 2, 1, 2]


def test_a_lenient_script_that_is_over_reaches_no_turn() -> None:
    model = ScriptedModel([say("once")], strict=False)
    ask(model, message(USER, "go"), message(ASSISTANT, ""))
    with pytest.raises(AssertionError, match="turn 1: say"):
        model.assert_used_up()


@tool(read_only=True)
def find_booking(number: int, guest: str | None = None) -> str:
    """Find a booking."""
    return f"booking {number} of {guest}"


def asked_of_the_desk(model: ScriptedModel) -> ModelResponse:
    messages = (message(USER, "Where is my booking?"),)
    return model.answer(ModelRequest(model="m", messages=messages, tools=(find_booking.descriptor,)))


MISFITS: dict[str, tuple[Turn, str]] = {
    "a misspelt tool": (
        call("find_bookin", number=17),
        "it calls 'find_bookin', which is not a tool of the request; tools: find_booking; did you mean 'find_booking'?",
    ),
    "another tool": (call("pay"), "it calls 'pay', which is not a tool of the request; tools: find_booking ("),
    "a misspelt argument": (
        call("find_booking", numbr=17),
        "it calls 'find_booking' with arguments that do not fit: unknown argument 'numbr'; it takes: number, guest; "
        "did you mean 'number'?",
    ),
    "a missing argument": (call("find_booking"), "do not fit: 'number' is a required property"),
    "a wrong type": (call("find_booking", number="x"), "do not fit: number: 'x' is not of type 'integer'"),
    "the second call": (call("find_booking", number=1) & call("find_booking", number=None), "number: None is not"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_strict_script_makes_only_calls_that_the_request_offers(case: str) -> None:
    turn, why = MISFITS[case]
    model = ScriptedModel([turn])
    with pytest.raises(
        UnexpectedModelCall, match=r"^turn 1 of the script does not fit the request: it calls"
    ) as raised:
        asked_of_the_desk(model)
    assert why in raised.value.headline
    assert model.unexpected == (raised.value,)


def test_a_script_may_pass_null_for_an_argument_that_can_be_left_out() -> None:
    answer = asked_of_the_desk(ScriptedModel([call("find_booking", number=17, guest=None)]))
    assert answer.tool_calls[0].arguments == {"number": 17, "guest": None}


@pytest.mark.parametrize("case", MISFITS)
def test_unchecked_calls_and_lenient_scripts_play_a_model_that_makes_bad_calls(case: str) -> None:
    turn, _ = MISFITS[case]
    for model in (ScriptedModel([turn.unchecked()]), ScriptedModel([turn], strict=False)):
        assert tuple((each.name, each.arguments) for each in asked_of_the_desk(model).tool_calls) == turn.calls


def test_one_unchecked_call_makes_its_whole_turn_unchecked() -> None:
    turn = say("Paying.") & call("pay").unchecked() & call("find_booking", number=17)
    assert [each.name for each in asked_of_the_desk(ScriptedModel([turn])).tool_calls] == ["pay", "find_booking"]


class Outcome(BaseModel):
    note: str
    on: date = Field(alias="date")


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (Outcome(note="Grüße", date=date(2026, 1, 2)), {"note": "Grüße", "date": "2026-01-02"}),
        ({"rooms": [1, 2.5, None]}, {"rooms": [1, 2.5, None]}),
        ([True], [True]),
        (3, 3),
        (None, None),
    ],
)
def test_a_script_can_say_a_pydantic_model_or_a_json_value(answer: BaseModel | JsonValue, written: JsonValue) -> None:
    assert json.loads(ask(ScriptedModel([say(answer)]), message(USER, "go")).text) == written


def test_what_is_filled_into_json_is_escaped() -> None:
    model = ScriptedModel([call("look"), say({"asked": "{input}", "seen": "{result}"})])
    said = (message(USER, 'a "star"?'), message(ASSISTANT, ""), message(TOOL, '{"stars": 3}\n'))
    assert json.loads(ask(model, *said).text) == {"asked": 'a "star"?', "seen": '{"stars": 3}\n'}


@pytest.mark.parametrize("answer", [object(), Outcome, {1, 2}, {"on": date(2026, 1, 2)}, float("nan"), say("hi")])
def test_what_has_no_json_cannot_be_said(answer: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^say\(…\) takes a text, a pydantic model or a JSON value, not "):
        say(answer)  # type: ignore[arg-type]
