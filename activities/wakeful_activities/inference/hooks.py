"""Hooks around a model call: what they want of the request, and what they make of the answer."""

import contextlib
from functools import partial

from wakeful.authoring.hook_contexts import AfterInference, BeforeInference, StepEnd, StepStart
from wakeful.authoring.hook_requests import HookRequests
from wakeful.context.messages import ContextMessages, LastShown
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import ContextMessage
from wakeful.contract.hooks import LifecyclePhase, Phase
from wakeful.contract.inference import InferInput, ModelResponse
from wakeful.contract.messages import Message, Role
from wakeful.registry.plugin_bindings import CONTEXT_THROTTLE
from wakeful_activities.hooks.hook_run import HookRun, Making
from wakeful_activities.inference.build_request import Shape

BEFORE = (Phase.STEP_START, Phase.BEFORE_INFERENCE)
INFERENCE = (*BEFORE, Phase.AFTER_INFERENCE, Phase.TOOL_GATE)


def has_hooks(agent: ResolvedAgent, input: InferInput) -> bool:
    """Whether plugins have anything to do with this inference."""
    return bool(input.ended_step) or agent.has_hooks(*INFERENCE)


async def shaped(hooks: HookRun, input: InferInput, shape: Shape, history: tuple[Message, ...]) -> Shape:
    """The request as `step_start` and then `before_inference` want it, unless one of them wants something else.

    Before that, `step_end` hears of the step before: so it costs nothing of its own.
    What they tell the model is told now. The loop hears only of what stays to be told.
    """
    if input.ended_step:
        said = next((message.text for message in reversed(history) if message.role is Role.ASSISTANT), "")
        for binding in hooks.at(LifecyclePhase.STEP_END):
            await hooks.ask(binding, LifecyclePhase.STEP_END, partial(StepEnd, response=said))
        if hooks.is_over:
            return shape
    for phase, kind in zip(BEFORE, (StepStart, BeforeInference), strict=True):
        for binding in hooks.at(phase):
            messages = hooks.requests.messages
            # Copies of its own: a hook that changes one and fails must have changed nothing.
            own = tuple(message.model_copy(deep=True) for message in (history if messages is None else messages))
            make: Making = partial(kind, messages=own)
            await hooks.ask(binding, phase, make)
        if hooks.is_over:
            return shape
    told = _due(hooks, hooks.requests.context, step=input.step)
    context = ContextMessages(tuple(each for each in shape.context if each.key not in hooks.requests.forget))
    for message in told:
        context = context.upserting(message)
    asked = hooks.requests
    asked.context = tuple(message for message in asked.context if message.stays)
    return Shape(
        context=context.messages,
        permissions=(*shape.permissions, *asked.permissions),
        overrides=asked.overrides.over(shape.overrides),
        requests=HookRequests(excluded=asked.excluded, included=asked.included, messages=asked.messages),
    )


async def after_inference(hooks: HookRun, response: ModelResponse) -> ModelResponse:
    """The answer as `after_inference` leaves it; each hook reads what the one before it made of the text."""
    for binding in hooks.at(Phase.AFTER_INFERENCE):
        make: Making = partial(AfterInference, response=response.model_copy(deep=True))
        text = (await hooks.ask(binding, Phase.AFTER_INFERENCE, make)).text
        if text is not None:
            response = response.model_copy(update={"text": text})
    return response


def _due(hooks: HookRun, told: tuple[ContextMessage, ...], *, step: int) -> tuple[ContextMessage, ...]:
    """Those of the messages that their cooldown lets be shown; when they were shown last is kept in the run's state."""
    if not any(message.cooldown_turns for message in told) or not hooks.state.declares(CONTEXT_THROTTLE):
        return told
    last: list[LastShown] = hooks.state.get(CONTEXT_THROTTLE)
    messages = ContextMessages(told, tuple(last))
    shown = list(messages.after(step).shown)
    if shown != last:
        with contextlib.suppress(ValueError):  # the state is full: better told too often than a run that fails
            hooks.state.set(CONTEXT_THROTTLE, shown)
    return messages.due(step)
