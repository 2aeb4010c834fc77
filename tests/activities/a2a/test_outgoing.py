"""What a remote agent is sent: the part of the conversation that it has not seen."""

from pydantic import JsonValue

from wakeful.contract.messages import Base64Source, ContentBlock, ImageBlock, Message, Role, TextBlock, ToolCall
from wakeful.contract.remote import RemoteOrigin
from wakeful_activities.a2a.outgoing import CONTINUE, EARLIER, GRANTED, Outgoing, outgoing

SERVICE, THREAD = "https://agents.example.com", "t1"
IMAGE = ImageBlock(source=Base64Source(media_type="image/png", data="aGk="))


def user(text: str, *more: ContentBlock) -> Message:
    return Message(id="", role=Role.USER, content=(TextBlock(text=text), *more))


def remote(
    text: str, *, task: str | None = "k1", thread: str = THREAD, service: str = SERVICE, **fields: object
) -> Message:
    origin = RemoteOrigin(service=service, thread_id=thread, context_id="c1", task_id=task)
    content = (TextBlock(text=text),) if text else ()
    return Message(id="", role=Role.ASSISTANT, content=content, remote=origin).model_copy(update=fields)


def question(text: str) -> Message:
    arguments: JsonValue = {"question": text, "kind": "input", "task_id": "k1", "context_id": "c1"}
    return remote("", tool_calls=(ToolCall(id="1-1", name="remote_input", arguments=arguments),))


def answer(text: str) -> Message:
    return Message(id="", role=Role.TOOL, content=(TextBlock(text=text),), tool_call_id="1-1")


def sent(*messages: Message, is_first_step: bool = True) -> Outgoing:
    return outgoing(messages, service=SERVICE, thread_id=THREAD, is_first_step=is_first_step)


def test_the_first_message_begins_a_conversation() -> None:
    assert sent(user("hi", IMAGE)) == Outgoing((TextBlock(text="hi"), IMAGE))


def test_later_messages_continue_it_with_what_was_said_since() -> None:
    later = sent(user("hi"), remote("hello"), user("one"), user("two"))
    assert later == Outgoing(
        (TextBlock(text="one"), TextBlock(text="two")), context_id="c1", known_tasks=frozenset({"k1"})
    )


def test_answers_on_other_threads_and_of_other_services_are_not_its_own() -> None:
    """A fork has the messages of the thread that it was made of."""
    for message in (remote("hello", thread="t0"), remote("hello", service="https://other.example.com")):
        told = sent(user("hi"), message, user("and now?"))
        assert told == Outgoing(
            (TextBlock(text=EARLIER.format(earlier="User: hi\n\nAssistant: hello")), TextBlock(text="and now?"))
        )


def test_what_other_agents_did_is_told_and_what_they_thought_is_not() -> None:
    call = ToolCall(id="1-1", name="look", arguments={"at": "Rome"})
    local = Message(id="", role=Role.ASSISTANT, content=(), tool_calls=(call,))
    told = sent(user("hi"), local, answer("it rains"))
    earlier = 'User: hi\n\nAssistant calls look with {"at": "Rome"}\n\nResult: it rains'
    assert told == Outgoing((TextBlock(text=EARLIER.format(earlier=earlier)),))


def test_the_answer_to_a_question_goes_to_the_task_that_asked() -> None:
    told = sent(user("hi"), question("Which city?"), answer("Rome"), user("quickly"), is_first_step=False)
    assert told == Outgoing(
        (TextBlock(text="Rome"), TextBlock(text="quickly")),
        context_id="c1",
        task_id="k1",
        known_tasks=frozenset({"k1"}),
    )


def test_an_approval_without_a_text_grants_what_was_asked() -> None:
    told = sent(user("hi"), question("May I?"), answer("null"), is_first_step=False)
    assert told.content == (TextBlock(text=GRANTED),)


def test_a_question_that_an_earlier_run_was_asked_is_not_answered() -> None:
    told = sent(user("hi"), question("Which city?"), answer("[interrupted]"), user("never mind"))
    assert told == Outgoing((TextBlock(text="never mind"),), context_id="c1", known_tasks=frozenset({"k1"}))


def test_a_message_is_never_empty() -> None:
    assert sent(user("hi"), remote("hello")).content == (TextBlock(text=CONTINUE),)
    assert sent(user("")).content == (TextBlock(text=CONTINUE),)
