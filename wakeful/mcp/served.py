"""What a server serves: a client, the agents that are tools, and what their callers may do."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client
from wakeful.contract import ids
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.errors import CallerError, ConfigurationError
from wakeful.contract.runs import RunIdentity
from wakeful.contract.suggestions import registered
from wakeful.registry.content import output_spec
from wakeful.registry.registry import Registry
from wakeful.registry.runtime_tools import about

CONTINUE = "continue"
CANCEL = "cancel"
"""The tools that are not agents."""

NAME_LENGTH = 64
"""Characters of a tool's name that every model provider accepts."""

_SAFE = re.compile(r"[A-Za-z0-9_-]+")

NO_AGENTS = "no agent is named: give a registry, or the ids of agents"


@dataclass(frozen=True)
class Served:
    """The settings of a server; `transports.app` says what each means."""

    client: Client
    registry: Registry | None
    agents: Sequence[str] | None
    tenant: str | None
    user: str | None
    decisions: ClientDecisions
    cancels: bool
    all_threads: bool

    def __post_init__(self) -> None:
        if not self.ids:
            raise ConfigurationError([NO_AGENTS])
        known = self.ids if self.registry is None else self.registry.agents
        if unknown := [id for id in self.ids if id not in known]:
            raise ConfigurationError([f"agent not found: {id!r}; {registered(id, known)}" for id in unknown])

    @property
    def ids(self) -> tuple[str, ...]:
        """The agents, by id."""
        if self.agents is not None:
            return tuple(dict.fromkeys(self.agents))
        return tuple(sorted(self.registry.agents)) if self.registry is not None else ()

    @property
    def tool_names(self) -> Mapping[str, str]:
        """The name of each agent's tool, by the agent's id."""
        return tool_names(self.ids)

    def agent_of(self, tool_name: str) -> str | None:
        """The agent whose tool has this name."""
        return next((id for id, name in self.tool_names.items() if name == tool_name), None)

    def description_of(self, agent_id: str) -> str:
        """What the agent is for, as a model reads it that may call its tool."""
        agent = self.registry.agents.get(agent_id) if self.registry is not None else None
        if agent is not None and agent.description.strip():
            return agent.description.strip()
        known = about(agent) if agent is not None else ""
        return f"Ask the agent {agent_id!r}." + (f" Its {known}" if known else "")

    def output_schema_of(self, agent_id: str) -> dict[str, JsonValue] | None:
        """The JSON schema of the agent's answers, if it has an output type."""
        agent = self.registry.agents.get(agent_id) if self.registry is not None else None
        spec = output_spec(agent) if agent is not None else None
        return None if spec is None else spec.json_schema

    def may_decide(self, pending: PendingDecision) -> bool:
        """Whether a client may make this decision."""
        return self.decisions.include(is_question=pending.is_question)

    def new_thread_id(self, agent_id: str, request_id: str) -> str:
        """The thread that a request opens."""
        return ids.request_thread_id(agent_id, request_id, tenant=self.tenant, user=self.user)

    def has_opened(self, thread_id: str) -> bool:
        """Whether a server for the same tenant and user has opened the thread, by its id."""
        return ids.is_request_thread(thread_id, tenant=self.tenant, user=self.user)

    def check_id(self, thread_id: str) -> None:
        """Raise a `CallerError` if the id alone shows that this server does not serve the thread."""
        if not (self.all_threads or self.has_opened(thread_id)):
            raise _not_served(thread_id)

    def check_thread(self, identity: RunIdentity) -> None:
        """Raise a `CallerError` if the thread is not one that this server may show or continue."""
        self.check_id(identity.thread_id)
        # The user of a run is that of its message; the thread that a server has opened stays its user's.
        is_of_user = self.user in (None, identity.user) or self.has_opened(identity.thread_id)
        if identity.agent_id not in self.ids or identity.tenant != self.tenant or not is_of_user:
            raise _not_served(identity.thread_id)


def _not_served(thread_id: str) -> CallerError:
    return CallerError(
        f"thread {thread_id!r} is not one that this server serves: leave `thread_id` out to start a new thread"
    )


def tool_names(ids: Iterable[str]) -> dict[str, str]:
    """A name for each agent's tool: its id, if every model provider accepts that, else a safe spelling of it."""
    spelled = {id: id if _SAFE.fullmatch(id) else re.sub(r"[^A-Za-z0-9_-]+", "_", id).strip("_") for id in ids}
    counted = Counter(spelled.values())
    return {id: name if _is_free(id, name, counted) else _distinct(id, name) for id, name in spelled.items()}


def _is_free(id: str, name: str, counted: Mapping[str, int]) -> bool:
    if not name or len(name) > NAME_LENGTH or name in (CONTINUE, CANCEL):
        return False
    return id == name or counted[name] == 1


def _distinct(id: str, name: str) -> str:
    suffix = hashlib.sha256(id.encode()).hexdigest()[:8]
    return f"{(name or 'agent')[: NAME_LENGTH - len(suffix) - 1]}_{suffix}"
