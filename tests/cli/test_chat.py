"""`wakeful chat` as a person uses it: the real program in a terminal, on a real server, with a worker of its own.

The model is the fake provider, which says as much of an answer as a test lets it.
"""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.script import Answer, Call, Hold
from tests.support.fake_provider.server import FakeProvider
from tests.support.journal import Journal
from tests.support.processes import wakeful
from tests.support.provider_app import AGENT, CAREFUL, HELPER, QUEUE
from tests.support.terminal import ALT_ENTER, CTRL_C, CTRL_D, CTRL_O, ENTER, TAB, Terminal, terminal
from tests.support.waiting import until, until_status
from wakeful import RunStatus
from wakeful.client.client import Client

HINT = "Enter sends"
ASKED = "[y]es · [n]o, with a reason · [e]dit the arguments >"


@pytest.fixture
def client(temporal: TemporalClient) -> Client:
    return Client(temporal, task_queue=QUEUE)


def chatting(
    address: str, thread_id: str, *, agent: str = AGENT, queue: str = QUEUE
) -> AbstractAsyncContextManager[Terminal]:
    options = ["--thread", thread_id, "--task-queue", queue]
    return terminal("chat", agent, *options, TEMPORAL_ADDRESS=address)


def is_ready(seen: Terminal) -> bool:
    """The prompt is there, and nothing has been typed."""
    return bool(seen.lines) and seen.lines[-1].startswith(f"> {HINT}")


async def test_an_answer_is_seen_before_it_is_whole(address: str, provider: FakeProvider, thread_id: str) -> None:
    rest = asyncio.Event()
    provider.will(Answer("Once upon a time there was a worker that died.", chunk=4, faults=(Hold(4, rest),)))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Tell me a story." + ENTER)
        shown = await seen.until("Once upon a tim")
        assert "there was a worker" not in shown
        rest.set()
        await seen.until("Once upon a time there was a worker that died.")
        await seen.until(is_ready)
        assert seen.text.count("Once upon") == 1


async def test_a_decision_is_asked_for_inline_and_the_tool_runs(
    address: str, provider: FakeProvider, thread_id: str, journal_path: Path
) -> None:
    provider.will(Answer("Let me pay.", calls=(Call("c1", "pay", '{"amount": 7}'),)), Answer("It is paid."))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Pay." + ENTER)
        shown = await seen.until(ASKED)
        assert "‖ pay(amount=7)\n  Pay 7 EUR?\n" in shown
        seen.type("y" + ENTER)
        await seen.until("It is paid.")
        assert "✓ pay(amount=7)  paid 7 EUR" in seen.text
    assert [line["amount"] for line in Journal(journal_path).lines("pay")][-1] == 7


@pytest.mark.integration
async def test_a_call_is_denied_with_a_reason_or_approved_with_other_arguments(
    address: str, provider: FakeProvider, thread_id: str, journal_path: Path
) -> None:
    provider.will(
        Answer(calls=(Call("c1", "pay", '{"amount": 1}'),)),
        Answer(calls=(Call("c2", "pay", '{"amount": 2}'),)),
        Answer("Well."),
    )
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Pay." + ENTER)
        await seen.until(ASKED)
        seen.type("perhaps" + ENTER)
        await seen.until("! 'perhaps' is not an answer: type y, n with a reason, a, or e")
        seen.type("a" + ENTER)
        await seen.until("! this call has no rule to remember: answer y or n")
        seen.type("n too little" + ENTER)
        await seen.until("✗ pay(amount=1)  cancelled by decision: too little")
        await seen.until("‖ pay(amount=2)")
        assert "too little" in (await provider.request(2)).turns[-1].text
        seen.type("e" + ENTER)
        await seen.until('arguments > {"amount":2}')
        seen.type("\x7f" + ENTER)
        await seen.until("! what you typed is not JSON")
        seen.type("\x7f" * 20 + '{"amount": 20}' + ENTER)
        await seen.until("Well.")
    assert [line["amount"] for line in Journal(journal_path).lines("pay")][-1] == 20


@pytest.mark.integration
async def test_what_is_always_allowed_is_asked_once(address: str, provider: FakeProvider, thread_id: str) -> None:
    knocks = [Answer(calls=(Call(f"c{number}", "knock"),)) for number in (1, 2)]
    provider.will(*knocks, Answer("Nobody opens."))
    async with chatting(address, thread_id, agent=CAREFUL) as seen:
        await seen.until(is_ready)
        seen.type("Knock." + ENTER)
        await seen.until("[a]lways knock")
        seen.type("a" + ENTER)
        shown = await seen.until("Nobody opens.")
        assert (shown.count("‖ knock()"), shown.count("✓ knock()  knocked")) == (1, 2)


@pytest.mark.integration
async def test_a_decision_that_is_made_elsewhere_closes_the_question(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer(calls=(Call("c1", "pay", '{"amount": 3}'),)), Answer("Thanks."))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Pay." + ENTER)
        await seen.until(ASKED)
        await client.decide(thread_id, "1-1", "resume")
        shown = await seen.until("Thanks.")
        assert "no decision is needed any more" in shown
        assert ASKED not in shown


@pytest.mark.integration
async def test_the_decision_of_a_sub_agent_is_asked_for_inline(
    address: str, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(
        Answer(calls=(Call("c1", f"agent_run_{HELPER}", '{"prompt": "Pay 5."}'),)),
        Answer(calls=(Call("c2", "pay", '{"amount": 5}'),)),
        Answer("I have paid."),
        Answer("My helper has paid."),
    )
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Have it paid." + ENTER)
        shown = await seen.until(ASKED)
        assert f"  asked by sub-agent {HELPER}: {thread_id}/" in shown
        seen.type("y" + ENTER)
        await seen.until("My helper has paid.")


@pytest.mark.integration
async def test_events_of_background_tasks_are_shown_at_the_prompt(
    address: str, provider: FakeProvider, thread_id: str
) -> None:
    def reply(asked: Asked) -> Answer:
        said = [turn.text for turn in asked.turns]
        if "Pay 6." in said[-1]:
            return Answer(calls=(Call("c2", "pay", '{"amount": 6}'),))
        if "paid 6 EUR" in said[-1]:
            return Answer("It is paid by now.")
        if "background-task-event" in "".join(said):
            return Answer("My helper says that it is paid.")
        return Answer("I have told my helper.")

    spawn = Call("c1", "spawn_agent", json.dumps({"agent": HELPER, "prompt": "Pay 6.", "name": "payer"}))
    provider.will(Answer(calls=(spawn,)))
    provider.always(reply)
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Have it paid, by and by." + ENTER)
        await seen.until(ASKED)
        seen.type("y" + ENTER)
        await seen.until("My helper says that it is paid.")
        await seen.until(is_ready)
        assert "‖ waiting for background tasks" in seen.text


@pytest.mark.integration
async def test_ctrl_c_cancels_the_run_and_not_the_thread(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    never = asyncio.Event()
    provider.will(Answer("I will tell you everything.", chunk=4, faults=(Hold(3, never),)), Answer("I am still here."))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Talk." + ENTER)
        await seen.until("I will tell")
        seen.type(CTRL_C)
        await seen.until("■ cancelled")
        await seen.until(is_ready)
        seen.type("Are you there?" + ENTER)
        await seen.until("I am still here.")
        await seen.until(is_ready)
        view = await client.status(thread_id)
        assert (view.runs, view.doing) == (2, "idle, waiting for a message")


@pytest.mark.integration
async def test_ctrl_c_at_a_question_cancels_the_run_too(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer(calls=(Call("c1", "pay", '{"amount": 8}'),)))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Pay." + ENTER)
        await seen.until(ASKED)
        seen.type(CTRL_C)
        await seen.until("■ cancelled")
        await seen.until(is_ready)
    assert (await client.status(thread_id)).doing == "idle, waiting for a message"


@pytest.mark.integration
async def test_typeahead_answers_no_question_and_is_a_message_otherwise(
    address: str, provider: FakeProvider, thread_id: str
) -> None:
    rest, more = asyncio.Event(), asyncio.Event()
    pay = Call("c1", "pay", '{"amount": 9}')
    provider.will(
        Answer("Let me pay for it.", chunk=4, calls=(pay,), faults=(Hold(2, rest),)),
        Answer("Never mind then.", chunk=4, faults=(Hold(2, more),)),
        Answer("Goodbye."),
    )
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Pay." + ENTER)
        await seen.until("Let me")
        seen.type("y" + ENTER)
        rest.set()
        await seen.until(ASKED)
        seen.type("n" + ENTER)
        await seen.until("✗ pay(amount=9)  cancelled by decision")
        await seen.until("Never m")
        seen.type("Bye." + ENTER)
        more.set()
        await seen.until("> Bye.\n\nGoodbye.")


@pytest.mark.integration
async def test_a_second_ctrl_c_leaves_at_once_and_says_that_the_run_is_being_cancelled(
    address: str, thread_id: str
) -> None:
    async with chatting(address, thread_id, queue="no-worker-polls") as seen:
        await seen.until(is_ready)
        seen.type("Hello?" + ENTER)
        await seen.until("; waiting")  # the query of a worker found none, or the watcher did first
        seen.type(CTRL_C)
        await seen.until("cancelling the run")
        seen.type(CTRL_C)
        assert await seen.ended() == 0
        assert "the run is being cancelled" in seen.text


@pytest.mark.integration
async def test_a_message_may_have_several_lines(address: str, provider: FakeProvider, thread_id: str) -> None:
    provider.always(Answer("I see."))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("one" + ALT_ENTER + "two" + "\n" + "three")
        await seen.until("> one\n  two\n  three")
        seen.paste("\nfour\nfive")
        await seen.until("  five")
        assert not provider.asked
        seen.type(ENTER)
        assert (await provider.request()).turns[-1].text == "one\ntwo\nthree\nfour\nfive"
        await seen.until("I see.")


@pytest.mark.integration
async def test_ctrl_c_clears_the_prompt_and_ctrl_d_leaves_and_prints_how_to_continue(
    address: str, provider: FakeProvider, thread_id: str
) -> None:
    provider.always(Answer("Hello."))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("never mind")
        await seen.until("> never mind")
        seen.type(CTRL_C)
        await seen.until(is_ready)
        seen.type("Hi." + ENTER)
        await seen.until("Hello.")
        await seen.until(is_ready)
        seen.type(CTRL_D)
        assert await seen.ended() == 0
        assert f"continue with: wakeful chat {AGENT} --thread {thread_id} --task-queue {QUEUE}" in "".join(seen.lines)
    assert [asked.turns[-1].text for asked in provider.asked] == ["Hi."]


@pytest.mark.integration
async def test_a_conversation_continues_where_it_was_left(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("Nice to meet you."), Answer(calls=(Call("c1", "pay", '{"amount": 4}'),)), Answer("All done."))
    await client.send(thread_id, "I am Ann.", agent_id=AGENT)
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    async with chatting(address, thread_id) as seen:
        shown = await seen.until(is_ready)
        assert "> I am Ann.\n\nNice to meet you.\n" in shown
        seen.type("Pay 4." + ENTER)
        await seen.until(ASKED)
        seen.type(CTRL_D)
        assert await seen.ended() == 0
    await until_status(client, thread_id, RunStatus.WAITING)
    async with chatting(address, thread_id) as seen:
        shown = await seen.until(ASKED)
        assert "> Pay 4." in shown
        seen.type("y" + ENTER)
        await seen.until("All done.")


@pytest.mark.integration
async def test_a_thread_that_was_closed_is_woken_by_the_next_message(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("It is over."), Answer("Good morning."))
    await client.run(AGENT, "Be brief.", thread_id=thread_id)
    async with chatting(address, thread_id) as seen:
        shown = await seen.until(is_ready)
        assert "> Be brief.\n\nIt is over.\n" in shown
        seen.type("Wake up!" + ENTER)
        await seen.until("Good morning.")
        await seen.until(is_ready)


@pytest.mark.integration
async def test_a_conversation_is_forked_and_continues_on_the_fork(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("One."), Answer("Two."), Answer("Other."))
    async with chatting(address, thread_id) as seen:
        for text, answer in (("1", "One."), ("2", "Two.")):
            await seen.until(is_ready)
            seen.type(text + ENTER)
            await seen.until(answer)
        await seen.until(is_ready)
        seen.type("/fork 1 Again." + ENTER)
        await seen.until("⇒ thread ")
        await seen.until("Other.")
        await seen.until(is_ready)
    assert [turn.text for turn in provider.asked[-1].turns if turn.role != "system"] == ["1", "One.", "Again."]
    assert [message.text for message in await client.transcript(thread_id)] == ["1", "One.", "2", "Two."]


@pytest.mark.integration
async def test_messages_of_others_on_the_thread_are_shown_and_a_draft_is_restored(
    address: str, client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.always(Answer("Somebody else has asked me."))
    await client.send(thread_id, "One.", agent_id=AGENT)
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("half a sent")
        await seen.until("> half a sent")
        await client.send(thread_id, "Two.")
        await seen.until(lambda seen: seen.text.count("Somebody else has asked me.") == 2)
        await seen.until(lambda seen: seen.lines[-1] == "> half a sent")
        seen.type("ence" + ENTER)
        assert (await provider.request(3)).turns[-1].text == "half a sentence"


@pytest.mark.integration
async def test_a_tool_is_one_line_with_its_progress_and_unfolds(
    address: str, provider: FakeProvider, thread_id: str, journal_path: Path
) -> None:
    provider.will(Answer(calls=(Call("c1", "mine", "{}"),)), Answer("Gold!"))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Dig." + ENTER)
        await seen.until("→ mine()  50% half way down")
        journal_path.with_suffix(".enough").touch()
        shown = await seen.until("Gold!")
        assert "half way down" not in shown
        assert "✓ mine()  found gold" in shown
        await seen.until(is_ready)
        seen.type(CTRL_O)
        await seen.until("→ mine()\n  found gold\n")


@pytest.mark.integration
async def test_commands_begin_with_a_slash(address: str, provider: FakeProvider, thread_id: str) -> None:
    provider.always(Answer("Hello."))
    async with chatting(address, thread_id) as seen:
        await seen.until(is_ready)
        seen.type("Hi." + ENTER)
        await seen.until("Hello.")
        await seen.until(is_ready)
        seen.type("/sta" + TAB)
        await seen.until("> /status")
        seen.type(ENTER)
        await seen.until("status   done: idle, waiting for a message")
        await seen.until(is_ready)
        seen.type("/tree" + ENTER)
        await seen.until(f"✓ done  {AGENT}")
        await seen.until(is_ready)
        seen.type("/nonsense" + ENTER)
        await seen.until("! there is no command /nonsense: /help lists them")
        await seen.until(is_ready)
        seen.type("/quit" + ENTER)
        assert await seen.ended() == 0


@pytest.mark.integration
async def test_no_color_turns_colours_off(address: str, provider: FakeProvider, thread_id: str) -> None:
    provider.always(Answer("Hello."))
    command = ("chat", AGENT, "--thread", thread_id, "--task-queue", QUEUE)
    async with terminal(*command, TEMPORAL_ADDRESS=address, NO_COLOR="1") as seen:
        await seen.until(is_ready)
        seen.type("Hi." + ENTER)
        await seen.until("Hello.")
        colours = {cell.fg for row in seen.screen.buffer.values() for cell in row.values()}
        assert colours == {"default"}


async def piped(address: str, text: str, *options: str) -> tuple[str, str]:
    """What the chat prints of this input, without a terminal."""
    ran = await wakeful("chat", AGENT, "--task-queue", QUEUE, *options, address=address, stdin=text)
    assert ran.code == 0, ran.err
    return ran.out, ran.err


@pytest.mark.integration
async def test_without_a_terminal_a_message_is_a_line_and_answers_are_all_that_is_printed(
    address: str, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("First."), Answer("Second."))
    out, err = await piped(address, "one\n\ntwo\n", "--thread", thread_id)
    assert out == "First.\nSecond.\n"
    assert err.splitlines()[0] == f"thread {thread_id}"
    assert [asked.turns[-1].text for asked in provider.asked] == ["one", "two"]


async def test_programs_write_json_strings_and_read_events(
    address: str, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("First."), Answer("Second."))
    owners = ("--tenant", "acme", "--user", "ann")
    out, _ = await piped(address, '"one\\nline"\n"two"\n', "--thread", thread_id, "--json", *owners)
    records = [json.loads(line) for line in out.splitlines()]
    starts = [record["event"] for record in records if record["event"]["event_type"] == "run_start"]
    assert [(it["identity"]["tenant"], it["identity"]["user"]) for it in starts] == [("acme", "ann")] * 2
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    said = [record["event"]["delta"] for record in records if record["event"]["event_type"] == "text_delta"]
    assert said == ["First.", "Second."]
    assert provider.asked[0].turns[-1].text == "one\nline"
