"""Hooks around a tool call: they can replace the call, or its result."""

import copy
from functools import partial

from wakeful.authoring.hook_contexts import BeforeToolExecute
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.hooks import Phase
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult
from wakeful_activities.hooks.hook_run import HookRun, MakeContext
from wakeful_activities.results import cut_to_fit


class HookedCall:
    """One call, with the hooks that its agent's plugins have for it."""

    def __init__(self, hooks: HookRun, agent: ResolvedAgent, input: ToolCallInput) -> None:
        self.hooks = hooks
        self.input = input
        self.tool = next((tool for tool in agent.tools if tool.id == input.call.name), None)

    async def before(self) -> ToolOutcome | None:
        """The outcome that a `before_tool_execute` hook sets, so that the call is not executed; the first counts."""
        for binding in self.hooks.bindings(Phase.BEFORE_TOOL_EXECUTE):
            requests = await self.hooks.run(binding, Phase.BEFORE_TOOL_EXECUTE, self._making(BeforeToolExecute))
            if (outcome := self.outcome_if_run_ends()) is not None:
                return outcome
            if requests.result is not None:
                return ToolOutcome(result=cut_to_fit(requests.result))
        return self.outcome_if_run_ends()

    def outcome_if_run_ends(self) -> ToolOutcome | None:
        """The outcome of a call that is not executed because a hook ends the run."""
        requests, name = self.hooks.requests, self.input.call.name
        if (reason := requests.block) is not None:
            requests.block = None  # it concerns this call, and its outcome reports it
            return ToolOutcome(result=ToolResult.rejected(name, reason), blocked=reason)
        if self.hooks.ends_run:
            stop = requests.stop
            why = self.hooks.failure or ((stop.detail or stop.code) if stop else "a hook has answered")
            return ToolOutcome(result=ToolResult.error(name, f"The call was not executed, because the run ends: {why}"))
        return None

    async def after(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome as `after_tool_execute` hooks leave it."""
        result = await self.hooks.result(self.input.call, self.tool, outcome.result, self.input.resume)
        return outcome if result is outcome.result else outcome.model_copy(update={"result": result})

    def _making(self, kind: MakeContext) -> MakeContext:
        # Copies: a hook that changes the arguments must not change what other hooks see or what runs.
        call = self.input.call.model_copy(deep=True)
        return partial(
            kind,
            call=call,
            tool=copy.deepcopy(self.tool),
            resume=copy.deepcopy(self.input.resume),
            read_transcript=self.hooks.read_transcript,
        )
