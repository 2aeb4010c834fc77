"""Where a fork can go on from: the end of a step, and what the thread kept then besides its conversation.

A point is light, since every value in it is shared with the state it was taken from. It is remembered by the workflow
that took it, never written to history and never carried: a closed execution that is asked replays, and knows it again.
"""

from dataclasses import dataclass

from wakeful.contract.permissions import Rule
from wakeful.contract.subagents import Keeps
from wakeful.loop.step.agent_state import Values
from wakeful.loop.thread.transcript import Mark


@dataclass(frozen=True)
class Point:
    """A place in a thread's conversation, and what a fork from there begins with."""

    mark: Mark
    agent_id: str
    """Who answers from there on."""
    values: Values
    permissions: tuple[Rule, ...]
    run_permissions: tuple[Rule, ...]
    spawned: int

    @property
    def keeps(self) -> Keeps:
        """Nothing of the tasks, letters and relatives of the thread: those stay where they are."""
        return Keeps(
            agent_id=self.agent_id,
            spawned=self.spawned,
            permissions=self.permissions,
            run_permissions=self.run_permissions,
            state=dict(self.values.thread),
            run_state=dict(self.values.run),
        )
