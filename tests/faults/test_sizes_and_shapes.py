"""Anything that people, models, tools and hooks can say, in any size, depth, number and unicode: no run gets stuck.

No activation takes long, either: its CPU seconds are bounded by the bytes that it brings, also those of patterns and
schemas that a front end brings, and of hundreds of messages and decisions at once.

WAKEFUL_FUZZ_SECONDS=1800 WAKEFUL_FUZZ_SEED=7 make faults is a long run.
"""

import asyncio
import logging
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import RawValue
from temporalio.service import RPCError

from tests.support.activations import Activation, ActivationMeter
from tests.support.waiting import until
from wakeful import Agent, Plugin, Registry, Rule, RunStatus, StateKey, ToolContext, ToolMode, tool
from wakeful.client.client import Client
from wakeful.contract.errors import WakefulError
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.messages import Role, ToolCall
from wakeful.contract.requests import CHANGES
from wakeful.contract.tools import FrontendTool
from wakeful.testing import ScriptedModel, call, say
from wakeful.worker import WorkerSettings, running_worker

SECONDS = int(os.environ.get("WAKEFUL_FUZZ_SECONDS", "60"))
SEED = int(os.environ.get("WAKEFUL_FUZZ_SEED", "1"))
THREADS = 6
USUAL = (
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)
"""The server hands a task out again if a signal arrived meanwhile, or signals of more than two megabytes did."""
QUEUE = "sizes-and-shapes"
MAX_SECONDS, MAX_SECONDS_PER_MEGABYTE = 0.5, 2.0
"""CPU that an activation may take, and for the bytes that it brings; one that replays brings its history."""
MAX_MEMORY = 4 * 2**30
"""Of this process, with its worker: caches are bounded, however long it runs."""

NOTES: StateKey[Any] = StateKey("notes", Any, default=None, scope="thread")

SIZES = (0, 1, 1_990, 2_010, 30_000, 250_000, 256_100, 600_000, 1_000_100, 1_900_000)
DEPTHS = (1, 60, 99, 101, 150, 240, 1_500)
TEXTS = ("x", "é", "漢", "\U0001f600", "\x00", "\ud83d", "\u202e", '"', "\\", "</task-event>")


def text(chance: random.Random, *, most: int = 2_000_000) -> str:
    unit = chance.choice(TEXTS)
    size = min(chance.choice(SIZES), most)
    return unit * (size // len(unit.encode(errors="surrogatepass")))


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for level in range(depth):
        value = {"child": value} if level % 2 else [value]
    return value


def value(chance: random.Random) -> Any:
    match chance.randrange(6):
        case 0:
            return nested(chance.choice(DEPTHS))
        case 1:
            return [text(chance, most=30_000) for _ in range(chance.randrange(40))]
        case 2:
            return {text(chance, most=2_000): text(chance, most=300_000)}
        case 3:
            return chance.choice([None, float("inf"), -0.0, 10**400, True])
        case _:
            return text(chance)


class Anything:
    """A model that asks for anything, until it has asked often enough."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        asked = sum(message.role is Role.ASSISTANT for message in request.messages)
        said = next(message.text for message in reversed(request.messages) if message.role is Role.USER)
        if said.startswith("ping"):
            return ModelResponse(model="m", text="pong")
        chance = random.Random(f"{SEED}:{said[:50]}:{asked}:{len(request.messages)}")
        if chance.random() < 0.4:
            return ModelResponse(model="m", text=text(chance, most=900_000))
        count = chance.choice((1, 1, 2, 5, 60, 300, 5_000))
        names = ("echo", "keep", "screenshot", "nothing", text(chance, most=300))
        calls = tuple(
            ToolCall(
                id=chance.choice((f"c{number}", "same", "c" * 1_500, f"n{number}\x00")),
                name=chance.choice(names),
                arguments={"seed": chance.randrange(10**9), "given": value(chance) if count < 10 else number},
            )
            for number in range(count)
        )
        return ModelResponse(model="m", tool_calls=calls, stop_reason=StopReason.TOOL_USE)


@tool
async def echo(seed: int, given: Any = None) -> Any:
    """Return anything."""
    return value(random.Random(seed))


@tool
async def keep(ctx: ToolContext, seed: int, given: Any = None) -> str:
    """Write anything to the state."""
    ctx.state.set(NOTES, value(random.Random(seed)))
    return "kept"


class Noisy(Plugin):
    """Adds context messages of any size."""

    id = "noisy"

    def before_inference(self, ctx: Any) -> None:
        ctx.add_context(f"k{ctx.step % 3}", text(random.Random(ctx.step), most=300_000))


def registry() -> Registry:
    agent = Agent(id="a", model="m", tools=[echo, keep], state=[NOTES], plugins=[Noisy()], tool_mode=ToolMode.PARALLEL)
    return Registry(agents=[agent], models={"m": Anything()})


async def disturb(client: Client, thread: str, chance: random.Random, sent: Counter[str]) -> None:
    """Send one thing, as any client could."""
    handle = client.handle(thread)
    kinds = (
        "submit",
        "submit",
        "rules",
        "decide",
        "decide",
        "raw",
        "cancel",
        "steer",
        "many",
        "burst",
        "answer",
        "unknown",
    )
    kind = chance.choice(kinds)
    sent[kind] += 1
    match kind:
        case "submit" | "steer":
            on_busy = "steer" if kind == "steer" else chance.choice(("enqueue", "interrupt", "rollback", "reject"))
            await handle.signal("submit", {"input": text(chance, most=1_900_000), "on_busy": on_busy})
        case "rules":
            await handle.signal("submit", {"input": "and by these rules?", "permissions": rules(chance)})
        case "many":
            said = [{"content": text(chance, most=2_000)} for _ in range(chance.choice((10, 500, 700)))]
            await handle.signal("submit", {"input": said})
        case "burst":
            which = chance.choice(("submit", "decide"))
            await asyncio.gather(*(_small(handle, which, chance) for _ in range(chance.choice((20, 300, 1_000)))))
        case "answer":
            for pending in (await client.status(thread)).pending:
                answer = {"call_id": pending.pending.id, "action": "resume", "result": awkward(chance)}
                await handle.signal("decide", answer)
        case "decide":
            calls = (await client.status(thread)).calls
            target = chance.choice(calls).call_id if calls else "1-1"
            decision = {"call_id": target, "action": chance.choice(("resume", "cancel")), "reason": text(chance)}
            await handle.signal("decide", {**decision, chance.choice(("result", "arguments")): value(chance)})
        case "cancel":
            await handle.signal("cancel", {"reason": text(chance)})
        case "raw":
            data = chance.choice((b"\xff\xfe", b"[" * 5_000, b'{"input": "\\ud83d"}', b"", b"null"))
            payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
            await handle.signal(chance.choice(("submit", "decide", "cancel")), RawValue(payload))
        case _:
            await handle.signal(text(chance, most=300).replace("\ud83d", "") or "nothing", value(chance))


async def _small(handle: Any, which: str, chance: random.Random) -> None:
    if which == "submit":
        await handle.signal("submit", {"input": "and then?", "on_busy": chance.choice(("steer", "enqueue"))})
    else:
        decision = {"call_id": f"{chance.randrange(9)}-{chance.randrange(300)}", "action": "resume", "result": "yes"}
        await handle.signal("decide", {**decision, "decision_id": str(chance.randrange(10**9))})


PATTERNS = (".?" * 40 + "\0", "(a|a)*b", "(?:[a-z]{0,99}){0,99}!", "(?=x)", r"(?:\w|a){90}!")


def awkward(chance: random.Random) -> Any:
    """A value that patterns and schemas take long for."""
    return chance.choice(
        (
            "a" * chance.choice((40, 20_000)) + "!",
            "ä b" * chance.choice((10, 9_000)),
            [{"n": number} for number in range(chance.choice((9, 20_000)))],
            nested(chance.choice((9, 60))),
        )
    )


ITSELF: dict[str, Any] = {"$ref": "#/$defs/a"}
SCHEMAS: tuple[dict[str, Any], ...] = (
    *({"pattern": pattern} for pattern in PATTERNS),
    {"uniqueItems": True, "items": {"enum": [{"n": number} for number in range(500)]}},
    {"$defs": {"a": {"anyOf": [ITSELF, {"items": ITSELF}]}}, **ITSELF},
    {"$defs": {"a": {"oneOf": [ITSELF, ITSELF]}}, **ITSELF},
    {"allOf": [{"pattern": f"(?:{letter}|.){{0,40}}!"} for letter in "abcdefgh"]},
    {"allOf": [{"pattern": f"^[^x]+{number}"} for number in range(1_000)]},
    {"enum": ["x" * 50] * 2_500},
    {"additionalProperties": {"required": [f"n{number}" for number in range(5_000)]}},
)
"""Of a front end that wants to stop the worker."""


def rules(chance: random.Random) -> list[dict[str, str]]:
    """Of a request that wants to stop the worker."""
    kinds = ('echo(given =~ "\\w{{190}}{}")', '/^e/(given !~ "*{}?a")', "/^k[a-z]{{1,90}}{}/", "keep(*x{})")
    pattern = chance.choice(kinds)
    return [{"tool": pattern.format(number), "behavior": "ask"} for number in range(chance.choice((2, 400, 1_500)))]


async def calm(client: Client, thread: str) -> int:
    """Withdraw what waits, and cancel what runs, until nothing does. Returns how many runs there were."""
    async with asyncio.timeout(300):
        while (view := await client.status(thread)).status is not RunStatus.DONE or view.queued:
            # Each message that is enqueued would start a run, and a burst has hundreds.
            waiting = [later.message.id for later in await client.queued(thread) if not later.mail]
            for start in range(0, len(waiting), CHANGES):
                await client.withdraw(thread, waiting[start : start + CHANGES])
            await client.handle(thread).signal("cancel", {"reason": "enough"})
            await asyncio.sleep(0.5)
    return view.runs


async def problems(temporal: TemporalClient, thread: str) -> list[str]:
    """Failed workflow tasks of all its executions, and executions that the server ended."""
    found = []
    async for execution in temporal.list_workflows(f"WorkflowId = '{thread}'"):
        if execution.status in (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT):
            found.append(f"{thread}: {execution.status.name}")
        handle = temporal.get_workflow_handle(thread, run_id=execution.run_id)
        found += [f"{thread}: {failed}" async for event in handle.fetch_history_events() if (failed := _failed(event))]
    return found


def too_long(meter: ActivationMeter) -> list[Activation]:
    """The activations that took longer than they may."""
    longest = sorted(meter.activations, reverse=True)[:8]
    table = "\n".join(f"{it.seconds:8.3f} s {it.bytes:10,} bytes {it.jobs:5,} jobs" for it in longest)
    print(f"{len(meter.activations):,} activations; the longest:\n{table}")
    allowed = [MAX_SECONDS + MAX_SECONDS_PER_MEGABYTE * it.bytes / 1e6 for it in meter.activations]
    return [it for it, bound in zip(meter.activations, allowed, strict=True) if it.seconds > bound]


def _failed(event: HistoryEvent) -> str:
    if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
        return ""
    failed = event.workflow_task_failed_event_attributes
    if failed.cause in USUAL:
        return ""
    return f"event {event.event_id}: {WorkflowTaskFailedCause.Name(failed.cause)}: {failed.failure.message[:300]}"


@pytest.fixture
def unlogged() -> Iterator[None]:
    """Without log records: pytest keeps each of them, with all that the frames of its traceback refer to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.faults
@pytest.mark.usefixtures("unlogged")
async def test_no_size_depth_number_or_unicode_leaves_a_run_stuck(temporal: TemporalClient) -> None:
    chance, sent, ends = random.Random(SEED), Counter[str](), time.monotonic() + SECONDS
    client = Client(temporal, task_queue=QUEUE)
    threads = [f"shapes-{SEED}-{number}" for number in range(THREADS)]
    meter = ActivationMeter()
    async with running_worker(meter.client(temporal), registry(), WorkerSettings(task_queue=QUEUE)):
        for thread in threads:
            screenshot = FrontendTool(id="screenshot", result_schema=chance.choice(SCHEMAS))
            await client.start("a", "begin", thread_id=thread, mode="thread", frontend_tools=[screenshot])
        while time.monotonic() < ends:
            try:
                await disturb(client, chance.choice(threads), chance, sent)
            except (WakefulError, RPCError, ValueError, UnicodeError, RuntimeError) as error:
                sent[f"refused by {type(error).__name__}"] += 1
            await asyncio.sleep(chance.random() / 5)
        for number, thread in enumerate(threads):
            runs = await calm(client, thread)
            await client.send(thread, f"ping {number}")
            view = await until(client, thread, lambda view, runs=runs: view.runs > runs and view.result is not None)  # type: ignore[misc]
            assert view.result is not None
            assert view.result.response == "pong", view.result
            assert (await client.transcript(thread))[-1].text == "pong"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"\n{sum(sent.values()):,} inputs in {SECONDS} s, {memory / 2**20:,.0f} MB: {dict(sorted(sent.items()))}")
    assert too_long(meter) == []
    assert [problem for thread in threads for problem in await problems(temporal, thread)] == []
    assert memory < MAX_MEMORY


def hundred(number: int) -> list[str]:
    return [f"{number}-{each}" for each in range(100)]


WAITING: dict[str, tuple[str, Callable[[str, int], dict[str, Any]], int]] = {
    "decisions": ("decide", lambda target, n: {"target": target, "action": "resume", "result": f"v{n}"}, 400),
    "withdrawals": ("withdraw", lambda _, n: {"message_ids": hundred(n), "request_id": f"{n}"}, 150),
    "revocations": ("revoke", lambda _, n: {"tools": hundred(n), "request_id": f"{n}"}, 150),
}
"""Small signals, and how many of each wait for a worker."""


@pytest.mark.faults
@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("kind", WAITING)
async def test_hundreds_of_small_signals_that_wait_for_a_worker_take_no_long_activation(
    temporal: TemporalClient, kind: str
) -> None:
    signal, content, count = WAITING[kind]
    model = ScriptedModel([call("screenshot").unchecked(), say("ok")], strict=False)
    known = Registry(agents=[Agent(id="a", model="m")], models={"m": model})
    settings, meter = WorkerSettings(task_queue=f"{QUEUE}-{kind}"), ActivationMeter()
    client = Client(temporal, task_queue=settings.task_queue)
    asking: dict[str, str] = {}
    async with running_worker(meter.client(temporal), known, settings):
        for asked in SCHEMAS:
            shot = FrontendTool(id="screenshot", result_schema=asked)
            thread = await client.start("a", "begin", frontend_tools=[shot], permissions=FEW_RULES)
            view = await until(client, thread, lambda view: bool(view.pending))
            asking[thread] = view.pending[0].pending.id
    for thread, target in asking.items():
        handle = client.handle(thread)
        await asyncio.gather(*(handle.signal(signal, content(target, number)) for number in range(count)))
    async with running_worker(meter.client(temporal), known, settings):
        for thread in asking:
            await client.cancel(thread)
            await until(client, thread, lambda view: view.status is RunStatus.DONE)
    assert too_long(meter) == []
    assert [problem for thread in asking for problem in await problems(temporal, thread)] == []


FEW_RULES = [Rule(tool=f"other{number}(*x*)", behavior="deny") for number in range(200)]
