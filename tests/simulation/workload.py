"""What the simulated workers serve: agents that use every feature, a model that calls anything, and tools with effects.

Every choice is made from the seed and the name of what asks, never from a shared random generator: leaving a move out
of a schedule then changes nothing else.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from random import Random

from pydantic import JsonValue
from temporalio import activity

from tests.loop.provider_rules import check_every_provider
from wakeful import Agent, Budget, ContextPolicy, Plugin, Registry, RetryLater, StateKey, ToolContext, ToolMode, tool
from wakeful.authoring.hook_contexts import (
    AfterInference,
    AfterToolExecute,
    BeforeInference,
    HookContext,
    RunEnd,
    StepEnd,
    ToolGate,
)
from wakeful.context.rejected import MESSAGE_NOTE
from wakeful.context.window import OPENING_ID
from wakeful.contract.context import DEFAULT_SUMMARIZER_SYSTEM_PROMPT
from wakeful.contract.decisions import ResumeMode
from wakeful.contract.errors import ProviderError, ProviderErrorKind, ToolError
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.runs import Usage
from wakeful.contract.state import StateScope
from wakeful.contract.stopping import Timeout
from wakeful.contract.transcript import EMPTY_DIGEST, chained

COUNT = StateKey("count", int, merge="add", default=0)
SEEN = StateKey("seen", int, merge="add", default=0, scope=StateScope.THREAD)

TENANT = "acme"
"""All threads belong to it."""

INTRUDING = "intruding"
"""In every message of another tenant, which no model is ever shown."""

MAX_CALLS = 3
ENTRIES = 20
"""More than an answer and the results of its calls, also in directed schedules."""

SUMMARY_FAILS = 0.3
"""The share of summaries that the model refuses to make."""

MISSING_AGENT = "missing"
"""Hands off to it fail: no registry has it."""

RULED = ("look", "count", "ask", "hold", "later", "pay", "glance", "agent_run_helper", "spawn_agent")
"""The tools that rules of requests and hooks are about."""

_WEIGHTS = {"ask": 8, "pay": 3, "agent_run_helper": 4, "spawn_agent": 3, "later": 3, "cancel_task": 1, "list_tasks": 1}
"""How often the model calls a tool, compared with others."""

LEFT_TASKS = 0.4
"""The share of answers of models that fail for good after the run has started a task: what it sends begins another."""
HIDDEN = 0.1
"""The share of answers of models in which they may call tools that a rule has left out of the request."""
RULES_OF_HOOKS = 0.3
"""The share of calls of hooks and tools that add a rule."""

_TASKS = ("spawn_agent", "later")

_AIMED_WEIGHTS = {
    "handing_off": {"handoff_to_second": 30, "handoff_to_lead": 10},
    "awaiting_tasks": {"spawn_agent": 20, "later": 10},
    "awaiting_budget": {"agent_run_helper": 20, "spawn_agent": 10, "agent_run_leaf": 10},
    "awaiting_decisions": {"ask": 20},
}
"""The same in a schedule that aims at a stage."""

_GOVERNED_WEIGHTS = {"spawn_agent": 6, "later": 6, "count": 4}
_GOVERNED_BELOW = {"send_message": 25, "count": 4}
"""The same where rules and budgets are set, of roots and of sub-agents."""


@dataclass(frozen=True)
class Effect:
    """A side effect of a tool."""

    tool: str
    key: str
    """The idempotency key."""
    grant: str
    """The decision that allowed it; empty if none was needed."""
    attempt: int
    thread_id: str
    call_id: str


@dataclass
class Outside:
    """The world outside of Temporal: what tools did to it, and what models were shown. It never forgets."""

    seed: str = ""
    aim: str = ""
    """The stage that the schedule aims at: models prefer what leads to it."""
    governed: bool = False
    """Hooks and tools add rules, and models also call what rules deny."""
    effects: list[Effect] = field(default_factory=list)
    invalid_requests: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Calls of tools that were not told for whom they run."""
    prompts: list[tuple[str, tuple[Message, ...]]] = field(default_factory=list)
    """Each request of a model: the thread, and the messages."""
    transcripts: dict[tuple[str, str], TranscriptRef] = field(default_factory=dict)
    """What each inference is about, by thread and activity."""
    resets: dict[str, int] = field(default_factory=dict)
    """How often the history of each thread was reset."""

    def random(self, *names: object) -> Random:
        return Random("/".join(map(str, (self.seed, *names))))


outside = Outside()


def begin(seed: str, aim: str = "", *, governed: bool = False) -> Outside:
    """A new world."""
    global outside
    outside = Outside(seed, aim, governed)
    return outside


class AnyModel:
    """A model that answers at random, from the step that asks it."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        info = activity.info()
        thread = str(info.workflow_id)
        check_request(request)
        if request.instructions == DEFAULT_SUMMARIZER_SYSTEM_PROMPT:
            return await _summary(thread, info.activity_id)
        # After a reset the same step is another one, as with a real model.
        random = outside.random("model", thread, info.activity_id, outside.resets.get(thread, 0))
        if outside.random("outage", thread, info.activity_id, info.attempt).random() < 0.06:
            kind = ProviderErrorKind.RATE_LIMITED if random.random() < 0.8 else ProviderErrorKind.INVALID_REQUEST
            raise ProviderError(kind, "the provider has a bad day")
        since = [message for message in request.messages if message.role is Role.ASSISTANT]
        called = {call.name for message in since for call in message.tool_calls}
        governed = outside.random("governed", thread, info.activity_id)
        if outside.governed and not called.isdisjoint(_TASKS) and governed.random() < LEFT_TASKS:
            raise ProviderError(ProviderErrorKind.INVALID_REQUEST, "the provider rejects what the task has left")
        waits = outside.aim == "awaiting_tasks" and not called.isdisjoint(_TASKS)
        if random.random() < (0.8 if waits else 0.25 + 0.05 * len(since)) or not request.tools:
            return answer(f"answer {info.activity_id}", ())
        names = [entry.id for entry in request.tools]
        preferred = _WEIGHTS | _AIMED_WEIGHTS.get(outside.aim, {})
        if outside.governed:
            preferred = preferred | (_GOVERNED_BELOW if "/" in thread else _GOVERNED_WEIGHTS)
            names += RULED if governed.random() < HIDDEN else ()
        weights = [preferred.get(name, 2) for name in names]
        calls = random.choices(names, weights, k=random.randint(1, MAX_CALLS))
        return answer("", tuple(ToolCall(id="", name=name, arguments=_arguments(name, random)) for name in calls))


async def _summary(thread: str, activity_id: str) -> ModelResponse:
    """A summary takes its time, or cannot be made at all."""
    random = outside.random("summary", thread, activity_id)
    await asyncio.sleep(random.choice([0, 0, 1, 5]))
    if random.random() < SUMMARY_FAILS:
        raise ProviderError(ProviderErrorKind.INVALID_REQUEST, "the provider makes no summary of this")
    return answer("A summary.", ())


def check_request(request: ModelRequest) -> None:
    """Note what a model is shown, and whether it is valid for every provider and the transcript that is meant."""
    thread = str(activity.info().workflow_id)
    outside.prompts.append((thread, request.messages))
    messages = _conversation(request.messages)
    # The window of a long conversation may begin with an answer; the provider that minds adds a message of the user.
    before = [_OMITTED] if messages and messages[0].role is Role.ASSISTANT else []
    try:
        check_every_provider([*before, *messages])
        meant = outside.transcripts.get((thread, activity.info().activity_id))
        # The beginning is left out, or what the provider may have rejected.
        is_cut = any(message.id == OPENING_ID or message.text == MESSAGE_NOTE for message in messages)
        if meant is not None and len(messages) == meant.length and not is_cut:
            assert reduce(chained, messages, EMPTY_DIGEST) == meant.digest, "the model is not shown its transcript"
    except AssertionError as error:
        outside.invalid_requests.append(f"{thread}: {error}")


_OMITTED = Message(id="omitted", role=Role.USER, content=(TextBlock(text="earlier messages are omitted"),))


def _conversation(messages: Sequence[Message]) -> list[Message]:
    """Providers send system messages apart."""
    return [message for message in messages if message.role is not Role.SYSTEM]


def answer(text: str, calls: tuple[ToolCall, ...]) -> ModelResponse:
    usage = Usage(prompt_tokens=10, completion_tokens=5, total_tokens=15)
    stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
    return ModelResponse(model="any", text=text, tool_calls=calls, usage=usage, stop_reason=stop)


def _arguments(name: str, random: Random) -> dict[str, JsonValue]:
    number = random.randrange(1000)
    if name.startswith("agent_run_"):
        return {"prompt": f"do {number}"}
    match name:
        case "spawn_agent":
            agents = ["helper", "leaf", "aide"] if outside.governed else ["helper", "leaf"]
            return {"agent": random.choice(agents), "prompt": f"do {number}", "name": f"task{number}"}
        case "ask":
            return {"topic": random.choice(_TOPICS)}
        case "pay" | "look" | "glance" | "later":
            return {"number": number}
        case "cancel_task":
            return {"target": random.choice(["bg_1", "bg_2", "self"])}
        case "task_result":
            return {"task": random.choice(["bg_1", "bg_2"])}
        case "send_message":
            to: dict[str, JsonValue] = random.choice(_RECIPIENTS)
            if outside.governed and random.random() < 0.5:
                to = _RECIPIENTS[0]
            return {"to": to, "message": f"message {number}"}
        case "recover_failed_messages":
            return {"action": random.choice(["list", "replay", "clear"])}
        case _:
            return {}


_TOPICS = ("plain", "twice", "result", "arguments", "cancels", "denies", "resumes", "overdue")
_RECIPIENTS: list[dict[str, JsonValue]] = [
    {"relation": "parent"},
    {"relation": "child", "name": "bg_1"},
    {"relation": "agent", "thread_id": "t1"},
    {"relation": "agent", "thread_id": "t2"},
    {"relation": "agent", "thread_id": "t3", "agent_id": "leaf"},
    {"relation": "agent", "thread_id": "missing"},
]


def _did(ctx: ToolContext) -> None:
    grant = ctx.resume_input.decision_id or f"deadline of {ctx.call_id}" if ctx.resume_input else ""
    thread = str(activity.info().workflow_id)
    if ctx.tenant != TENANT or ctx.metadata.get("user") != ctx.user:
        outside.strangers.append(f"{ctx.call_id} of {thread}: {ctx.tenant}, {ctx.user}, {dict(ctx.metadata)}")
    outside.effects.append(Effect(ctx.tool_name, ctx.idempotency_key, grant, ctx.attempt, thread, ctx.call_id))


def added_rules(*names: object) -> tuple[Rule, ...]:
    """The rules that a hook or a tool adds: most of them allow, also everything."""
    random = outside.random("rules", activity.info().workflow_id, *names)
    if not outside.governed or random.random() >= RULES_OF_HOOKS:
        return ()
    behavior = random.choices(list(Behavior), [4, 1, 1])[0]
    tools = ("*",) if behavior is Behavior.ALLOW and random.random() < 0.5 else RULED
    return (Rule(tool=random.choice(tools), behavior=behavior),)


@tool(read_only=True)
async def look(number: int) -> int:
    """Look something up."""
    return number + 1


@tool(read_only=True, local=True)
async def glance(number: int) -> int:
    """Look something up at once."""
    return number + 2


@tool
async def pay(number: int, ctx: ToolContext) -> str:
    """Pay, which must not happen twice."""
    _did(ctx)
    ctx.add_permissions(*added_rules(ctx.call_id))
    return f"paid {number}"


@tool(idempotent=True)
async def ask(topic: str, ctx: ToolContext) -> str:
    """Ask a person, then act."""
    if ctx.resume_input is None:
        _suspend(topic, ctx)
    if topic == "twice" and ctx.suspension_reason == "once?":
        ctx.suspend("twice?")
    _did(ctx)
    return f"allowed {topic}"


def _suspend(topic: str, ctx: ToolContext) -> None:
    match topic:
        case "twice":
            ctx.suspend("once?")
        case "result":
            ctx.suspend("what?", resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)
        case "arguments":
            ctx.suspend("how?", resume_mode=ResumeMode.PASS_DECISION_TO_TOOL)
        case "cancels":
            ctx.suspend("quickly?", expires_after=5)
        case "denies":
            ctx.suspend("quickly?", expires_after=3, on_expiry="deny")
        case "resumes":
            ctx.suspend("quickly?", expires_after=2, on_expiry="resume", default_result="yes")
        case "overdue":
            ctx.suspend("some day?", escalate_after=4)
        case _:
            ctx.suspend("may I?")


@tool(read_only=True, task_queue="elsewhere")
async def hold() -> str:
    """Take a long time."""
    await asyncio.sleep(20)
    return "held"


@tool(read_only=True)
async def count(ctx: ToolContext) -> int:
    """Write to the state, add a rule, and change the next request, or end the run with an answer."""
    ctx.state.add(COUNT, 1)
    ctx.state.add(SEEN, 1)
    ctx.remove_context_prefix("count")
    ctx.add_context(f"count.{ctx.call_id}", "You have counted.", persistent=True)
    ctx.exclude_tools("hold")
    ctx.override(InferenceOverrides(temperature=0))
    ctx.add_permissions(*added_rules(ctx.call_id))
    if outside.random("finish", activity.info().workflow_id, ctx.call_id).random() < ANSWERS_OF_HOOKS * 5:
        ctx.finish(f"counted in {ctx.call_id}")
    return 1


@tool
async def refuse(ctx: ToolContext) -> str:
    """Fail, often only after Temporal has retried the call."""
    info = activity.info()
    if outside.random("busy", info.workflow_id, ctx.call_id, info.attempt).random() < BUSY:
        raise RetryLater("it is busy")
    raise ToolError("it never works")


@tool(background=True, idempotent=True, task_queue="elsewhere")
async def later(number: int, ctx: ToolContext) -> int:
    """Work in the background."""
    ctx.emit("progress", {"number": number})
    if number % 5 == 0:
        ctx.emit_message(f"{number} is a round number")
    await asyncio.sleep(number % 3)
    return number


MISSING_HANDOFFS = 0.02
BUSY = 0.6
"""The share of attempts of `refuse` that are retried."""
PENDING_WORK = 0.05
"""The share of calls after which a hook holds the run open, until the model reads a message."""
ANSWERS_OF_HOOKS = 0.02
"""The share of requests that a hook answers; of the calls of `count`, five times as many end the run."""


class Watchful(Plugin):
    """Hooks in every phase that changes a run."""

    id = "watchful"
    state = (SEEN,)

    async def on_activate(self, ctx: HookContext) -> None:
        ctx.state.add(SEEN, 1)

    async def on_deactivate(self, ctx: HookContext) -> None:
        ctx.state.add(SEEN, 1)
        ctx.release("work")  # no hook of another agent would release it

    async def run_start(self, ctx: HookContext) -> None:
        ctx.state.add(SEEN, 1)
        ctx.add_permissions(*added_rules("run_start", activity.info().activity_id))

    async def before_inference(self, ctx: BeforeInference) -> None:
        ctx.add_context("note", "Be careful.")
        if ctx.messages[-1].role is Role.USER:
            ctx.release("work")
        info = activity.info()
        if outside.random("answer", info.workflow_id, info.activity_id).random() < ANSWERS_OF_HOOKS:
            ctx.finish(f"no need to ask at {info.activity_id}")

    async def after_inference(self, ctx: AfterInference) -> None:
        ctx.state.add(SEEN, 1)
        info = activity.info()
        ctx.add_permissions(*added_rules(info.activity_id))
        if outside.random("handoff", info.workflow_id, info.activity_id).random() < MISSING_HANDOFFS:
            ctx.handoff(MISSING_AGENT)

    async def tool_gate(self, ctx: ToolGate) -> None:
        if ctx.tool_name == "later" and not ctx.approved and _number(ctx.arguments) % 4 == 0:
            ctx.suspend("in the background?", expires_after=30, on_expiry="resume")
        if ctx.tool_name == "pay" and not ctx.approved:
            if _number(ctx.arguments) % 10 == 0:
                ctx.block("never that much")
            elif _number(ctx.arguments) % 3 == 0:
                ctx.suspend("that much?")

    async def after_tool_execute(self, ctx: AfterToolExecute) -> None:
        ctx.emit("executed")
        if (staged := await ctx.transcript(ENTRIES)) and all(ctx.call.id != call.id for call in _calls(staged)):
            outside.invalid_requests.append(f"{activity.info().workflow_id}: {ctx.call.id} is not in its conversation")
        if outside.random("hold", activity.info().workflow_id, ctx.call.id).random() < PENDING_WORK:
            ctx.hold("work", f"the work of {ctx.call.id}")

    async def step_end(self, ctx: StepEnd) -> None:
        ctx.emit("step")

    async def run_end(self, ctx: RunEnd) -> None:
        ctx.state.add(SEEN, 1)


def _calls(messages: Sequence[Message]) -> list[ToolCall]:
    return [call for message in messages for call in message.tool_calls]


def _number(arguments: JsonValue) -> int:
    number = arguments.get("number") if isinstance(arguments, Mapping) else None
    return number if isinstance(number, int) else 0


_WINDOW = ContextPolicy(
    max_context_tokens=3000, max_output_tokens=1000, autocompact_threshold=120, min_savings_ratio=0.0
)

_PAYING_IS_ASKED = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(Rule(tool="pay", behavior=Behavior.ASK),))
_ANYTHING_IS_ALLOWED = PermissionPolicy(
    default_behavior=Behavior.ALLOW, rules=(Rule(tool="*", behavior=Behavior.ALLOW),)
)
_MUCH_IS_ASKED = PermissionPolicy(
    default_behavior=Behavior.ALLOW,
    rules=(Rule(tool="pay", behavior=Behavior.ASK), Rule(tool="later", behavior=Behavior.ASK)),
)

REGISTRY = Registry(
    agents=[
        Agent(
            id="lead",
            tools=[look, glance, pay, ask, hold, count, refuse, later],
            tool_mode=ToolMode.PARALLEL,
            state=[COUNT, SEEN],
            delegates=["helper"],
            spawns=["helper", "leaf", "aide"],
            handoffs=["second"],
            messages=["any"],
            plugins=[Watchful()],
            stop_conditions=[Timeout(seconds=45)],
            context=_WINDOW,
            max_rounds=12,
        ),
        Agent(
            id="second",
            tools=[look, pay, ask, count, later],
            state=[COUNT, SEEN],
            handoffs=["lead"],
            permissions=_MUCH_IS_ASKED,
            context=_WINDOW,
            max_rounds=8,
        ),
        Agent(
            id="plain",
            tools=[look, glance, pay, ask, later],
            permissions=_PAYING_IS_ASKED,
            context=_WINDOW,
            max_rounds=8,
        ),
        Agent(
            id="frugal",
            tools=[look, pay],
            delegates=["helper"],
            spawns=["leaf", "aide"],
            budget=Budget(turns=6, tool_calls=8, seconds=60),
            tool_mode=ToolMode.PARALLEL,
            messages=["any"],
            context=_WINDOW,
        ),
        Agent(
            id="helper",
            tools=[look, ask, hold],
            permissions=_ANYTHING_IS_ALLOWED,
            delegates=["leaf"],
            spawns=["leaf"],
            messages=["any"],
            context=_WINDOW,
            max_rounds=4,
        ),
        Agent(
            id="aide",
            tools=[look, count, pay, later],
            state=[COUNT, SEEN],
            permissions=_ANYTHING_IS_ALLOWED,
            spawns=["leaf"],
            messages=["any"],
            context=_WINDOW,
            max_rounds=4,
        ),
        Agent(id="leaf", tools=[look, count], state=[COUNT, SEEN], messages=["any"], max_rounds=3),
    ],
    models={"default": AnyModel()},
)

OLDER_REGISTRY = Registry(
    agents=[
        Agent(id="plain", tools=[look, ask, later], context=_WINDOW, max_rounds=8),
        *(REGISTRY.agents[id] for id in ("helper", "leaf")),
    ],
    models={"default": AnyModel()},
)
"""Of the release before: it has neither `lead`, `second`, `frugal` and `aide`, nor `pay` and `glance`, nor a plugin."""

ROOT_AGENTS = ("lead", "plain", "frugal", "second")


def decision_result(topic: JsonValue) -> JsonValue:
    """What a person decides, so that it fits the question."""
    return {"topic": "edited"} if topic == "arguments" else {"answer": json.dumps(topic)}
