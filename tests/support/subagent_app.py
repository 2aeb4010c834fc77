"""The tests' second app: agents that follow the plan in their prompt, so that a test can start any tree of them.

A plan is `{"turns": [[["tool", {"argument": 1}], …], …], "say": "done"}`. An argument `plan` becomes the `prompt` of a
sub-agent. After its last turn an agent answers with its tool results and the background events that it has received;
one that expects mail keeps working until it has received as much.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from tests.support.app import note
from wakeful import Agent, ModelRequest, ModelResponse, Price, Registry, ToolContext, ToolMode, tool
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import Message, Role, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)

Plan = dict[str, Any]
EVENT = re.compile(r"<background-task-event[^>]*>\n(.*)\n</background-task-event>", re.DOTALL)
MAIL = re.compile(r"<agent-message |\"event_type\":\"agent_message\"")
TOKENS_A_TURN = 100
WORDS = 40
PAUSE_SECONDS = 0.01
INTERRUPTED = "continue"
"""The id of the message that asks a model to continue after its worker was lost."""
WAITING = "waiting for mail"


def plan(*turns: Sequence[tuple[str, Mapping[str, Any]]], say: str = "done", mail: int = 0) -> Plan:
    return {"turns": [list(turn) for turn in turns], "say": say, **({"mail": mail} if mail else {})}


def written(plan: Plan) -> str:
    return json.dumps(plan)


def delegate(to: Plan, agent: str = "node") -> tuple[str, dict[str, Any]]:
    return f"agent_run_{agent}", {"plan": to}


def spawn(to: Plan, agent: str = "node", name: str | None = None) -> tuple[str, dict[str, Any]]:
    return "spawn_agent", {"agent": agent, "plan": to, **({"name": name} if name else {})}


def holding(seconds: float = 300.0) -> tuple[str, dict[str, Any]]:
    return "hold", {"seconds": seconds}


def send(to: dict[str, JsonValue], message: str) -> tuple[str, dict[str, Any]]:
    return "send_message", {"to": to, "message": message}


class Planner:
    """A model that follows the newest plan in a user message; background events and mail are no plans."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        at, plan = self._newest_plan(request.messages)
        turn = sum(1 for message in request.messages[at + 1 :] if message.role is Role.ASSISTANT)
        turns = plan.get("turns", [])
        if turn < len(turns):
            return self._answer("", _calls(turns[turn], request.messages))
        later = request.messages[at + 1 :]
        if sum(MAIL.search(message.text) is not None for message in later) < plan.get("mail", 0):
            return self._answer("", _calls([("work", {"what": WAITING, "seconds": 0.3})], request.messages))
        return self._answer(_final_answer(plan.get("say", "done"), later), ())

    def _newest_plan(self, messages: Sequence[Message]) -> tuple[int, Plan]:
        for at in range(len(messages) - 1, -1, -1):
            message = messages[at]
            if message.role is Role.USER and message.text.startswith('{"turns"'):
                return at, json.loads(message.text)
        return -1, {"say": "nothing to do"}

    def _answer(self, text: str, calls: tuple[ToolCall, ...]) -> ModelResponse:
        usage = Usage(prompt_tokens=TOKENS_A_TURN - 10, completion_tokens=10, total_tokens=TOKENS_A_TURN)
        stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
        return ModelResponse(model="planner", text=text, tool_calls=calls, usage=usage, stop_reason=stop)


class StreamingPlanner:
    """The planner as a streaming model: reasoning, text, then tool calls. An interrupted answer is continued."""

    def __init__(self) -> None:
        self._planner = Planner()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        asked, streamed = _before_interruption(request)
        answer = await self._planner.complete(asked)
        step = len(asked.messages)
        text = " ".join(f"word{step}.{number}" for number in range(WORDS)) + f" {answer.text}"
        yield StartPart(model="streaming planner")
        if not streamed:
            yield ReasoningPart(f"Step {step}.")
        for piece in _pieces(text[len(streamed) :], 9):
            yield TextPart(piece)
            await asyncio.sleep(PAUSE_SECONDS)
        for index, call in enumerate(answer.tool_calls):
            yield CallStartPart(index, call.id, call.name)
            for piece in _pieces(json.dumps(call.arguments, indent=1), 12):
                yield CallArgumentsPart(index, piece)
                await asyncio.sleep(PAUSE_SECONDS)
            yield CallEndPart(index)
        yield UsagePart(answer.usage)
        yield StopPart(answer.stop_reason)


def _before_interruption(request: ModelRequest) -> tuple[ModelRequest, str]:
    """The request as it was before the stream was interrupted, and the text that had arrived."""
    messages: tuple[Message, ...] = request.messages
    if not messages or messages[-1].id != INTERRUPTED:
        return request, ""
    return request.model_copy(update={"messages": messages[:-2]}), messages[-2].text


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _calls(turn: Sequence[tuple[str, Mapping[str, Any]]], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id="", name=name, arguments=_arguments(arguments)) for name, arguments in turn)


def _arguments(arguments: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {
        ("prompt" if name == "plan" else name): json.dumps(value) if name == "plan" else value
        for name, value in arguments.items()
    }


def _final_answer(say: str, messages: Sequence[Message]) -> str:
    """The answer with all results and events, in an order that does not depend on timing."""
    returned = [message.text for message in messages if message.role is Role.TOOL]
    results = [_read(text) for text in returned if text != f"did {WAITING}"]
    events = [_read(text) for text in events_in(messages)]
    return json.dumps(
        {"say": say, "results": sorted(results, key=json.dumps), "events": sorted(events, key=json.dumps)}
    )


def events_in(messages: Sequence[Message]) -> list[str]:
    """The background events that a transcript has, as JSON texts."""
    return [found.group(1) for message in messages if (found := EVENT.search(message.text))]


def _read(text: str) -> JsonValue:
    """A text without what differs from run to run, and without repetitions."""
    try:
        return _plain(json.loads(text))
    except ValueError:
        return text


def _plain(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        return value
    stable: dict[str, JsonValue] = {}
    for name, inner in value.items():
        if name in ("task_id", "message_id"):
            stable[name] = "…"
        elif name == "response" and isinstance(inner, str):
            stable[name] = _read(inner)
        elif name != "output":
            stable[name] = _plain(inner)
    return stable


@tool(heartbeat_timeout=3)
async def hold(seconds: float, ctx: ToolContext) -> str:
    """Wait for a while."""
    await _wait(seconds, ctx)
    return f"held for {seconds:g}"


async def _wait(seconds: float, ctx: ToolContext) -> None:
    thread = ctx.identity.thread_id
    note(ctx, "began", thread=thread)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(ctx, "stopped", thread=thread)
        raise
    note(ctx, "ended", thread=thread)


@tool(idempotent=True, heartbeat_timeout=3)
async def work(what: str, ctx: ToolContext, seconds: float = 0.0) -> str:
    """Do something that may be repeated."""
    note(ctx, what)
    await asyncio.sleep(seconds)
    return f"did {what}"


@tool
def sign(what: str, ctx: ToolContext) -> str:
    """Do something after a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend(f"May I {what}?", action="sign")
    return f"signed {what}"


@tool(background=True, idempotent=True, heartbeat_timeout=3)
async def dig(where: str, ctx: ToolContext, seconds: float = 0.2) -> dict[str, JsonValue]:
    """Dig in the background, and emit events meanwhile."""
    ctx.emit("started", {"where": where})
    await asyncio.sleep(seconds)
    ctx.emit("half", {"where": where})
    return {"found": where}


@tool(background=True, heartbeat_timeout=3)
async def linger(seconds: float, ctx: ToolContext) -> str:
    """Wait in the background."""
    await _wait(seconds, ctx)
    return "lingered"


@tool(name="cancel_task")
def own_cancel(target: dict[str, str], ctx: ToolContext) -> str:
    """Cancel in a way of its own."""
    note(ctx, "custom cancel handled")
    return f"custom cancel handled: {target['relation']}"


TOOLS = [hold, work, sign, dig, linger]

registry = Registry(
    agents=[
        Agent(
            id="node",
            instructions="Do as the plan says.",
            model="planner",
            tools=TOOLS,
            tool_mode=ToolMode.PARALLEL,
            delegates=["node"],
            spawns=["node", "own_cancel"],
            messages=["any"],
            max_depth=8,
            max_rounds=0,
            inference_heartbeat_timeout=3,
        ),
        Agent(
            id="talking",
            model="streaming planner",
            tools=TOOLS,
            tool_mode=ToolMode.PARALLEL,
            delegates=["talking"],
            spawns=["talking"],
            max_depth=8,
            max_rounds=0,
            inference_heartbeat_timeout=3,
        ),
        Agent(id="own_cancel", model="planner", tools=[own_cancel]),
        Agent(id="limited", model="planner", tools=TOOLS, spawns=["node"], max_rounds=1),
        Agent(id="front", instructions="Pass it on.", model="planner", handoffs=["back"], tools=[work]),
        Agent(id="back", instructions="Take it over.", model="planner", tools=[work]),
        Agent(id="frugal", model="planner", tools=[work], delegates=["node"], spawns=["node"], max_rounds=0),
    ],
    models={"planner": Planner(), "streaming planner": StreamingPlanner()},
    prices={"planner": Price(input=1.0, output=2.0)},
)
