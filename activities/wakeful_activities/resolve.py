"""The `resolve_agent` activity: bind a run to the agent that the registry has now, which history then records."""

import asyncio
import copy

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.authoring.instructions import InstructionsContext, InstructionsFunction
from wakeful.contract.agents import HistoryBudget, Resolution, ResolveInput
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.names import ACTIVITY_RESOLVE_AGENT
from wakeful.loop.machine.state import REVISION
from wakeful.registry.registry import Registry
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.user_code import UserCode, described

INSTRUCTIONS_SECONDS = 5.0
"""How long a function may take to write an agent's instructions."""


class ResolveActivity:
    """The `resolve_agent` activity."""

    def __init__(
        self,
        registry: Registry,
        cache: HistoryCache,
        user_code: UserCode,
        *,
        search_attributes: tuple[str, ...] = (),
        budget: HistoryBudget,
    ) -> None:
        self._registry = registry
        self._cache = cache
        self._user_code = user_code
        self.search_attributes = search_attributes
        """Those that the namespace has; a worker finds out before it takes its first task."""
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
        write = self._registry.instructions(input.agent_id)
        if write is not None:
            agent = agent.model_copy(update={"instructions": await self._instructions(input, write)})
        self._cache.put_agent(agent)
        self._cache.put_metadata(input.metadata)
        return Resolution(
            agent=agent,
            search_attributes=self.search_attributes,
            budget=self._budget,
            revision=min(REVISION, input.revision),
        )

    async def _instructions(self, input: ResolveInput, write: InstructionsFunction) -> str:
        """What the function returns. Whatever it raises fails the attempt, which Temporal retries."""
        agent_id = input.agent_id
        context = InstructionsContext(
            agent_id=agent_id,
            deps=self._user_code.dependencies.value,
            tenant=input.tenant,
            user=input.user,
            metadata=copy.deepcopy(input.metadata),
        )
        try:
            async with asyncio.timeout(INSTRUCTIONS_SECONDS):
                text = await self._user_code.call(f"instructions {agent_id}", write, context)
        except TimeoutError:
            problem = f"took longer than {INSTRUCTIONS_SECONDS:g} s"
        except Exception as error:  # the boundary: user code
            problem = f"raised {described(error)}"
        else:
            if isinstance(text, str):
                return text
            problem = f"returned a {type(text).__name__}, which is no text"
        raise ApplicationError(f"the instructions of agent {agent_id!r} {problem}", type="InstructionsFailed")
