"""Evaluate permission rules, gates and then `tool_gate` hooks on a call, which gives one verdict.

Gates fail closed: a gate that raises, times out, returns something that is no verdict, or is not in this worker's
registry blocks the call. A plugin's hook that fails blocks it too, or fails the run.
"""

import asyncio
import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wakeful.authoring.gate import GateCall, stronger
from wakeful.contract import ids, names
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.permissions import Behavior, Rule
from wakeful.permissions.parsing import naming
from wakeful.permissions.rules import Ruling, judge, run_context
from wakeful.registry.registry import Registry
from wakeful.telemetry.log_causes import log_failure
from wakeful_activities.hooks.hook_run import HookRun
from wakeful_activities.results import cut_to_fit
from wakeful_activities.user_code import UserCode, described

_logger = logging.getLogger("wakeful")

TIMEOUT_SECONDS = 30.0
"""How long one gate may take."""


class Gates:
    """The gates of this worker's registry."""

    def __init__(self, registry: Registry, user_code: UserCode, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._registry = registry
        self._user_code = user_code
        self._timeout_seconds = timeout_seconds

    async def verdicts(
        self,
        agent: ResolvedAgent,
        rules: Sequence[Rule],
        calls: Sequence[GateCall],
        plugins: HookRun | None = None,
        *,
        questions: Sequence[Sequence[Rule]] = (),
    ) -> Mapping[str, Verdict]:
        """The verdicts on the calls of one answer, by call id; an allowed call has none."""
        verdicts = {}
        for call in calls:
            verdict = await self.verdict(agent, rules, call, plugins, questions=questions)
            if verdict is not None:
                verdicts[call.call_id] = verdict
        return verdicts

    async def verdict(
        self,
        agent: ResolvedAgent,
        rules: Sequence[Rule],
        call: GateCall,
        plugins: HookRun | None = None,
        *,
        questions: Sequence[Sequence[Rule]] = (),
    ) -> Verdict | None:
        """The first block, else the first suspension, else the first result; rules come first. None allows the call."""
        strongest = _permission(agent, rules, questions, call)
        for name in agent.gates:
            if isinstance(strongest, Block):
                break
            strongest = stronger(strongest, await self._evaluate(name, call))
        return strongest if plugins is None else await plugins.verdict(call, strongest)

    async def _evaluate(self, name: str, call: GateCall) -> Verdict | None:
        gate = self._registry.gate(name)
        if gate is None:
            return _failed(name, "it is not in this worker's registry; is the registry up to date?")
        try:
            async with asyncio.timeout(self._timeout_seconds) as deadline:
                verdict = await self._user_code.call(f"gate {name}", gate.function, self._own(call))
        except Exception as error:  # the boundary: whatever a gate raises, it blocks the call
            if deadline.expired():
                return _failed(name, f"it took longer than {self._timeout_seconds:g} s")
            log_failure(_logger, "gate raised", error, extra={"gate": name})
            return _failed(name, described(error))
        match verdict:
            case None | Block() | Suspend():
                return verdict
            case SetResult(result=result):
                return SetResult(result=cut_to_fit(result))
            case _:
                return _failed(name, f"it returned a {type(verdict).__name__}, which is no verdict")

    def _own(self, call: GateCall) -> GateCall[Any]:
        """A copy: a gate that changes the arguments must not change what other gates see or what runs."""
        arguments, metadata = copy.deepcopy((call.arguments, call.metadata))
        return replace(call, arguments=arguments, metadata=metadata, deps=self._user_code.dependencies.value)


def is_gated(agent: ResolvedAgent, rules: Sequence[Rule]) -> bool:
    """Whether the agent has gates or rules to evaluate."""
    return bool(agent.gates or agent.permissions or rules) or any(tool.mcp and tool.mcp.changed for tool in agent.tools)


def _permission(
    agent: ResolvedAgent, rules: Sequence[Rule], questions: Sequence[Sequence[Rule]], call: GateCall
) -> Verdict | None:
    context = run_context(call.identity, call.metadata)
    policy, arguments = agent.permissions, call.arguments
    ruling = judge(policy, rules, call.tool_name, arguments, questions=questions, context=context)
    if (reason := ruling.denial_of(call.tool_name)) is not None:
        return Block(reason=reason, rule=ruling.decided_by)
    if call.approved:
        return None
    changed = _changed(agent, call.tool_name)
    asks = ruling.behavior is Behavior.ASK or changed is not None
    return Suspend(ticket=_permission_ticket(call, ruling, changed)) if asks else None


def _changed(agent: ResolvedAgent, tool_name: str) -> str | None:
    """How the server of a tool differs from what is pinned. No rule allows such a call: it was written for the pin."""
    return next((tool.mcp.changed for tool in agent.tools if tool.id == tool_name and tool.mcp), None)


def _permission_ticket(call: GateCall, ruling: Ruling, changed: str | None) -> SuspensionTicket:
    question, asking = ruling.question_about(call.tool_name), ruling.rule
    suspension = Suspension(
        id=ids.permission_suspension_id(call.call_id),
        action=names.ACTION_PERMISSION,
        message=f"{question}: {changed}" if changed else question,
        parameters=call.arguments,
        expiry=asking.expiry if asking else None,
        escalate_after_seconds=asking.escalate_after if asking else None,
    )
    return SuspensionTicket(
        suspension=suspension,
        pending=call.call,
        resume_mode=ResumeMode.REPLAY_TOOL_CALL,
        remember=None if changed else naming(call.tool_name),
    )


def _failed(name: str, why: str) -> Block:
    return Block(reason=f"gate '{name}' failed: {why}")
