"""The `run_hooks` activity: hooks of the lifecycle phases, which run beside no other activity."""

from functools import partial

from temporalio import activity

from wakeful.authoring.hook_contexts import HookContext, RunEnd, StepEnd
from wakeful.contract.hooks import HookEffects, HooksInput, LifecyclePhase
from wakeful.contract.names import ACTIVITY_HOOKS
from wakeful_activities.error_texts import failure_of
from wakeful_activities.heartbeats import HeartbeatIntervals, heartbeating
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.hooks.hook_run import Hooks, MakeContext
from wakeful_activities.other_workers import OtherWorkers, check_executed, executed_before, missing_before

ATTEMPTS = 3
"""Of hooks on workers that have them."""


class HooksActivity:
    """The `run_hooks` activity: at a run's start and end, after a step, and when an agent takes over."""

    def __init__(
        self, cache: HistoryCache, hooks: Hooks, intervals: HeartbeatIntervals, others: OtherWorkers | None = None
    ) -> None:
        self._cache = cache
        self._hooks = hooks
        self._intervals = intervals
        self._others = others

    @activity.defn(name=ACTIVITY_HOOKS)
    async def run_hooks(self, input: HooksInput) -> HookEffects:
        missing = missing_before()
        check_executed(missing, ATTEMPTS)
        with heartbeating(lambda: (missing,) if missing else (), self._intervals):
            return await self._run(input, executed_before(missing) + 1)

    async def _run(self, input: HooksInput, attempt: int) -> HookEffects:
        try:
            agent = await self._cache.agent(input.agent)
        except Exception as error:  # the attempts are counted here, so the last one has to say why it failed
            what, is_final = "the agent of the run could not be read", attempt >= ATTEMPTS
            activity.logger.debug(what, exc_info=error)
            raise failure_of(what, f"{what}: {error}", type=type(error).__name__, non_retryable=is_final) from None
        if self._others is not None and (lacking := self._others.lacking(agent)) is not None:
            await self._others.leave(lacking)  # if the patience is over, the plugin fails as its `on_error` says
        hooks = self._hooks.begin(agent, input.identity, input.step, input.state, input.metadata)
        for phase in input.phases:
            for binding in hooks.bindings(phase):
                await hooks.run(binding, phase, _context_at(phase, input))
        return hooks.effects or HookEffects(base=hooks.state.base)


def _context_at(phase: LifecyclePhase, input: HooksInput) -> MakeContext:
    match phase:
        case LifecyclePhase.STEP_END:
            return partial(StepEnd, response=input.response)
        case LifecyclePhase.RUN_END:
            assert input.result is not None  # the loop passes the result of a run that ends
            return partial(RunEnd, result=input.result.model_copy(deep=True))
        case LifecyclePhase.ACTIVATE | LifecyclePhase.RUN_START | LifecyclePhase.DEACTIVATE:
            return HookContext
