"""The `resolve_agent` activity: bind a run to the agent that the registry has now, which history then records.

With the agent it records facts about the worker and the namespace; `describe_worker` records only these.
"""

import asyncio
import copy

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.authoring.instructions import InstructionsContext, InstructionsFunction
from wakeful.contract.agents import HistoryBudget, Resolution, ResolvedAgent, ResolveInput, WorkerDescription
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.names import ACTIVITY_DESCRIBE_WORKER, ACTIVITY_RESOLVE_AGENT
from wakeful.loop.machine.revisions import REVISION
from wakeful.registry.registry import Registry
from wakeful_activities.error_texts import failure_of, shortened
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.mcp.agents import McpAgents
from wakeful_activities.mcp.failures import ServerAway
from wakeful_activities.other_workers import (
    Lacking,
    OtherWorkers,
    check_executed,
    executed_before,
    missing_before,
    waited,
)
from wakeful_activities.user_code import UserCode, described

INSTRUCTIONS_SECONDS = 5.0
"""How long a function may take to write an agent's instructions."""

INSTRUCTIONS_FAILED = "InstructionsFailed"
MCP_AWAY = "McpServerAway"

ATTEMPTS = 10
"""Of a lookup that fails for another reason than a missing agent."""


class ResolveActivity:
    """The `resolve_agent` and `describe_worker` activities."""

    def __init__(
        self,
        registry: Registry,
        cache: HistoryCache,
        user_code: UserCode,
        others: OtherWorkers | None = None,
        *,
        search_attributes: tuple[str, ...] = (),
        budget: HistoryBudget,
        mcp: McpAgents | None = None,
    ) -> None:
        self._registry = registry
        self._cache = cache
        self._user_code = user_code
        self._others = others or OtherWorkers(registry)
        self.search_attributes = search_attributes
        """Those that the namespace has; a worker finds out before it takes its first task."""
        self._budget = budget
        self._mcp = mcp

    @activity.defn(name=ACTIVITY_RESOLVE_AGENT)
    async def resolve_agent(self, input: ResolveInput) -> Resolution:
        check_executed(missing_before(), ATTEMPTS)
        try:
            agent = self._registry.resolve(input.agent_id, in_task=input.in_task)
        except ConfigurationError as error:
            what, known = f"agent {input.agent_id!r}", sorted([*self._registry.agents, *self._registry.discovered])
            patience = await self._others.leave(Lacking(what, str(error), known), is_new_run=not input.in_flight)
            # Benign: the caller's mistake, reported to the caller; no traceback in the worker's log.
            raise ApplicationError(
                f"{error}{waited(patience)}",
                type="AgentNotFound",
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            ) from error
        except Exception as error:
            kind = type(error).__name__
            activity.logger.debug("an agent could not be resolved", exc_info=error)
            raise _failure(f"agent {input.agent_id!r} raised {kind}", f"{kind}: {error}", type=kind) from None
        agent = await self._with_mcp_tools(agent, is_new_run=not input.in_flight)
        if idle := self._registry.idle_rules(agent):
            agent = agent.model_copy(update={"idle_rules": idle})
        write = self._registry.instructions(input.agent_id)
        if write is not None:
            agent = agent.model_copy(update={"instructions": await self._instructions(input, write)})
        self._cache.put_agent(agent)
        self._cache.put_metadata(input.metadata)
        return Resolution(
            agent=None if agent.digest() == input.known else agent,
            search_attributes=self.search_attributes,
            unpriced=self._registry.unpriced(agent),
            budget=self._budget,
            revision=min(REVISION, input.revision),
        )

    async def _with_mcp_tools(self, agent: ResolvedAgent, *, is_new_run: bool) -> ResolvedAgent:
        """The agent with the tools of its MCP servers; one that is away delays the run, but not for ever."""
        if self._mcp is None:
            return agent
        try:
            return await self._mcp.with_tools(agent)
        except ServerAway as away:
            what = f"MCP server {away.server!r}"
            problem = f"{what} is away: {away.reason}"
            patience = await self._others.leave(Lacking(what, problem, reason=away.reason), is_new_run=is_new_run)
            message = f"agent {agent.agent_id!r} needs {problem}{waited(patience, 'reached')}"
            raise ApplicationError(
                shortened(message), type=MCP_AWAY, non_retryable=True, category=ApplicationErrorCategory.BENIGN
            ) from None
        except ConfigurationError as error:
            raise ApplicationError(str(error), type=MCP_AWAY, non_retryable=True) from None

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
        what = f"the instructions of agent {agent_id!r}"
        try:
            async with asyncio.timeout(INSTRUCTIONS_SECONDS):
                text = await self._user_code.call(f"instructions {agent_id}", write, context)
        except TimeoutError:
            problem = f"{what} took longer than {INSTRUCTIONS_SECONDS:g} s"
        except Exception as error:  # the boundary: user code
            raised = f"{what} raised {described(error)}"
            activity.logger.debug("dynamic instructions failed", exc_info=error)
            raise _failure(f"{what} raised an error", raised, type=INSTRUCTIONS_FAILED) from None
        else:
            if isinstance(text, str):
                return text
            problem = f"{what} returned a {type(text).__name__}, which is no text"
        raise ApplicationError(problem, type=INSTRUCTIONS_FAILED, non_retryable=_is_last())

    @activity.defn(name=ACTIVITY_DESCRIBE_WORKER)
    async def describe_worker(self) -> WorkerDescription:
        return WorkerDescription(search_attributes=self.search_attributes, budget=self._budget, revision=REVISION)


def _failure(what: str, text: str, *, type: str) -> ApplicationError:
    return failure_of(what, text, type=type, non_retryable=_is_last())


def _is_last() -> bool:
    return executed_before(missing_before()) + 1 >= ATTEMPTS
