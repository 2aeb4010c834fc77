"""A test fails with what its model did not expect, wherever in the worker that happened."""

import pytest

from tests.testing.desk import desk
from wakeful import RunFailed
from wakeful.testing import ScriptedModel, UnexpectedModelCall, WakefulRuntime, call, say


async def test_a_run_that_calls_the_model_once_too_often_raises_in_the_test(wakeful_runtime: WakefulRuntime) -> None:
    registry, model = desk(call("stock", item="cup"))
    async with wakeful_runtime(registry) as client:
        with pytest.raises(UnexpectedModelCall, match="the script has 1 turn, but this is model call 2") as raised:
            await client.run("buyer", "How many cups?")
    assert "  tool: 3" in str(raised.value)
    assert len(model.requests) == 2, "a retry would fail again"


async def test_a_request_that_is_not_as_its_turn_expects_raises_in_the_test(wakeful_runtime: WakefulRuntime) -> None:
    registry, model = desk(call("stock", item="cup"), say("{result}").expecting("^4$"))
    async with wakeful_runtime(registry) as client:
        with pytest.raises(UnexpectedModelCall, match=r"the newest message does not match '\^4\$': '3'"):
            await client.run("buyer", "How many cups?")
    assert len(model.requests) == 2


async def test_a_test_that_fails_otherwise_has_the_unexpected_call_as_a_note(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk()
    with pytest.raises(RunFailed) as raised:
        async with wakeful_runtime(registry) as client:
            await client.ask("t", "hello", agent_id="buyer")
    (note,) = raised.value.__notes__
    assert note.startswith("unexpected model call: the script has 0 turns")


async def test_the_end_of_the_runtime_raises_what_the_model_of_a_sub_agent_did_not_expect(
    wakeful_runtime: WakefulRuntime,
) -> None:
    registry, _ = desk(call("agent_run_helper", prompt="help"), say("never mind"), helper=ScriptedModel())
    with pytest.raises(UnexpectedModelCall, match="the script has 0 turns"):
        async with wakeful_runtime(registry) as client:
            assert (await client.run("buyer", "get help")).response == "never mind"


async def test_tests_with_the_same_registry_and_thread_id_do_not_meet(wakeful_runtime: WakefulRuntime) -> None:
    registry, model = desk(say("hi").expecting("hello"))
    async with wakeful_runtime(registry) as client:
        with pytest.raises(UnexpectedModelCall):
            await client.run("buyer", "bye", thread_id="t")
    async with wakeful_runtime(registry) as client:
        assert (await client.run("buyer", "hello", thread_id="t")).response == "hi"
        assert [thread.thread_id async for thread in client.threads()] == ["t"]
    assert len(model.unexpected) == 1, "of the first, which the second does not raise again"
