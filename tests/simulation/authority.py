"""What binds a run: the rules and the budgets of requests and messages, followed through every thread.

It is worked out anew, from who sent what, from which run started which thread, and from what agents' policies and hooks
say, and reads nothing of what the loop keeps for the purpose. So it notices whatever forgets a part of it: a wake, the
mail or the end of a task, a handoff, a fork.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from tests.simulation.consent import Consent, Of
from tests.simulation.workload import MISSING_AGENT, RULED
from wakeful.contract.budgets import Budget
from wakeful.contract.events import Handoff, RunStart, StepStart, ToolCallReady
from wakeful.contract.hooks import HookEffects
from wakeful.contract.ids import is_descendant, is_task_message
from wakeful.contract.mail import AgentMessage
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import Fork
from wakeful.contract.settings import RunSettings
from wakeful.contract.tools import ToolStatus
from wakeful.loop.machine.commands import CallTool, Command, StartChild, StartTask
from wakeful.loop.machine.facts import (
    ChildIdAssigned,
    Fact,
    HooksReturned,
    InferenceReturned,
    MailReceived,
    ToolReturned,
)
from wakeful.loop.machine.state import Advance, Thread

ANY_TOOL = "*"
_OF_A_USER = re.compile(r"m\d+|submit:.*")


@dataclass(frozen=True)
class Strict:
    """A rule that denies or asks."""

    tool: str
    behavior: Behavior
    unless: frozenset[str] = frozenset()
    """Of a rule that asks: the tools that its writer allows."""

    def applies_to(self, name: str) -> bool:
        return self.tool in (name, ANY_TOOL) and self.unless.isdisjoint((name, ANY_TOOL))


Rules = frozenset[Strict]


def settings_of(seed: str, name: str) -> RunSettings:
    """What the sender of a message, or of the request of a thread, sets for its run: often a rule, or a budget."""
    random = Random(f"{seed}/settings/{name}")
    tools = random.sample(RULED, random.choice([0, 1, 1, 2]))
    behaviors = random.choices([Behavior.ASK, Behavior.DENY], [2, 1], k=len(tools))
    rules = [Rule(tool=tool, behavior=behavior) for tool, behavior in zip(tools, behaviors, strict=True)]
    if random.random() < 0.3:
        others = [tool for tool in RULED if tool not in tools]
        rules.append(Rule(tool=random.choice([ANY_TOOL, random.choice(others)]), behavior=Behavior.ALLOW))
    budget = Budget(turns=random.randint(2, 8)) if random.random() < 0.4 else None
    return RunSettings(permissions=tuple(rules), budget=budget)


def strict_rules(rules: Iterable[Rule], allowed: frozenset[str] = frozenset()) -> Rules:
    """What one writer denies or asks about. What it allows, and what is `allowed` besides, it does not ask about."""
    newest: dict[str, Behavior] = {}
    for rule in rules:
        if newest.get(rule.tool) is not Behavior.DENY:
            newest[rule.tool] = rule.behavior
    unless = allowed.union(tool for tool, behavior in newest.items() if behavior is Behavior.ALLOW)
    exceptions = {Behavior.ASK: unless, Behavior.DENY: frozenset[str]()}
    return frozenset(Strict(tool, each, exceptions[each]) for tool, each in newest.items() if each in exceptions)


def alone(rules: Rules) -> Rules:
    """The rules as they are passed on: without exceptions."""
    return frozenset(Strict(rule.tool, rule.behavior) for rule in rules)


@dataclass(frozen=True)
class Bound:
    """The rules that hold for a run, and the runs whose budgets it spends."""

    rules: Rules = frozenset()
    """Of its request, of its ancestors, and of the runs that it continues."""
    funds: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    """The tools that its request allows."""
    hooks: tuple[Rule, ...] = ()
    """What hooks and tools have added."""

    @property
    def binding(self) -> Rules:
        """What the request and hooks allow answers what hooks ask about, and the questions of no one above."""
        return self.rules | strict_rules(self.hooks, self.allowed)

    @property
    def exceptions(self) -> frozenset[str]:
        """The tools that the agent's own policy does not ask about: an active skill allows its tools so."""
        return self.allowed.union(rule.tool for rule in self.hooks if rule.behavior is Behavior.ALLOW)

    @property
    def passed_on(self) -> "Bound":
        """What holds for what the run begins."""
        return Bound(alone(self.binding), self.funds)

    def along_with(self, other: "Bound") -> "Bound":
        return Bound(self.rules | other.rules, self.funds | other.funds)


@dataclass
class Authority:
    """What is known of all runs so far. Executions are noted in the order in which they were started."""

    given: Callable[[str], RunSettings]
    """By the id of a message, or by the thread that a request starts."""
    shortened: frozenset[str] = frozenset()
    """Threads of which an execution was deleted: what a fork takes from an archive is not of the run it continues."""
    runs: dict[str, Bound] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)
    """The thread of each run."""
    steps: dict[tuple[str, int], list[Bound]] = field(default_factory=dict)
    """What bound each step of a thread; several, if the thread was reset."""
    children: dict[str, Bound] = field(default_factory=dict)
    """What the run of a parent passes on, by the thread of the child."""
    starters: dict[Of, str] = field(default_factory=dict)
    """The run that started a task, by the threads of the owner and of the task."""
    starting: dict[Of, tuple[Bound, str]] = field(default_factory=dict)
    """The same two of what has no thread yet, by the parent's thread and the work id."""
    mail: dict[Of, str] = field(default_factory=dict)
    """The run that started the task whose mail it is, by thread and message."""
    handed: dict[str, dict[str, Rules]] = field(default_factory=dict)
    """What the agents deny or ask about that have handed a thread off, by thread and agent."""
    added: dict[tuple[str, int], tuple[Rule, ...]] = field(default_factory=dict)
    """What hooks and tools have added in each step, by run."""
    consent: Consent = field(default_factory=Consent)
    tools: dict[Of, str] = field(default_factory=dict)
    """By thread and call."""
    escapes: dict[Of, str] = field(default_factory=dict)
    """Calls that have been handed to an activity and must not run there, by thread and work id."""
    limits: dict[str, int] = field(default_factory=dict)
    """The turns of each run that has a budget."""
    turns: dict[str, int] = field(default_factory=dict)

    def note(self, before: Thread | None, fact: Fact | None, made: Advance, *, fork: Fork | None = None) -> str:
        """Take one fact into account, or the beginning of an execution. Returns what escaped; empty if nothing did."""
        identity = made.thread.identity
        if before is not None and fact is not None:
            self._note_fact(before, fact)
        self.consent.note(made.thread, made.events)
        for event in made.events:
            match event:
                case RunStart() if event.message_ids or event.run_id not in self.runs:
                    self._begin(before, made.thread, event, fork)
                case Handoff(from_agent=agent) if before is not None:
                    self.handed.setdefault(identity.thread_id, {})[agent] = alone(_policy(before))
                case ToolCallReady(id=id, name=name):
                    self.tools[identity.thread_id, id] = name
                case _:
                    pass
        if made.thread.run is not None:
            self.turns[identity.run_id] = max(self.turns.get(identity.run_id, 0), made.thread.run.step.number)
        problem = self._ran(identity.thread_id, fact) if isinstance(fact, ToolReturned) else ""
        if before is not None and before.run is not None and before.run.resolved is not None:
            problem = next(filter(None, (problem, *(self._command(before, each) for each in made.commands))), "")
        # Last: a decision may start a sub-agent for a call of the step before.
        if any(isinstance(event, StepStart) for event in made.events):
            self._begin_step(made.thread)
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

    def _note_fact(self, before: Thread, fact: Fact) -> None:
        thread_id, run_id = before.identity.thread_id, before.identity.run_id
        step = run_id, before.counters.steps
        self.added[step] = (*self.added.get(step, ()), *_added_rules(fact))
        match fact:
            case ChildIdAssigned(id=id, thread_id=child) if (thread_id, id) in self.starting:
                passed_on, self.starters[thread_id, child] = self.starting[thread_id, id]
                self.children.setdefault(child, passed_on)
            case MailReceived(mail=AgentMessage(message_id=id, sender=sender)):
                for task in before.children.running:
                    own = task.thread_id or ""
                    if sender.thread_id == own or is_descendant(sender.thread_id, own):
                        self.mail.setdefault((thread_id, id), self.starters.get((thread_id, own), ""))
            case _:
                pass

    def _begin(self, before: Thread | None, thread: Thread, event: RunStart, fork: Fork | None) -> None:
        thread_id, request_id = thread.identity.thread_id, f"{thread.seed}:1"
        above = self.children.get(thread_id, Bound())
        bound = Bound(above.rules)
        if thread.identity.agent_id == MISSING_AGENT:  # a caller who names another agent hands nothing off
            self.handed.pop(thread_id, None)
        user = next((id for id in event.message_ids if id == request_id or _OF_A_USER.fullmatch(id)), None)
        if fork is not None:
            self.consent.fork(fork.thread_id, thread_id)
            bound = self._continued(fork)
        elif user == request_id and thread_id in self.children:
            bound = above
        elif user is not None and not (user == request_id and thread.current.number > 1):
            settings = self.given(thread_id if user == request_id else user)
            funds = frozenset([event.run_id]) if settings.budget else frozenset[str]()
            allowed = (rule.tool for rule in settings.permissions if rule.behavior is Behavior.ALLOW)
            bound = Bound(above.rules | strict_rules(settings.permissions), funds, frozenset(allowed))
            if settings.budget is not None and settings.budget.turns is not None:
                self.limits[event.run_id] = settings.budget.turns
        elif user is None:
            for starter in self._starters(before, thread_id, event.message_ids):
                bound = bound.along_with(self.runs.get(starter, Bound()).passed_on)
        self.runs[event.run_id], self.threads[event.run_id] = bound, thread_id

    def _continued(self, fork: Fork) -> Bound:
        """What certainly binds a run that continues one of another thread, which may have been reset since."""
        origin, steps = fork.thread_id, self.steps.get((fork.thread_id, fork.step), [])
        if not steps or origin in self.shortened:
            return Bound()
        added = (rules for (run_id, _), rules in self.added.items() if self.threads.get(run_id) == origin)
        hooks = (rule.tool for rules in added for rule in rules if rule.behavior is Behavior.ALLOW)
        allowed = frozenset(hooks).union(*(bound.allowed for bound in steps))
        return Bound(frozenset.intersection(*(bound.rules for bound in steps)), allowed=allowed)

    def _begin_step(self, thread: Thread) -> None:
        """What was added in a step holds from the next one on: calls of the same step may have begun before it."""
        thread_id, run_id, number = thread.identity.thread_id, thread.identity.run_id, thread.counters.steps
        is_first = thread.current.step.number == 1
        hooks = () if is_first else self.steps.get((thread_id, number - 1), [Bound()])[-1].hooks
        added = self.added.get((run_id, number - 1), ())
        bound = replace(self.runs.get(run_id, Bound()), hooks=(*hooks, *added))
        self.runs[run_id], self.added[run_id, number] = bound, ()
        self.steps.setdefault((thread_id, number), []).append(bound)

    def _starters(self, before: Thread | None, thread_id: str, messages: Iterable[str]) -> Iterator[str]:
        """The runs that started the tasks whose ends, events or mail begin a run."""
        passive = {later.message.id for later in before.steering if later.passive} if before else set()
        for message in messages:
            if message in passive:
                continue
            if (thread_id, message) in self.mail:
                yield self.mail[thread_id, message]
            for (owner, task), starter in self.starters.items():
                if owner == thread_id and is_task_message(message, task):
                    yield starter

    def _command(self, thread: Thread, command: Command) -> str:
        """What is wrong with a command that a fact has led to; empty if nothing is."""
        thread_id = thread.identity.thread_id
        match command:
            case CallTool(id=id, call=call):
                self.escapes[thread_id, id] = self._escape(thread, call.name, call.id)
                return ""
            case StartTask(id=id, call=call):
                self.starting[thread_id, id] = self._passed_on(thread), thread.identity.run_id
                return self._escape(thread, call.name, call.id)
            case StartChild(id=id, request=request):
                passed_on, call_id = self._passed_on(thread), request.parent_tool_call_id or ""
                self.starting[thread_id, id] = passed_on, thread.identity.run_id
                given = {(rule.tool, rule.behavior) for rule in request.permissions}
                missing = (rule for rule in passed_on.rules if not _has(given, rule))
                lost = min((f"{rule.behavior.value} {rule.tool}" for rule in missing), default=None)
                is_lost = "" if lost is None else f"a sub-agent starts without the rule {lost!r}"
                return self._escape(thread, self.tools.get((thread_id, call_id), ""), call_id) or is_lost
            case _:
                return ""

    def _ran(self, thread_id: str, fact: ToolReturned) -> str:
        """The escape that a call turns out to be, because its tool has run."""
        outcome, escape = fact.outcome, self.escapes.pop((thread_id, fact.id), "")
        has_run = not outcome.gated and outcome.blocked is None and outcome.result.status is ToolStatus.SUCCESS
        return escape if has_run else ""

    def _escape(self, thread: Thread, name: str, call_id: str) -> str:
        """Why a call that starts now must not run; empty if it may."""
        behaviors = {rule.behavior for rule in self._binding(thread) if rule.applies_to(name)}
        if Behavior.DENY in behaviors:
            return f"{name} {call_id} ran, which something above denies"
        if Behavior.ASK in behaviors and not self.consent.covers(thread, name, call_id):
            return f"{name} {call_id} ran without the decision that something above asks for"
        return ""

    def _bound(self, thread: Thread) -> Bound:
        """What binds the run now. What hooks and tools allow holds at once, in the step in which they add it."""
        run_id = thread.identity.run_id
        bound, added = self.runs.get(run_id, Bound()), self.added.get((run_id, thread.counters.steps), ())
        return replace(bound, hooks=(*bound.hooks, *(rule for rule in added if rule.behavior is Behavior.ALLOW)))

    def _binding(self, thread: Thread) -> Rules:
        """Every rule that holds for the calls of the run, from wherever it comes."""
        bound = self._bound(thread)
        handed = self.handed.get(thread.identity.thread_id, {})
        others = (rules for agent, rules in handed.items() if agent != thread.agent.agent_id)
        return bound.binding.union(_policy(thread, bound.exceptions), *others)

    def _passed_on(self, thread: Thread) -> Bound:
        """What binds the sub-agents that the run of the thread starts."""
        bound = self._bound(thread).passed_on
        handed = self.handed.get(thread.identity.thread_id, {})
        return replace(bound, rules=bound.rules.union(alone(_policy(thread)), *handed.values()))


def _policy(thread: Thread, allowed: frozenset[str] = frozenset()) -> Rules:
    policy = thread.agent.permissions
    return strict_rules(policy.rules if policy else (), allowed)


def _has(given: set[tuple[str, Behavior]], rule: Strict) -> bool:
    """Whether a rule, or one that denies in its place, is given."""
    return (rule.tool, rule.behavior) in given or (rule.tool, Behavior.DENY) in given


def _added_rules(fact: Fact) -> tuple[Rule, ...]:
    """The rules that hooks and tools add with what they return."""
    effects: HookEffects | None = None
    match fact:
        case ToolReturned(outcome=outcome):
            effects = outcome.effects
        case InferenceReturned(response=response):
            effects = response.effects
        case HooksReturned():
            effects = fact.effects
        case _:
            pass
    return effects.permissions if effects is not None else ()
