"""Ask permission rules, gates and then plugins about a call, and make one verdict of what they say.

Whatever goes wrong while they are asked blocks the call: a gate that raises, takes too long, says something that is no
verdict, or is not on this worker never lets a call through. A plugin's hook that fails blocks it too, or fails the run.
"""

import asyncio
import copy
import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from temporalio import activity

from wakeful.authoring.gate import Gate, GateCall, stronger
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.permissions import Behavior, Rule
from wakeful.permissions.parsing import naming
from wakeful.permissions.rules import evaluate
from wakeful.registry.registry import Registry
from wakeful_activities.hooks.hook_run import HookRun
from wakeful_activities.results import cut_to_fit, returning

TIMEOUT_SECONDS = 30.0
"""How long one gate may take to answer."""


class Gates:
    """The gates that this worker's registry has.

    Args:
        threads: for sync gates. Not those of tools, nor asyncio's own, which resolve host names: gates that hang must
            not take those along.
    """

    def __init__(
        self, registry: Registry, threads: ThreadPoolExecutor, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._registry = registry
        self._threads = threads
        self._timeout_seconds = timeout_seconds

    async def verdicts(
        self, agent: ResolvedAgent, rules: Sequence[Rule], calls: Sequence[GateCall], plugins: HookRun | None = None
    ) -> Mapping[str, Verdict]:
        """What there is to say of the calls of one answer, by call id; a call that may be made is not among them."""
        verdicts = {}
        for call in calls:
            verdict = await self.verdict(agent, rules, call, plugins)
            if verdict is not None:
                verdicts[call.call_id] = verdict
        return verdicts

    async def verdict(
        self, agent: ResolvedAgent, rules: Sequence[Rule], call: GateCall, plugins: HookRun | None = None
    ) -> Verdict | None:
        """The first that blocks, or the first that suspends, or the first result; permission rules are asked first."""
        strongest = _permission(agent, rules, call)
        for name in agent.gates:
            if isinstance(strongest, Block):
                break
            strongest = stronger(strongest, await self._ask(name, call))
        return strongest if plugins is None else await plugins.verdict(call, strongest)

    async def _ask(self, name: str, call: GateCall) -> Verdict | None:
        gate = self._registry.gate(name)
        if gate is None:
            return _failed(name, "it is not on this worker; is its registry up to date?")
        try:
            async with asyncio.timeout(self._timeout_seconds) as deadline:
                # Its own copy: a gate that changes the arguments must not change what others see or what runs.
                said = await self._call(gate, replace(call, arguments=copy.deepcopy(call.arguments)))
        except Exception as error:  # the boundary: whatever a gate raises, the call is not made
            if deadline.expired():
                return _failed(name, f"no answer within {self._timeout_seconds:g} s")
            activity.logger.warning("gate raised", extra={"gate": name}, exc_info=error)
            return _failed(name, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        match said:
            case None | Block() | Suspend():
                return said
            case SetResult(result=result):
                return SetResult(result=cut_to_fit(result))
            case _:
                return _failed(name, f"it returned a {type(said).__name__}, which is no verdict")

    async def _call(self, gate: Gate, call: GateCall) -> object:
        if gate.is_async:
            said: object = gate(call)
        else:
            said = await asyncio.get_running_loop().run_in_executor(self._threads, returning, gate, call)
        return await said if inspect.isawaitable(said) else said


def is_gated(agent: ResolvedAgent, rules: Sequence[Rule]) -> bool:
    """Whether there is anybody to ask."""
    return bool(agent.gates or agent.permissions or rules)


def _permission(agent: ResolvedAgent, rules: Sequence[Rule], call: GateCall) -> Verdict | None:
    name = call.tool_name
    try:
        ruling = evaluate(agent.permissions, rules, name, call.arguments)
    except (ValueError, RecursionError) as error:
        return Block(reason=f"Tool '{name}' denied: its permission rules could not be evaluated: {error}")
    match ruling.behavior:
        case Behavior.ALLOW:
            return None
        case Behavior.DENY:
            return Block(reason=f"Tool '{name}' denied by permission rules")
        case Behavior.ASK:
            return None if call.approved else Suspend(ticket=_permission_ticket(call))


def _permission_ticket(call: GateCall) -> SuspensionTicket:
    suspension = Suspension(
        id=f"perm_{call.call_id}",
        action="tool:PermissionConfirm",
        message=f"Permission required for tool '{call.tool_name}'",
        parameters=call.arguments,
    )
    return SuspensionTicket(
        suspension=suspension,
        pending=call.call,
        resume_mode=ResumeMode.REPLAY_TOOL_CALL,
        remember=naming(call.tool_name),
    )


def _failed(name: str, why: str) -> Block:
    return Block(reason=f"gate '{name}' failed: {why}")
