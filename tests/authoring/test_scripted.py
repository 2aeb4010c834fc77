"""The scripted model: stateless, so it continues after a crash and on any worker."""

from wakeful import ModelRequest, ScriptedModel, call, say
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, Role, TextBlock, Visibility


def ask(model: ScriptedModel, *messages: Message) -> ModelResponse:
    return model.answer(ModelRequest(model="m", messages=messages))


def message(role: Role, text: str) -> Message:
    return Message(id=text, role=role, content=(TextBlock(text=text),))


def note(text: str) -> Message:
    return message(Role.USER, text).model_copy(update={"visibility": Visibility.INTERNAL})


USER, ASSISTANT, TOOL = Role.USER, Role.ASSISTANT, Role.TOOL


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
