"""What narrows a run from outside: the rules of its ancestors, of agents that handed it off, and of its request.

Authority only narrows. A rule that allows is an exception for the person who writes it: it holds beside the rules of
the same agent or the same request, and voids none of an ancestor's. So only rules that deny or ask are passed on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.carryover import AgentRules
from wakeful.contract.permissions import Behavior, Rule
from wakeful.permissions.rules import merged


@dataclass(frozen=True)
class RunRules:
    """The rules of a run on top of its agent's policy, by whose they are."""

    ancestors: tuple[Rule, ...] = ()
    """What ancestors, and agents that handed the run off, deny or ask about."""
    thread: tuple[Rule, ...] = ()
    """What decisions with `always` have allowed."""
    requested: tuple[Rule, ...] = ()
    """Of the run's request."""
    added: tuple[Rule, ...] = ()
    """Of hooks and tools of the run."""
    always: tuple[str, ...] = ()
    """Those of the thread's that decisions of the run itself have added, by their `tool`: they answer its own rules."""

    @property
    def answers(self) -> tuple[Rule, ...]:
        """The rules of the thread that are behind those of the run, too."""
        return tuple(rule for rule in self.thread if rule.tool in self.always)

    @property
    def ordered(self) -> tuple[Rule, ...]:
        """All of them: of those with the same `tool` text the last one counts.

        What the request denies or asks about comes once more: no hook replaces it.
        """
        return (*self.ancestors, *self.thread, *self.requested, *self.added, *self.restated, *self.answers)

    @property
    def restated(self) -> tuple[Rule, ...]:
        """What the request denies or asks about, if hooks have added rules."""
        return narrowing(self.requested) if self.added else ()

    @property
    def questions(self) -> tuple[tuple[Rule, ...], ...]:
        """What the request, hooks and ancestors ask about, whatever else allows it, except a decision with `always`.

        A rule that a hook adds answers nothing that the request asks; one of the request may answer what a hook asks.
        """
        own = [self.requested]
        if any(rule.behavior is Behavior.ASK for rule in self.added):
            own.append((*self.requested, *self.added))
        groups = ((*self.thread, *rules, *self.answers) for rules in own)
        return questions(*groups, (*self.ancestors, *self.thread))


def narrowing(*groups: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that deny or ask, one for each `tool` text: one that denies wins."""
    strict: dict[str, Rule] = {}
    for rule in (rule for group in groups for rule in group if rule.behavior is not Behavior.ALLOW):
        if rule.tool not in strict or rule.behavior is Behavior.DENY:
            strict[rule.tool] = rule
    return tuple(strict.values())


def policy_rules(agent: ResolvedAgent | None) -> tuple[Rule, ...]:
    """The rules of an agent's own policy; its default is for its own tools alone."""
    return agent.permissions.rules if agent is not None and agent.permissions is not None else ()


def questions(*groups: Sequence[Rule]) -> tuple[tuple[Rule, ...], ...]:
    """The groups that ask, each with its exceptions: what one of them asks about, no other rule allows."""
    asking = (tuple(rule for rule in merged(group) if rule.behavior is not Behavior.DENY) for group in groups)
    return tuple(group for group in asking if any(rule.behavior is Behavior.ASK for rule in group))


def handing_on(before: tuple[AgentRules, ...], agent: ResolvedAgent) -> tuple[AgentRules, ...]:
    """What the agents deny or ask about that have handed a thread off, when this one hands it off, too."""
    rules = narrowing(policy_rules(agent))
    others = tuple(each for each in before if each.agent_id != agent.agent_id)
    return (*others, AgentRules(agent_id=agent.agent_id, rules=rules)) if rules else others


def binding_on(agent_id: str, handed_over: tuple[AgentRules, ...]) -> tuple[Rule, ...]:
    """What the others deny or ask about that have handed the thread off. An agent's own rules have their exceptions."""
    return narrowing(*(each.rules for each in handed_over if each.agent_id != agent_id))
