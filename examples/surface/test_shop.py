"""Tests of the shop: its tools and gates alone, then its agents on a real server. `pytest examples/surface`.

`wakeful_runtime` is a fixture that Wakeful brings; async tests need pytest-asyncio, with `asyncio_mode = "auto"`.
"""

from datetime import timedelta
from pathlib import Path

import pytest

from examples.surface.attachments import described, manual, message_with
from examples.surface.desk import decide_all
from examples.surface.models import PARROT
from examples.surface.rehearsal import FOUND, LOOK, rehearsed
from examples.surface.shop import LOOKUPS, SEEN, Shop, refund, small_refunds, stock
from wakeful import DocumentBlock, RetryLater
from wakeful.testing import (
    NoDecision,
    RecordedModel,
    RecordingToolContext,
    SuspendCall,
    UnexpectedModelCall,
    WakefulRuntime,
    call,
    make_gate_call,
    make_identity,
    make_tool_context,
    say,
    skip_time,
    wait_for_decision,
)

REFUND = call("refund", order_id=7, amount=30)
REFUNDED = say('{"summary": "You get your money back.", "refunded": 30}')


def context(shop: Shop) -> RecordingToolContext[Shop]:
    return make_tool_context(stock, deps=shop, state={LOOKUPS: 0, SEEN: []}, identity=make_identity(agent_id="clerk"))


def test_a_lookup_is_remembered() -> None:
    ctx = context(Shop())
    assert stock("grinder", ctx) == 3
    assert (ctx.state.get(LOOKUPS), ctx.state.get(SEEN)) == (1, ["grinder"])


def test_a_lookup_waits_for_the_stocktaking() -> None:
    with pytest.raises(RetryLater, match="counted") as later:
        stock("grinder", context(Shop(stocktaking=True)))
    assert later.value.after == 60


async def test_a_refund_needs_a_person() -> None:
    with pytest.raises(SuspendCall, match=r"Refund 30 for order 7\?"):
        await refund(7, 30, make_tool_context(refund, deps=Shop()))


def test_no_clerk_refunds_more_than_1000() -> None:
    verdict = small_refunds(make_gate_call(refund, {"order_id": 7, "amount": 2000}, deps=Shop()))
    assert verdict == make_gate_call(refund).block("a refund above 1000 needs the management")


def test_attachments_have_a_name_in_a_line_of_text(tmp_path: Path) -> None:
    (receipt := tmp_path / "receipt.pdf").write_bytes(b"%PDF-1.7")
    sent = message_with("It is broken.", [receipt]).as_message("m1")
    assert described(sent) == "It is broken. [receipt.pdf, application/pdf]"
    assert isinstance(manual("grinder")[-1], DocumentBlock)


async def test_a_refund_can_be_approved_some_minutes_later(wakeful_runtime: WakefulRuntime) -> None:
    async with wakeful_runtime(rehearsed(REFUND, REFUNDED)) as client:
        thread_id = await client.start("clerk", "Order 7 is broken.")
        pending = await wait_for_decision(client, thread_id, tool="refund")
        await skip_time(client, thread_id, timedelta(minutes=5))
        await decide_all(client, (pending,))
        assert (await client.result(thread_id)).output == {"summary": "You get your money back.", "refunded": 30}


async def test_a_lookup_needs_no_decision(wakeful_runtime: WakefulRuntime) -> None:
    async with wakeful_runtime(rehearsed(LOOK, FOUND)) as client:
        thread_id = await client.start("clerk", "Do you have grinders?")
        with pytest.raises(NoDecision, match="its run has ended"):
            await wait_for_decision(client, thread_id)


async def test_a_script_that_is_too_short_fails_the_test(wakeful_runtime: WakefulRuntime) -> None:
    async with wakeful_runtime(rehearsed(LOOK)) as client:
        with pytest.raises(UnexpectedModelCall, match="the script has 1 turn"):
            await client.run("clerk", "Do you have grinders?")


async def test_the_night_shift_answers_as_it_was_recorded(wakeful_runtime: WakefulRuntime, tmp_path: Path) -> None:
    registry, file = rehearsed(), tmp_path / "night.json"
    for is_recording in (True, False):
        model = RecordedModel(file, live=PARROT, record=is_recording)
        async with wakeful_runtime(registry.copy(models={**registry.models, "parrot": model})) as client:
            assert (await client.run("night", "Is the door locked?")).response == "Is the door locked?"
