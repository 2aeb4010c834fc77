"""What the log of a worker says of its runs: one line per change, each with its run; and nothing of what was said."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.operations.conftest import Log
from tests.support.telemetry import traced_process
from tests.support.waiting import until
from wakeful import (
    Agent,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Registry,
    RetryPolicy,
    ScriptedModel,
    ToolContext,
    ToolError,
    call,
    say,
    tool,
)
from wakeful.authoring.instructions import InstructionsContext
from wakeful.client.client import Client
from wakeful.worker import running_worker

CANARY = "canary-5f1d"

shop = logging.getLogger("shop")
tracer = TracerProvider().get_tracer("shop")


@tool
def weigh(what: str) -> str:
    """Weigh something, in a thread."""
    shop.info("weighing")
    return "heavy"


@tool
async def pack(what: str) -> str:
    """Pack something, in the event loop."""
    with tracer.start_as_current_span("packing"):
        await asyncio.to_thread(shop.info, "packing")
    return "packed"


@tool
def ship(what: str, ctx: ToolContext) -> str:
    """Ship something, if a person agrees."""
    if ctx.resume_input is None:
        ctx.suspend(f"Ship {what}?")
    return f"shipped {what}"


@tool
def drop(what: str) -> str:
    """Drop something."""
    raise KeyError(what)


@tool
def refuse(what: str) -> str:
    """Refuse something."""
    raise ToolError(f"not {what}")


@dataclass
class FailsOnce:
    """A provider that quotes the prompt when it fails."""

    model: ScriptedModel
    failures: int = 1

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if self.failures:
            self.failures -= 1
            prompt = request.messages[-1].text
            raise ProviderError(ProviderErrorKind.OVERLOADED, f"no, not {prompt!r}", status=529)
        return self.model.answer(request)


class Moody:
    """Instructions that cannot be written the first time."""

    def __init__(self) -> None:
        self.failures = 1

    def __call__(self, context: InstructionsContext) -> str:
        if self.failures:
            self.failures -= 1
            raise LookupError(CANARY)
        return "Be kind."


def registry() -> Registry:
    script = ScriptedModel(
        when={
            "^pack": [call("weigh", what=CANARY) & call("pack", what=CANARY), say("done")],
            "^ship": [call("ship", what=CANARY), say(f"done {CANARY}")],
            "^break": [call("drop", what=CANARY) & call("refuse", what=CANARY), say("sorry")],
        }
    )
    retry = RetryPolicy(overloaded_backoff_base_ms=10)
    moody = Agent(id="moody", instructions=Moody())
    return Registry(
        agents=[moody, Agent(id="clerk", instructions=CANARY, tools=[weigh, pack, ship, drop, refuse], retry=retry)],
        models={"default": FailsOnce(script)},
    )


@pytest.fixture
async def mine(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    settings = worker_settings(task_queue=thread_id)
    async with running_worker(temporal, registry(), settings), Client(temporal, task_queue=thread_id) as client:
        yield client


def picked(lines: list[dict[str, Any]], *fields: str) -> list[tuple[object, ...]]:
    return [tuple(line.get(field) for field in fields) for line in lines]


async def test_lines_of_users_tools_name_their_thread_run_agent_step_call_and_trace(
    mine: Client, log: Log, thread_id: str
) -> None:
    result = await mine.run("clerk", "pack it", thread_id=thread_id)
    [weighing], [packing] = log.named(thread_id, "weighing"), log.named(thread_id, "packing")
    about = {"thread_id": thread_id, "run_id": result.run_id, "agent_id": "clerk", "step": 1}
    shown = {key: weighing[key] for key in weighing if key not in ("time", "trace_id", "span_id")}
    assert shown == {"level": "info", "logger": "shop", "message": "weighing", **about, "call_id": "1-1"}
    assert packing["call_id"] == "1-2"
    assert len(packing["trace_id"]) == 32
    assert len(packing["span_id"]) == 16


async def test_each_change_in_the_life_of_a_run_is_one_line_also_if_it_is_replayed(
    temporal: TemporalClient, log: Log, thread_id: str
) -> None:
    settings = worker_settings(task_queue=thread_id, max_cached_workflows=0)  # each workflow task replays the run
    async with Client(temporal, task_queue=thread_id) as client:
        async with running_worker(temporal, registry(), settings):
            await client.start("clerk", "ship it", thread_id=thread_id)
            await until(client, thread_id, lambda view: bool(view.pending))
        async with running_worker(temporal, registry(), settings):
            await client.decide(thread_id, "1-1", "resume", actor="ada", confirm=True)
            result = await client.result(thread_id)
            await client.status(thread_id)
    about = ("message", "outcome", "tool", "action", "actor", "call_id", "steps")
    changes = [line for line in log.lines(thread_id) if line["message"].partition(" ")[0] in ("run", "call")]
    assert picked(changes, *about) == [
        ("run started", None, None, None, None, None, None),
        ("call suspended", None, "ship", None, None, "1-1", None),
        ("call decided", None, "ship", "resume", "ada", "1-1", None),
        ("run ended", "natural", None, None, None, None, 2),
    ]
    assert {(line["logger"], line["run_id"], line["agent_id"]) for line in changes} == {
        ("wakeful", result.run_id, "clerk")
    }


async def test_lines_of_a_traced_run_have_the_trace_of_the_run(
    temporal: TemporalClient, log: Log, thread_id: str
) -> None:
    with traced_process():
        async with running_worker(temporal, registry(), worker_settings(task_queue=thread_id)):
            await Client(temporal, task_queue=thread_id).run("clerk", "pack it", thread_id=thread_id)
    traces = {line["message"]: line.get("trace_id") for line in log.lines(thread_id)}
    assert traces.keys() >= {"run started", "attempt failed", "weighing", "run ended"}
    assert None not in traces.values()
    assert len({trace for message, trace in traces.items() if message != "packing"}) == 1  # that has its own


async def test_a_cancelled_call_is_a_line_with_the_decision(mine: Client, log: Log, thread_id: str) -> None:
    await mine.start("clerk", "ship it", thread_id=thread_id)
    await until(mine, thread_id, lambda view: bool(view.pending))
    await mine.decide(thread_id, "1-1", "cancel", reason=CANARY, confirm=True)
    await mine.result(thread_id)
    assert picked(log.named(thread_id, "call decided"), "action", "call_id") == [("cancel", "1-1")]


async def test_each_failed_attempt_is_one_line_with_its_cause(mine: Client, log: Log, thread_id: str) -> None:
    await mine.run("clerk", "break it", thread_id=thread_id)
    [failed] = log.named(thread_id, "attempt failed")
    about = ("level", "activity", "cause", "model", "step", "agent_id")
    assert picked([failed], *about) == [("warning", "infer", "overloaded (529)", "default", 1, "clerk")]
    assert failed["retry_in"].endswith("s")
    [raised] = log.named(thread_id, "tool raised")
    assert (raised["tool"], raised["call_id"]) == ("drop", "1-1")
    assert raised["cause"].startswith("KeyError at test_run_lines.py:")
    assert raised["cause"].endswith(" in drop")
    assert picked(log.named(thread_id, "tool failed"), "level", "tool", "cause") == [
        ("info", "refuse", "Execution failed")
    ]
    assert [line["message"] for line in log.lines(thread_id) if "traceback" in line] == []


async def test_an_attempt_that_the_sdk_logs_with_its_traceback_is_one_line_of_ours(
    mine: Client, log: Log, thread_id: str
) -> None:
    await mine.run("moody", "pack it", thread_id=thread_id)
    failed = [line for line in log.lines(thread_id) if line["level"] == "warning" and line.get("activity") != "infer"]
    assert picked(failed, "logger", "message", "activity", "agent_id") == [
        ("wakeful", "attempt failed", "resolve_agent", "moody")
    ]
    assert failed[0]["cause"].startswith("InstructionsFailed")
    assert CANARY not in log.text


async def test_no_line_has_a_prompt_an_argument_or_a_result(mine: Client, log: Log, thread_id: str) -> None:
    for ask in ("pack", "ship", "break"):
        await mine.start("clerk", f"{ask} {CANARY}", thread_id=f"{thread_id}-{ask}")
        if ask == "ship":
            await until(mine, f"{thread_id}-{ask}", lambda view: bool(view.pending))
            await mine.decide(f"{thread_id}-{ask}", "1-1", "resume", result=CANARY, reason=CANARY, confirm=True)
        await mine.result(f"{thread_id}-{ask}")
        assert log.named(f"{thread_id}-{ask}", "run ended")
    assert CANARY not in log.text
