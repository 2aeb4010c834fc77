"""Runs an agent with plugins in the activities that run hooks, step by step, and applies what the hooks request.

It stands in for the loop, as far as plugins can see it; tests on the real server use the loop itself.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import ActivityEnvironment

from tests.support.app import Recording
from wakeful import Agent, ContextMessage, Message, ModelRequest, ModelResponse, Registry, Role, Rule, TextBlock, say
from wakeful.authoring.scripted import Turn
from wakeful.contract.hooks import HookEffects, HookFailure
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateView, applied
from wakeful.contract.tools import ToolCallInput, ToolOutcome
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful_activities import HistoryCache, InferActivity, ToolActivity
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.user_code import UserCode

IDENTITY = RunIdentity(thread_id="test", run_id="r", agent_id="a")


def user(text: str, id: str = "1") -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text=text),))


class World:
    """One run of an agent. `infer` starts the next step, and `call_tool` runs a tool call in it."""

    def __init__(self, agent: Agent, turns: Sequence[Turn] = (say("hello"),)) -> None:
        self.model = Recording(turns)
        self.registry = Registry(agents=[agent], models={agent.model: self.model})
        self.agent = self.registry.resolve(agent.id)
        self.step = 0
        self.values: dict[str, JsonValue] = {}
        self.context: tuple[ContextMessage, ...] = ()
        self.rules: tuple[Rule, ...] = ()
        self.failures: list[HookFailure] = []

    @property
    def request(self) -> ModelRequest:
        """The last request to the model."""
        return self.model.requests[-1]

    @property
    def shown(self) -> list[str]:
        """The tools of the last request."""
        return [tool.id for tool in self.request.tools]

    async def infer(self, *messages: Message) -> ModelResponse:
        self.step += 1
        digest = EMPTY_DIGEST
        messages = messages or (user("go"),)
        for message in messages:
            digest = chained(digest, message)
        input = InferInput(
            agent=self.agent.digest(),
            transcript=TranscriptRef(length=len(messages), digest=digest),
            appended=messages,
            identity=IDENTITY,
            step=self.step,
            state=StateView(values=self.values),
            context=self.context,
            permissions=self.rules,
        )
        self.context = ()
        inference = InferActivity(self.registry, self._cache(), *self._hooks_and_gates(UserCode()), {})
        response = await _environment().run(inference.infer, input)
        self._fold(response.effects)
        return response

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue] | None = None, **more: Any) -> ToolOutcome:
        input = ToolCallInput(
            call=ToolCall(id="c", name=name, arguments=dict(arguments or {})),
            identity=IDENTITY,
            idempotency_key="k",
            agent=self.agent.digest(),
            step=self.step,
            state=StateView(values=self.values),
            permissions=self.rules,
        ).model_copy(update=more)
        (payload,) = pydantic_data_converter.payload_converter.to_payloads([input])
        user_code = UserCode()
        execution = ToolActivity(self.registry, self._cache(), *self._hooks_and_gates(user_code), user_code)
        outcome = await _environment(tool=input.call.name).run(execution.call_tool, [RawValue(payload)])
        self._fold(outcome.effects)
        return outcome

    def _hooks_and_gates(self, user_code: UserCode) -> tuple[Hooks, Gates]:
        return Hooks(self.registry, user_code), Gates(self.registry, user_code)

    def _cache(self) -> HistoryCache:
        cache = HistoryCache(cast("Client", None))  # it has the agent, so it never reads history
        cache.put_agent(self.agent)
        return cache

    def _fold(self, effects: HookEffects | None) -> None:
        if effects is None:
            return
        specs = {spec.key: spec for spec in self.agent.state_keys}
        for op in effects.state:
            self.values[op.key] = applied(specs[op.key], self.values.get(op.key), op)
        self.context += effects.context
        self.rules += effects.permissions
        self.failures += effects.failures


def _environment(*, tool: str = "unknown") -> ActivityEnvironment:
    made = ActivityEnvironment()
    made.info = dataclasses.replace(made.info, activity_type=tool)
    made.payload_converter = pydantic_data_converter.payload_converter
    return made
