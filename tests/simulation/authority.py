"""What binds a run: the rules and the budgets of requests and messages, followed through every thread.

It is worked out anew, from who sent what and from which run started which thread, and reads nothing of what the loop
keeps for the purpose. So it notices whatever forgets a part of it: a wake, mail, the end of a task, a handoff, a fork.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.simulation.workload import MISSING_AGENT
from wakeful.contract.budgets import Budget
from wakeful.contract.events import Handoff, RunStart
from wakeful.contract.ids import is_task_message
from wakeful.contract.messages import ToolCall
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.settings import RunSettings
from wakeful.contract.tools import ToolStatus
from wakeful.loop.machine.commands import StartChild, StartTask
from wakeful.loop.machine.facts import ChildIdAssigned, Fact, ToolReturned
from wakeful.loop.machine.state import Advance, Thread

RULED = ("look", "count", "ask", "hold", "later", "pay", "glance")
_OF_A_USER = re.compile(r"m\d+|submit:.*")

Rules = frozenset[tuple[str, Behavior]]


def settings_of(seed: str, name: str) -> RunSettings:
    """What the sender of a message, or of the request of a thread, sets for its run: often a rule, or a budget."""
    random = Random(f"{seed}/settings/{name}")
    tools = random.sample(RULED, random.choice([0, 1, 1, 2]))
    behaviors = random.choices([Behavior.ASK, Behavior.DENY], [2, 1], k=len(tools))
    rules = tuple(Rule(tool=tool, behavior=behavior) for tool, behavior in zip(tools, behaviors, strict=True))
    budget = Budget(turns=random.randint(2, 8)) if random.random() < 0.4 else None
    return RunSettings(permissions=rules, budget=budget)


def strict_rules(rules: Iterable[Rule]) -> Rules:
    return frozenset((rule.tool, rule.behavior) for rule in rules if rule.behavior is not Behavior.ALLOW)


@dataclass(frozen=True)
class Bound:
    """The rules that hold for a run, and the runs whose budgets it spends."""

    rules: Rules = frozenset()
    funds: frozenset[str] = frozenset()

    def along_with(self, other: "Bound") -> "Bound":
        return Bound(self.rules | other.rules, self.funds | other.funds)


@dataclass
class Authority:
    """What is known of all runs so far. Executions are noted in the order in which they were started."""

    given: Callable[[str], RunSettings]
    """By the id of a message, or by the thread that a request starts."""
    runs: dict[str, Bound] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)
    """The thread of each run."""
    children: dict[str, Bound] = field(default_factory=dict)
    """What the run of a parent passes on, by the thread of the child."""
    starters: dict[tuple[str, str], Bound] = field(default_factory=dict)
    """What the run that started a task is bound by, by the threads of the owner and of the task."""
    starting: dict[tuple[str, str], tuple[Bound, Bound]] = field(default_factory=dict)
    """The same two of what has no thread yet, by the parent's thread and the work id."""
    handed: dict[str, dict[str, Rules]] = field(default_factory=dict)
    """What the agents deny or ask about that have handed a thread off, by thread and agent."""
    limits: dict[str, int] = field(default_factory=dict)
    """The turns of each run that has a budget."""
    turns: dict[str, int] = field(default_factory=dict)

    def note(self, before: Thread | None, fact: Fact | None, made: Advance) -> str:
        """Take one fact into account, or the beginning of an execution. Returns what escaped; empty if nothing did."""
        problem = self._escape(before, fact) if before is not None and isinstance(fact, ToolReturned) else ""
        for event in made.events:
            if isinstance(event, RunStart) and event.run_id not in self.runs:
                self._begin(before, made.thread, event)
            if isinstance(event, Handoff) and before is not None:
                self.handed.setdefault(before.identity.thread_id, {})[event.from_agent] = _policy(before)
        thread_id, run_id = made.thread.identity.thread_id, made.thread.identity.run_id
        if isinstance(fact, ChildIdAssigned) and (thread_id, fact.id) in self.starting:
            child, starter = self.starting[thread_id, fact.id]
            self.children.setdefault(fact.thread_id, child)
            self.starters[thread_id, fact.thread_id] = starter
        if made.thread.run is not None:
            self.turns[run_id] = max(self.turns.get(run_id, 0), made.thread.run.step.number)
        for command in made.commands:
            if isinstance(command, StartChild | StartTask) and before is not None:
                self.starting[thread_id, command.id] = self._passed_on(before), self.runs[before.identity.run_id]
        return problem

    def overspent(self, disturbed: Iterable[str]) -> str:
        """The first budget that a tree has spent more than; empty if there is none.

        What a thread that was terminated or reset has spent is not known, and is not checked.
        """
        for fund, limit in self.limits.items():
            spenders = [run_id for run_id, bound in self.runs.items() if fund in bound.funds]
            if any(self.threads[run_id] in disturbed for run_id in spenders):
                continue
            if (spent := sum(self.turns.get(run_id, 0) for run_id in spenders)) > limit:
                return f"{self.threads[fund]}: a run with a budget of {limit} turns and what it began took {spent}"
        return ""

    def _begin(self, before: Thread | None, thread: Thread, event: RunStart) -> None:
        thread_id, request_id = thread.identity.thread_id, f"{thread.seed}:1"
        above = self.children.get(thread_id, Bound())
        bound = Bound(above.rules)
        if thread.identity.agent_id == MISSING_AGENT:  # a caller who names another agent hands nothing off
            self.handed.pop(thread_id, None)
        user = next((id for id in event.message_ids if id == request_id or _OF_A_USER.fullmatch(id)), None)
        if user == request_id and thread_id in self.children:
            bound = above
        elif user is not None and not (user == request_id and thread.current.number > 1):
            settings = self.given(thread_id if user == request_id else user)
            funds = frozenset([event.run_id]) if settings.budget else frozenset[str]()
            bound = Bound(above.rules | strict_rules(settings.permissions), funds)
            if settings.budget is not None and settings.budget.turns is not None:
                self.limits[event.run_id] = settings.budget.turns
        elif user is None:
            for starter in self._starters(before, thread_id, event.message_ids):
                bound = bound.along_with(starter)
        self.runs[event.run_id], self.threads[event.run_id] = bound, thread_id

    def _passed_on(self, thread: Thread) -> Bound:
        """What binds the sub-agents that the run of the thread starts."""
        bound, handed = self.runs[thread.identity.run_id], self.handed.get(thread.identity.thread_id, {})
        return Bound(bound.rules.union(_policy(thread), *handed.values()), bound.funds)

    def _starters(self, before: Thread | None, thread_id: str, messages: Iterable[str]) -> Iterator[Bound]:
        """What bound the runs that started the tasks whose ends or events begin a run."""
        passive = {later.message.id for later in before.steering if later.passive} if before else set()
        for message in messages:
            for (owner, task), starter in self.starters.items():
                if owner == thread_id and message not in passive and is_task_message(message, task):
                    yield starter

    def _escape(self, thread: Thread, fact: ToolReturned) -> str:
        """A tool that has run although something above denies it, or without the decision that it asks for."""
        if fact.outcome.gated or fact.outcome.blocked is not None:
            return ""
        if fact.outcome.result.status is not ToolStatus.SUCCESS:
            return ""
        running = thread.batch.running if thread.batch else ()
        call = next((each for each in running if each.id == fact.id), None)
        bound = self.runs.get(thread.identity.run_id)
        if call is None or bound is None:
            return ""
        handed = self.handed.get(thread.identity.thread_id, {})
        others = (rules for agent, rules in handed.items() if agent != thread.agent.agent_id)
        rules = bound.rules.union(*others)
        if (call.call.name, Behavior.DENY) in rules:
            return f"{_name(call.call)} ran, which something above denies"
        allowed = {rule.tool for rule in thread.permissions if rule.behavior is Behavior.ALLOW}
        if call.resume is None and (call.call.name, Behavior.ASK) in rules and call.call.name not in allowed:
            return f"{_name(call.call)} ran without the decision that something above asks for"
        return ""


def _name(call: ToolCall) -> str:
    return f"{call.name} {call.id}"


def _policy(thread: Thread) -> Rules:
    policy = thread.agent.permissions
    return strict_rules(policy.rules if policy else ())
