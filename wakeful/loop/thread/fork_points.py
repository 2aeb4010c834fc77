"""Fork points: the end of each step, and what the thread kept then besides its conversation.

A fork point shares every value with the state it was taken from, so it costs next to nothing. The workflow keeps it in
memory, never in history: an execution that is queried again replays, and knows its fork points again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.contract.carryover import AgentRules, Carryover, Counters
from wakeful.contract.context import AgentContext, Compaction
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolDescriptor
from wakeful.contract.users import Users
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.transcript import TranscriptPosition


@dataclass(frozen=True)
class ForkPoint:
    """A position in a conversation, and what a fork from there starts with."""

    position: TranscriptPosition
    agent_id: str
    """The agent that answers from there on."""
    agent_state: AgentState
    permissions: tuple[Rule, ...]
    authority: tuple[Rule, ...]
    handed_over: tuple[AgentRules, ...]
    run_permissions: tuple[Rule, ...]
    run_requested: tuple[Rule, ...]
    run_metadata: Mapping[str, JsonValue]
    identity: RunIdentity
    """Of the run, whose tenant and user the fork inherits."""
    counters: Counters
    compaction: Compaction | None
    frontend_tools: tuple[ToolDescriptor, ...]
    context: tuple[AgentContext, ...]
    users: Users

    @property
    def carryover(self) -> Carryover:
        """The thread's tasks, mail and parent are not included: a fork has none of them."""
        return Carryover(
            counters=self.counters,
            agent_id=self.agent_id,
            permissions=self.permissions,
            authority=self.authority,
            handed_over=self.handed_over,
            run_permissions=self.run_permissions,
            run_requested=self.run_requested,
            run_user=self.identity.user,
            run_metadata=dict(self.run_metadata),
            tenant=self.identity.tenant,
            state=dict(self.agent_state.thread),
            state_revision=self.agent_state.revision,
            run_state=dict(self.agent_state.run),
            compaction=self.compaction,
            frontend_tools=self.frontend_tools,
            context=self.context,
            users=self.users,
        ).fitting()
