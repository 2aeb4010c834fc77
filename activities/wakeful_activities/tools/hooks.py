"""Hooks around a tool call: what may keep it from being made, and what may be made of its result."""

import copy
from functools import partial

from wakeful.authoring.hook_contexts import AfterToolExecute, BeforeToolExecute
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.hooks import Phase
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult, ToolStatus
from wakeful_activities.hooks.hook_run import HookRun, Making
from wakeful_activities.results import cut_to_fit


class HookedCall:
    """One call, with the hooks that its agent's plugins have for it."""

    def __init__(self, hooks: HookRun, agent: ResolvedAgent, input: ToolCallInput) -> None:
        self.hooks = hooks
        self.input = input
        self.tool = next((tool for tool in agent.tools if tool.id == input.call.name), None)

    async def before(self) -> ToolOutcome | None:
        """What comes of the call instead of being made, if `before_tool_execute` has it so; the first one counts."""
        for binding in self.hooks.at(Phase.BEFORE_TOOL_EXECUTE):
            requests = await self.hooks.ask(binding, Phase.BEFORE_TOOL_EXECUTE, self._making(BeforeToolExecute))
            if (outcome := self.ended()) is not None:
                return outcome
            if requests.result is not None:
                return ToolOutcome(result=cut_to_fit(requests.result))
        return self.ended()

    def ended(self) -> ToolOutcome | None:
        """What a call comes to that is not made because a hook wants the run to end."""
        asked, name = self.hooks.requests, self.input.call.name
        if (reason := asked.block) is not None:
            asked.block = None  # it is about this call, and told with it
            return ToolOutcome(result=ToolResult.error(name, reason), blocked=reason)
        if self.hooks.is_over:
            why = self.hooks.failure or (asked.stop.detail or asked.stop.code if asked.stop else "")
            return ToolOutcome(result=ToolResult.error(name, f"the call was not made, because the run ends: {why}"))
        return None

    async def after(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome as `after_tool_execute` leaves it; a call that waits has none yet."""
        if outcome.result.status is ToolStatus.PENDING:
            return outcome
        for binding in self.hooks.at(Phase.AFTER_TOOL_EXECUTE):
            make = self._making(partial(AfterToolExecute, result=outcome.result.model_copy(deep=True)))
            result = (await self.hooks.ask(binding, Phase.AFTER_TOOL_EXECUTE, make)).result
            if result is not None:
                outcome = outcome.model_copy(update={"result": cut_to_fit(result)})
        return outcome

    def _making(self, kind: Making) -> Making:
        # Its own copy: a hook that changes the arguments must not change what others see or what runs.
        call = self.input.call.model_copy(deep=True)
        return partial(kind, call=call, tool=copy.deepcopy(self.tool), resume=copy.deepcopy(self.input.resume))
