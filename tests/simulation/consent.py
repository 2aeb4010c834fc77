"""Which calls people have allowed: taken from the questions and the decisions that a thread's events record."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from wakeful.contract.applied_decisions import DecisionAction, DecisionChannel
from wakeful.contract.events import AgentEvent, RulesRevoked, ToolCallDecided, ToolCallDone
from wakeful.contract.names import ACTION_PERMISSION
from wakeful.contract.permissions import Behavior
from wakeful.loop.machine.state import Thread

Of = tuple[str, str]
"""Something of a thread, which comes first."""


@dataclass
class Consent:
    """What people were asked because of a rule, and what they have allowed."""

    asked: set[Of] = field(default_factory=set)
    """Suspensions."""
    calls: set[Of] = field(default_factory=set)
    """Calls that a person has resumed after such a question."""
    always: set[Of] = field(default_factory=set)
    """Tools that a person has allowed with `always`."""
    revoked: dict[Of, int] = field(default_factory=dict)
    """The step in which a person has revoked that."""

    def note(self, thread: Thread, events: Iterable[AgentEvent]) -> None:
        """Take the events of one fact into account, and the thread after it."""
        thread_id = thread.identity.thread_id
        for event in events:
            match event:
                case ToolCallDone(result=result) if result.suspension is not None:
                    if result.suspension.suspension.action == ACTION_PERMISSION:
                        self.asked.add((thread_id, result.suspension.suspension.id))
                case ToolCallDecided(suspension_id=str(id), decision=decision):
                    is_allowed = decision.action is DecisionAction.RESUME
                    if (
                        is_allowed
                        and decision.channel is not DecisionChannel.DEADLINE
                        and (thread_id, id) in self.asked
                    ):
                        self.calls.add((thread_id, event.call_id))
                    if decision.always and decision.rule is not None:
                        self.always.add((thread_id, decision.rule))
                case RulesRevoked(rules=rules):
                    self.revoked |= {(thread_id, rule.tool): thread.counters.steps for rule in rules}
                case _:
                    pass

    def fork(self, origin: str, thread_id: str) -> None:
        """A thread continues another one."""
        self.always |= {(thread_id, tool) for owner, tool in self.always if owner == origin}

    def covers(self, thread: Thread, name: str, call_id: str) -> bool:
        """Whether a person has allowed the call, or every call of the tool, and has not revoked that."""
        thread_id = thread.identity.thread_id
        if (thread_id, call_id) in self.calls:
            return True
        kept = {rule.tool for rule in thread.permissions if rule.behavior is Behavior.ALLOW}
        return (name in kept or self._is_judged(thread, name)) and (thread_id, name) in self.always

    def _is_judged(self, thread: Thread, name: str) -> bool:
        """Whether the call was judged, with the answer, before the rule was revoked, and is not judged again."""
        tool = thread.tool(name)
        has_activity = tool is not None and not (tool.frontend or tool.runtime or tool.background)
        return not has_activity and self.revoked.get((thread.identity.thread_id, name)) == thread.counters.steps
