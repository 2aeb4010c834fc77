"""Any history a run could have: a world that answers, fails, decides, interrupts and crashes as chance has it.

Chance is a `random.Random`: a seeded one, which is fast, or hypothesis's, which shrinks what fails.
"""

from random import Random
from typing import TypeVar

from pydantic import JsonValue

from tests.loop.children import TOOLS, a_letter, an_end, cancels, delegates, digs, spawns, writes
from tests.loop.driving import REQUEST, THREAD, a_message, a_ticket, an_agent, asks, call, hooked, merges, puts, says
from tests.loop.invariants import Watched
from wakeful.contract.agents import ToolMode
from wakeful.contract.decisions import (
    Decision,
    DecisionAction,
    Expiry,
    ExpiryAction,
    ResumeMode,
    SuspensionTicket,
    digest_arguments,
)
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.hooks import HookEffects, LifecyclePhase
from wakeful.contract.inference import (
    InferenceOverrides,
    Interruption,
    ModelResponse,
    OutputSpec,
    RecoveryPlan,
    StopReason,
)
from wakeful.contract.mail import TaskEvent
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import Cancelled, NaturalEnd, OnBusy, StopDetail, Usage
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.loop.machine.commands import (
    CallTool,
    DeliverMessage,
    Infer,
    ResolveAgent,
    RunHooks,
    SendSignal,
    StartChild,
    StartTask,
)
from wakeful.loop.machine.facts import (
    AgentResolved,
    CancelRequested,
    ChildClosed,
    Delivered,
    Fact,
    HooksReturned,
    InferenceReturned,
    LoopFailed,
    MailReceived,
    MessagesSubmitted,
    SignalMalformed,
    TimerFired,
    ToolReturned,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.state import REVISION

T = TypeVar("T")

ENOUGH = StopDetail(code="enough", detail="that will do")
SCHEMAS: tuple[JsonValue, ...] = ({"type": "object"}, {"required": ["tag"]}, {"type": "string"})
SHOWN: tuple[JsonValue, ...] = (None, {"n": 1})
NOT_SHOWN: JsonValue = "others"

PLAIN = ("look", "pick", "fly")
"""Tools that gates have something to say of; of the runtime's own they say nothing here."""

CALL_IDS = ("a", "b", "c", "suspend_a")
SUSPENSION_IDS = ("s", "suspend_a", "a", "s:b")
ENDS: tuple[Fact, ...] = (
    CancelRequested(),
    CancelRequested("enough"),
    CancelRequested(close=True),
    LoopFailed("boom"),
)


class Dice:
    """Throws that say how likely each side is."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def one(self, *sides: T) -> T:
        return self._chance.choice(sides)

    def often(self, usual: T, *others: T) -> T:
        """The usual value, and once in a while another."""
        return self._chance.choice((*[usual] * 10, *others))

    def below(self, bound: int) -> int:
        return self._chance.randrange(bound)

    def hits(self, one_in: int) -> bool:
        return self._chance.randrange(one_in) == 0


class World:
    """Performs a run's commands in any order, and sometimes badly; decides on it, well and badly; lets time pass."""

    def __init__(self, chance: Random) -> None:
        self.dice = dice = Dice(chance)
        self.agent = an_agent(
            dice.one(*ToolMode),
            max_rounds=dice.often(16, 0, 1, 2),
            max_continuations=dice.one(2, 1, 0),
            output=dice.one(None, OutputSpec(name="Weather", json_schema={}, max_repairs=1)),
        )
        self.has_family = dice.hits(2)
        if self.has_family:
            self.agent = self.agent.model_copy(update={"tools": TOOLS})
        if dice.hits(2):
            self.agent = hooked(*(moment for moment in LifecyclePhase if dice.hits(2)), agent=self.agent)
        self.mails = 0
        self.revision = dice.often(REVISION, *range(1, REVISION))
        self.run = Watched(dice.one(REQUEST, THREAD))
        self.run.answers.revision = self.revision
        self.script = 1 + dice.below(5)
        self.past: list[Fact] = []

    def live(self) -> None:
        """Moves, perhaps an end that comes from outside, and what comes after it."""
        for _ in range(self.dice.below(25)):
            self.move()
        if self.dice.hits(2):
            self.run.feed(self.dice.one(*ENDS))
        for _ in range(self.dice.below(5)):
            self.move()

    def move(self) -> None:
        if self.dice.hits(6):
            self.run.crash()
        moves = (*[self.end_work] * 7, *[self.decide] * 5, self.submit, self.pass_time, self.repeat, self.garble)
        if self.has_family:
            moves = (*moves, *[self.end_child] * 3, *[self.mail] * 2)
        self.dice.one(*moves)()

    def come_to_rest(self) -> None:
        """All that was asked for comes back, and well."""
        while in_flight := sorted(self.run.thread.in_flight | set(self.children())):
            self.run.feed(self.returned(in_flight[0], ToolOutcome(result=ToolResult.success("look", "sunny"))))

    def children(self) -> list[str]:
        """The sub-agents and tasks that run for the thread."""
        state = self.run.thread
        delegates = [call.id for call in state.batch.running if call.child_thread_id is not None] if state.batch else []
        return [*delegates, *(task.task_id for task in state.children.running)]

    def end_child(self) -> None:
        if children := self.children():
            fact = self.ended(self.dice.one(*children))
            self.past.append(fact)
            self.run.feed(fact)

    def mail(self) -> None:
        """A letter, or a word from a task; new ones and repeats."""
        self.mails += 1
        id = f"mail_{self.dice.often(self.mails, 1, 2)}"
        task_id = self.dice.one("bg_0", *self.children())
        event = MailReceived(TaskEvent(message_id=id, task_id=task_id, event_type="progress"))
        self.run.feed(self.dice.one(MailReceived(a_letter(id)), event))

    def end_work(self) -> None:
        if in_flight := sorted(self.run.thread.in_flight):
            fact = self.ended(in_flight[self.dice.below(len(in_flight))])
            self.past.append(fact)
            self.run.feed(fact)

    def ended(self, id: str) -> Fact:
        """The work ends: as it is meant to, badly if it is a tool, or badly whatever it is."""
        ending = self.dice.one(*["returned"] * 24, *["tool lost"] * 2, *["tool stopped"] * 2, "lost", "stopped")
        if isinstance(self.run.issued[id], StartChild | StartTask):
            if ending in ("lost", "tool lost"):
                return ChildClosed(id, "it was terminated")
            return an_end(id, termination=Cancelled() if "stopped" in ending else NaturalEnd())
        a_tool = isinstance(self.run.issued[id], CallTool)
        if ending == "lost" or (a_tool and ending == "tool lost"):
            return WorkFailed(id, "its worker was lost")
        if ending == "stopped" or (a_tool and ending == "tool stopped"):
            return WorkCancelled(id)
        return self.returned(id, self.outcome())

    def returned(self, id: str, outcome: ToolOutcome) -> Fact:
        match self.run.issued[id]:
            case ResolveAgent(agent_id=agent_id):
                answers = self.agent.model_copy(update={"agent_id": agent_id})
                return AgentResolved(id, answers, self.revision)
            case Infer():
                return InferenceReturned(id, self.answer().model_copy(update={"effects": self.effects()}))
            case RunHooks():
                return HooksReturned(id, self.effects() or HookEffects())
            case CallTool():
                return ToolReturned(id, outcome)
            case StartChild() | StartTask():
                return an_end(id)
            case SendSignal() | DeliverMessage():
                return Delivered(id)
            case stop:
                raise AssertionError(f"{stop} is never in flight")

    def outcome(self) -> ToolOutcome:
        kind = self.dice.one(*["success"] * 8, *["error"] * 3, *["pending"] * 5, "blocked")
        if kind == "blocked":
            return ToolOutcome(result=ToolResult.error("look", "locked"), blocked="locked", effects=self.effects())
        return ToolOutcome(result=self.result(kind), effects=self.effects())

    def effects(self) -> HookEffects | None:
        """What hooks and tools ask for: mostly nothing, or a write; once in a while an end or another agent."""
        dice = self.dice
        if self.script == 0 or not self.agent.state_keys or dice.hits(2):
            return None
        base = max(0, self.run.thread.agent_state.revision - dice.often(0, 1, 2))
        wish: dict[str, object] = dice.often(
            {}, {"stop": ENOUGH}, {"block": "locked"}, {"fail": "no audit"}, {"handoff": "billing"}, {"retry": "Again."}
        )
        op = dice.one(merges("count", 1), merges("visits", 1), puts("draft", dice.below(9)), puts("nobody's", 1))
        return HookEffects(base=base, state=(op, merges("notes", [1]))).model_copy(update=wish)

    def result(self, kind: str) -> ToolResult:
        if kind == "success":
            return ToolResult.success("look", "sunny")
        if kind == "error":
            return ToolResult.error("look", "no such city")
        return ToolResult.suspended("look", self.ticket() if self.dice.below(6) else None, "May I?")

    def ticket(self) -> SuspensionTicket:
        dice = self.dice
        expiry = Expiry(after_seconds=dice.one(0.005, 0.05, 5), then=dice.one(*ExpiryAction), result=dice.one(None, {}))
        ticket = a_ticket(
            dice.one("", *SUSPENSION_IDS),
            mode=dice.one(*ResumeMode),
            asks_for=dice.often(None, *SCHEMAS),
            expiry=expiry if dice.hits(4) else None,
            escalate_after=dice.often(None, 0.01, 0.05, 5.0),
            remember=dice.one(None, "look", "look(at = Paris)"),
        )
        return ticket.model_copy(update={"pending": call("asked-about", arguments=dice.one(*SHOWN))})

    def answer(self) -> ModelResponse:
        """None to four calls, of which gates say something; once in a while alike, cut off, garbled or unfit."""
        dice = self.dice
        if self.script == 0:
            return says("Done.")
        self.script -= 1
        asked = [self.wish(dice.one(*CALL_IDS)) for _ in range(dice.often(1 + dice.below(4), 0, 0))]
        told_apart = asked if dice.hits(12) else list({call.id: call for call in asked}.values())
        calls = tuple(self.unique(call) for call in told_apart)
        verdicts = {call.id: self.verdict(call) for call in calls if call.name in PLAIN and dice.hits(4)}
        failings = {
            "stop_reason": dice.often(StopReason.END_TURN, *[StopReason.MAX_TOKENS] * 5),
            "incomplete_calls": dice.often((), ("look",), ("look", "pay")),
            "interruptions": tuple(self.interruption() for _ in range(dice.often(0, 1, 2))),
            "output_problem": dice.often(None, "not JSON", "not JSON"),
            "verdicts": verdicts | ({"nobody": Block(reason="who?")} if dice.hits(12) else {}),
        }
        return asks(*calls, text=dice.one("", "Hm."), usage=Usage(total_tokens=1)).model_copy(update=failings)

    def wish(self, id: str) -> ToolCall:
        """A call: mostly of a tool, and of an agent that has a family, often of one of the runtime's."""
        plain = call(id, self.dice.often("look", "pick", "pick", "fly"))
        to: tuple[JsonValue, ...] = (
            {"relation": "parent"},
            {"relation": "child", "name": "bg_0"},
            {"relation": "agent", "thread_id": "t5"},
        )
        if not self.has_family or self.dice.hits(2):
            return plain
        return self.dice.one(
            *[delegates(id)] * 3,
            *[spawns(id)] * 4,
            spawns(id, "scout"),
            digs(id),
            cancels(id, self.dice.one("bg_0", "scout")),
            cancels(id, "bg_1"),
            self.dice.often(plain, cancels(id)),
            writes(id, self.dice.one(*to)),
            call(id, self.dice.one("handoff_to_billing", "handoff_to_assistant")),
            call(id, "list_tasks"),
        )

    def unique(self, asked: ToolCall) -> ToolCall:
        """The call ids of one step are not those of another: the inference activity sees to it."""
        if asked.id not in self.run.ready.keys() | self.run.answers.suspended_as.keys():
            return asked
        return asked.model_copy(update={"id": f"{asked.id}_{self.run.thread.counters.steps}"})

    def verdict(self, asked: ToolCall) -> Verdict:
        kind = self.dice.one("block", *["suspend"] * 4, *["set_result"] * 2)
        if kind == "block":
            return Block(reason=f"not {asked.id}")
        if kind == "suspend":
            ticket, mode = self.ticket(), ResumeMode.USE_DECISION_AS_TOOL_RESULT
            return Suspend(ticket=ticket.model_copy(update={"resume_mode": mode}) if asked.name == "pick" else ticket)
        pending = () if asked.name == "pick" else ("pending",)
        return SetResult(result=self.result(self.dice.one("success", "error", *pending)))

    def interruption(self) -> Interruption:
        return Interruption(
            cause="connection reset",
            plan=self.dice.one(*RecoveryPlan),
            call_id=self.dice.one(None, "dropped"),
            call_name=self.dice.one(None, "look"),
        )

    def decide(self) -> None:
        self.run.send(tuple(self.decision() for _ in range(1 + self.dice.below(2))))

    def decision(self) -> Decision:
        """About a name that the run has used (the newest are likeliest), or any other; and not always a good one."""
        dice, names = self.dice, self.run.names
        newest = names[-1 - min(dice.below(len(names)), dice.below(len(names)))]
        return Decision(
            target=dice.often(newest, *CALL_IDS, *SUSPENSION_IDS, "nobody"),
            action=dice.often(DecisionAction.RESUME, DecisionAction.CANCEL, DecisionAction.CANCEL),
            decision_id=dice.one(None, "d1", "d2", "d3"),
            arguments=dice.often(None, {}, {}, "not arguments"),
            arguments_digest=dice.often(None, *map(digest_arguments, (*SHOWN, NOT_SHOWN))),
            always=dice.hits(8),
        )

    def submit(self) -> None:
        dice = self.dice
        messages = tuple(a_message(dice.one(*"vwxyz")) for _ in range(dice.below(3)))
        overrides = dice.often(None, InferenceOverrides(max_tokens=9), InferenceOverrides(max_tokens=9))
        on_busy = dice.one(*[OnBusy.ENQUEUE] * 4, *OnBusy)
        self.run.feed(MessagesSubmitted(messages, on_busy, overrides=overrides))

    def pass_time(self) -> None:
        """Until the next alarm or any other time, too early ones among them."""
        alarm = self.run.thread.next_alarm
        until = alarm - self.run.now if alarm is not None and self.dice.below(3) else self.dice.below(60)
        self.run.feed(TimerFired(), after=max(1, until))

    def repeat(self) -> None:
        """Work that has ended comes back once more."""
        if self.past:
            self.run.feed(self.dice.one(*self.past))

    def garble(self) -> None:
        self.run.feed(SignalMalformed("decide", "not a decision"))
