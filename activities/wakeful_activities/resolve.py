"""The `resolve_agent` activity: bind a run to the agent that the registry has now, which history then records."""

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.contract.agents import HistoryBudget, Resolution, ResolveInput
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.names import ACTIVITY_RESOLVE_AGENT
from wakeful.loop.machine.state import REVISION
from wakeful.registry.registry import Registry
from wakeful_activities.history_cache import HistoryCache


class ResolveActivity:
    """The `resolve_agent` activity."""

    def __init__(
        self, registry: Registry, cache: HistoryCache, *, search_attributes: tuple[str, ...], budget: HistoryBudget
    ) -> None:
        self._registry = registry
        self._cache = cache
        self._search_attributes = search_attributes
        self._budget = budget

    @activity.defn(name=ACTIVITY_RESOLVE_AGENT)
    async def resolve_agent(self, input: ResolveInput) -> Resolution:
        try:
            agent = self._registry.resolve(input.agent_id, in_task=input.in_task)
        except ConfigurationError as error:
            # Benign: the caller's mistake, reported to the caller; no traceback in the worker's log.
            raise ApplicationError(
                str(error), type="AgentNotFound", non_retryable=True, category=ApplicationErrorCategory.BENIGN
            ) from error
        self._cache.put_agent(agent)
        return Resolution(
            agent=agent,
            search_attributes=self._search_attributes,
            budget=self._budget,
            revision=min(REVISION, input.revision),
        )
