"""What a thread keeps when it is closed, and how much of it a carryover has."""

from tests.loop.children import agent_message
from tests.loop.driving import THREAD, Driver, idle
from wakeful.contract.base import json_bytes, replace
from wakeful.contract.carryover import (
    CARRYOVER_BYTES,
    FRONTEND_TOOLS_BYTES,
    UNDELIVERED_BYTES,
    Carryover,
    newest_undelivered,
)
from wakeful.contract.context import AgentContext, Compaction, CompactionMark, ContextMessage
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.tools import FrontendTool
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.views import carryover


def undelivered_message(id: str, length: int) -> UndeliveredMessage:
    return UndeliveredMessage(message=agent_message(id, "x" * length), error="recipient_not_found")


def mail(id: str, length: int) -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text="x" * length),))


def ids(carryover: Carryover) -> tuple[list[str], list[str]]:
    return [each.message.message_id for each in carryover.undelivered], [message.id for message in carryover.mail]


def test_mail_that_fits_is_kept_whole() -> None:
    carryover = Carryover(
        undelivered=(undelivered_message("d1", 100_000), undelivered_message("d2", 100_000)),
        mail=(mail("m1", 300_000), mail("m2", 300_000)),
    )
    assert carryover.fitting() == carryover


def test_the_newest_undelivered_messages_and_the_oldest_mail_are_kept() -> None:
    undelivered = tuple(undelivered_message(f"d{number}", 120_000) for number in range(4))
    messages = tuple(mail(f"m{number}", 250_000) for number in range(4))
    kept = Carryover(undelivered=undelivered, mail=messages).fitting()
    assert ids(kept) == (["d2", "d3"], ["m0", "m1"])
    assert json_bytes(kept) < CARRYOVER_BYTES + 1_000


def test_mail_that_does_not_fit_is_skipped_for_mail_that_does() -> None:
    kept = Carryover(mail=(mail("m0", 100), mail("m1", CARRYOVER_BYTES), mail("m2", 100))).fitting()
    assert ids(kept) == ([], ["m0", "m2"])


def test_the_newest_undelivered_message_is_kept_before_all_others() -> None:
    undelivered = (undelivered_message("d0", 100), undelivered_message("d1", 2 * UNDELIVERED_BYTES))
    kept = Carryover(
        undelivered=undelivered, mail=(mail("m0", CARRYOVER_BYTES - 2 * UNDELIVERED_BYTES), mail("m1", 100))
    ).fitting()
    assert ids(kept) == (["d1"], ["m1"])


def test_an_undelivered_message_that_is_too_large_for_a_carryover_is_dropped() -> None:
    assert newest_undelivered((undelivered_message("d0", 100), undelivered_message("d1", CARRYOVER_BYTES))) == ()


def context_of(agent_id: str, length: int) -> AgentContext:
    message = ContextMessage(key="k", content=(TextBlock(text="x" * length),), persistent=True)
    return AgentContext(agent_id=agent_id, messages=(message,))


def test_the_context_of_the_newest_agents_is_kept_beside_mail() -> None:
    context = (context_of("a", 300_000), context_of("b", 400_000), context_of("c", 100))
    kept = Carryover(mail=(mail("m0", 400_000),), context=context).fitting()
    assert (ids(kept), [each.agent_id for each in kept.context]) == (([], ["m0"]), ["b", "c"])


def test_frontend_tools_that_do_not_fit_are_dropped() -> None:
    short, long = (
        FrontendTool(id=id, description="x" * length).descriptor()
        for id, length in (("a", 10), ("b", FRONTEND_TOOLS_BYTES))
    )
    assert Carryover(frontend_tools=(long, short)).fitting().frontend_tools == (short,)


def test_a_woken_thread_has_the_summary_and_the_frontend_tools_that_it_had() -> None:
    driver = idle()
    mark = CompactionMark(through=2, summary="short", pre_tokens=6_000, post_tokens=100)
    summary = Compaction(source="compact-1", mark=mark)
    thread = replace(driver.thread, context=replace(driver.thread.context, compaction=summary))
    assert thread.frontend_tools
    request = THREAD.model_copy(update={"frontend_tools": ()})
    woken = begin(
        request, thread_id="t1", run_id="woken", transcript=thread.transcript, carryover=carryover(thread)
    ).thread
    assert (woken.context.compaction, woken.frontend_tools) == (summary, thread.frontend_tools)


def test_frontend_tools_of_the_message_that_wakes_a_thread_replace_those_that_it_had() -> None:
    driver = idle()
    other = FrontendTool(id="other")
    request = THREAD.model_copy(update={"frontend_tools": (other,)})
    woken = Driver(request=request, carryover=carryover(driver.thread))
    assert woken.thread.frontend_tools == (other.descriptor(),)
