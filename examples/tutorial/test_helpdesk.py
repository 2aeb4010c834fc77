"""What the helpdesk must not get wrong."""

from typing import Literal

import pytest

from helpdesk import find_order, registry
from wakeful import ToolError
from wakeful.testing import ScriptedModel, WakefulRuntime, call, say, wait_for_decision


def test_an_unknown_order_is_an_error() -> None:
    with pytest.raises(ToolError, match="there is no order '7'"):
        find_order("7")


@pytest.mark.parametrize(("action", "expected"), [("resume", "249 EUR for order 1042"), ("cancel", "it was dropped")])
async def test_a_person_decides_about_a_refund(
    wakeful_runtime: WakefulRuntime, action: Literal["resume", "cancel"], expected: str
) -> None:
    model = ScriptedModel([call("refund", number="1042", euros=249), say("{result}")])
    async with wakeful_runtime(registry.copy(models={"default": model})) as client:
        thread_id = await client.start("helpdesk", "I want my money back.")
        pending = await wait_for_decision(client, thread_id, tool="refund")
        await client.decide(thread_id, pending.call_id, action, reason="it was dropped")
        result = await client.result(thread_id)
    assert expected in result.response
