"""Hooks around a model call: those before it change the request, those after it change the answer.

Results that gates set together with the answer have hooks of `after_tool_execute`, as those of tools have.
"""

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial

from wakeful.authoring.hook_contexts import AfterInference, BeforeInference, StepEnd, StepStart
from wakeful.authoring.hook_requests import HookRequests
from wakeful.context.messages import ContextMessages
from wakeful.contract.agents import ResolvedAgent, ToolMode
from wakeful.contract.context import ContextMessage, LastShown
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.hooks import LifecyclePhase, Phase
from wakeful.contract.inference import InferInput, ModelResponse
from wakeful.contract.messages import Message, Role, ToolCall
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.loop.calls.gates import final_calls
from wakeful.registry.plugin_bindings import CONTEXT_THROTTLE
from wakeful_activities.hooks.hook_run import HookRun, MakeContext
from wakeful_activities.inference.build_request import RequestShape

PHASES_BEFORE = (Phase.STEP_START, Phase.BEFORE_INFERENCE)
PHASES = (*PHASES_BEFORE, Phase.AFTER_INFERENCE, Phase.TOOL_GATE, Phase.AFTER_TOOL_EXECUTE)


def has_hooks(agent: ResolvedAgent, input: InferInput) -> bool:
    """Whether this inference runs any hooks."""
    return bool(input.ended_step) or agent.has_hooks(*PHASES)


async def before_inference(
    hooks: HookRun, input: InferInput, shape: RequestShape, history: tuple[Message, ...]
) -> RequestShape:
    """The request as the hooks of `step_start` and then `before_inference` change it, unless one ends the run.

    Hooks of `step_end` run first, for the step before: so they need no activity of their own. This request includes
    every context message that hooks add; only the persistent ones are passed on to the loop.
    """
    if input.ended_step:
        answer = next((message.text for message in reversed(history) if message.role is Role.ASSISTANT), "")
        for binding in hooks.bindings(LifecyclePhase.STEP_END):
            await hooks.run(binding, LifecyclePhase.STEP_END, partial(StepEnd, response=answer))
        if hooks.ends_run:
            return shape
    for phase, kind in zip(PHASES_BEFORE, (StepStart, BeforeInference), strict=True):
        for binding in hooks.bindings(phase):
            messages = hooks.requests.messages
            # Copies: a hook that changes a message and then fails must have changed nothing.
            copies = tuple(message.model_copy(deep=True) for message in (history if messages is None else messages))
            make: MakeContext = partial(kind, messages=copies)
            await hooks.run(binding, phase, make)
        if hooks.ends_run:
            return shape
    return _shaped(hooks, shape, step=input.step)


async def after_inference(hooks: HookRun, response: ModelResponse) -> ModelResponse:
    """The answer as the hooks of `after_inference` change it; each reads the text that the one before it left."""
    for binding in hooks.bindings(Phase.AFTER_INFERENCE):
        make: MakeContext = partial(AfterInference, response=response.model_copy(deep=True))
        text = (await hooks.run(binding, Phase.AFTER_INFERENCE, make)).text
        if text is not None:
            response = response.model_copy(update={"text": text})
    return response


async def after_verdicts(
    hooks: HookRun,
    calls: Sequence[ToolCall],
    verdicts: Mapping[str, Verdict],
    tools: Mapping[str, ToolDescriptor],
    mode: ToolMode,
) -> Mapping[str, Verdict]:
    """The verdicts with results as hooks of `after_tool_execute` leave them, where no activity runs for the call.

    A verdict that the call's own activity gives again is not changed: the hooks run there. Nor do they run for calls
    that a blocked one interrupts.
    """
    final, changed = final_calls(calls, verdicts, tools.get), dict(verdicts)
    judged = [call for call in calls if call.id in final and call.name in tools]
    blocked = next((place for place, call in enumerate(judged) if isinstance(verdicts[call.id], Block)), None)
    if blocked is not None:
        judged = judged[: blocked + 1] if mode is ToolMode.SEQUENTIAL else [judged[blocked]]
    for call in judged:
        tool = tools[call.name]
        match verdicts[call.id]:
            case SetResult(result=result):
                changed[call.id] = SetResult(result=await hooks.result(call, tool, result))
            case Block() as block:
                error = ToolResult.rejected(call.name, block.reason)
                result = await hooks.result(call, tool, error)
                changed[call.id] = block.model_copy(update={"result": None if result == error else result})
            case Suspend():
                pass
    return changed


def _shaped(hooks: HookRun, shape: RequestShape, *, step: int) -> RequestShape:
    requests = hooks.requests
    context = ContextMessages(tuple(each for each in shape.context if not requests.forgets(each.key)))
    for message in _due(hooks, requests.context, step=step):
        context = context.upserting(message)
    requests.context = tuple(message for message in requests.context if message.stays)
    changed = HookRequests(
        excluded=shape.requests.excluded | requests.excluded,
        included=shape.requests.included,
        messages=requests.messages,
    )
    if requests.included is not None:
        changed.include_only(requests.included)
    overrides = requests.overrides.over(shape.overrides)
    # What hooks request from here on is for the next request.
    requests.overrides, requests.excluded, requests.included = InferenceOverrides(), frozenset(), None
    return RequestShape(
        context=context.messages,
        permissions=(*shape.permissions, *requests.permissions),
        overrides=overrides,
        requests=changed,
    )


def _due(hooks: HookRun, added: tuple[ContextMessage, ...], *, step: int) -> tuple[ContextMessage, ...]:
    """The messages whose cooldown is over; the run's state records when each was last shown."""
    if not any(message.cooldown_turns for message in added) or not hooks.state.declares(CONTEXT_THROTTLE):
        return added
    last: list[LastShown] = hooks.state.get(CONTEXT_THROTTLE)
    messages = ContextMessages(added, tuple(last))
    shown = list(messages.after(step).shown)
    if shown != last:
        with contextlib.suppress(ValueError):  # the state is full: a message shown too often beats a failed run
            hooks.state.set(CONTEXT_THROTTLE, shown)
    return messages.due(step)
