"""Random histories of a thread: activities return or fail, decisions, messages and timers come at any time.

The source of randomness is a `random.Random`: a seeded one, which is fast, or hypothesis's, which shrinks a failure.
"""

from random import Random
from typing import TypeVar

from pydantic import JsonValue

from tests.loop.children import (
    TOOLS,
    agent_message,
    background_call,
    cancel_call,
    child_settled,
    delegate_call,
    send_call,
    spawn_call,
)
from tests.loop.driving import (
    REQUEST,
    THREAD,
    asks,
    call,
    input_message,
    make_agent,
    make_ticket,
    merge_op,
    says,
    set_op,
    with_hooks,
)
from tests.loop.invariants import CheckedRun
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
from wakeful.contract.hooks import FinalAnswer, Hold, HookEffects, LifecyclePhase, RequestChanges
from wakeful.contract.inference import Interruption, ModelResponse, OutputSpec, RecoveryPlan, StopReason
from wakeful.contract.mail import TaskEvent
from wakeful.contract.messages import ToolCall
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.runs import Cancelled, NaturalEnd, OnBusy, StopDetail, Usage
from wakeful.contract.settings import RunSettings
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
    EditRequested,
    Fact,
    HooksReturned,
    InferenceReturned,
    LoopFailed,
    MailReceived,
    MessagesSubmitted,
    RevocationRequested,
    SignalMalformed,
    TimerFired,
    ToolReturned,
    WithdrawalRequested,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.thread.submissions import INLINE_BYTES

T = TypeVar("T")

ENOUGH = StopDetail(code="enough", detail="that will do")
SCHEMAS: tuple[JsonValue, ...] = ({"type": "object"}, {"required": ["tag"]}, {"type": "string"})
SUSPENDED_ARGUMENTS: tuple[JsonValue, ...] = (None, {"n": 1})
OTHER_ARGUMENTS: JsonValue = "others"

PLAIN = ("look", "pick", "fly")
"""Tools that gates have verdicts for; they have none here for the runtime's own."""

CALL_IDS = ("a", "b", "c", "suspend_a")
SUSPENSION_IDS = ("s", "suspend_a", "a", "s:b")
ENDS: tuple[Fact, ...] = (
    CancelRequested(),
    CancelRequested("enough"),
    CancelRequested(close=True),
    LoopFailed("boom"),
)


class Dice:
    """Random choices that say how likely each value is."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def one_of(self, *values: T) -> T:
        return self._chance.choice(values)

    def mostly(self, usual: T, *others: T) -> T:
        """Mostly the usual value, and sometimes another."""
        return self._chance.choice((*[usual] * 10, *others))

    def number_below(self, bound: int) -> int:
        return self._chance.randrange(bound)

    def one_in(self, one_in: int) -> bool:
        return self._chance.randrange(one_in) == 0


class World:
    """Everything outside a thread: performs its commands, in any order and with failures, and sends signals."""

    def __init__(self, chance: Random) -> None:
        self.dice = dice = Dice(chance)
        self.agent = make_agent(
            dice.one_of(*ToolMode),
            max_rounds=dice.mostly(16, 0, 1, 2),
            max_continuations=dice.one_of(2, 1, 0),
            output=dice.one_of(None, OutputSpec(name="Weather", json_schema={}, max_repairs=1)),
        )
        self.has_subagents = dice.one_in(2)
        if self.has_subagents:
            self.agent = self.agent.model_copy(update={"tools": TOOLS})
        if dice.one_in(2):
            self.agent = with_hooks(*(phase for phase in LifecyclePhase if dice.one_in(2)), agent=self.agent)
        self.mail_count = 0
        self.revision = dice.mostly(REVISION, *range(1, REVISION))
        self.run = CheckedRun(dice.one_of(REQUEST, THREAD))
        self.script = 1 + dice.number_below(5)
        self.reported: list[Fact] = []

    def make_moves(self) -> None:
        """Make random moves, perhaps cancel, close or fail the run, and make a few moves after that."""
        for _ in range(self.dice.number_below(25)):
            self.move()
        if self.dice.one_in(2):
            self.run.feed(self.dice.one_of(*ENDS))
        for _ in range(self.dice.number_below(5)):
            self.move()

    def move(self) -> None:
        if self.dice.one_in(6):
            self.run.continue_as_new()
        others = (self.submit, self.change, self.pass_time, self.repeat, self.malform)
        moves = (*[self.end_work] * 7, *[self.decide] * 5, *others)
        if self.has_subagents:
            moves = (*moves, *[self.end_child] * 3, *[self.mail] * 2)
        self.dice.one_of(*moves)()

    def finish_all_work(self) -> None:
        """Every command in flight succeeds, until none is left."""
        while in_flight := sorted(self.run.thread.in_flight | set(self.children())):
            self.run.feed(self.success_of(in_flight[0], ToolOutcome(result=ToolResult.success("look", "sunny"))))

    def children(self) -> list[str]:
        """The work ids of the running sub-agents and tasks."""
        state = self.run.thread
        calls = state.batch.running if state.batch else ()
        delegates = [call.id for call in calls if call.child_thread_id is not None]
        return [*delegates, *(task.task_id for task in state.children.running)]

    def end_child(self) -> None:
        if children := self.children():
            fact = self.outcome_of(self.dice.one_of(*children))
            self.reported.append(fact)
            self.run.feed(fact)

    def mail(self) -> None:
        """A message of another agent or an event of a task; new ones and repeats."""
        self.mail_count += 1
        id = f"mail_{self.dice.mostly(self.mail_count, 1, 2)}"
        task_id = self.dice.one_of("bg_0", *self.children())
        event = MailReceived(TaskEvent(message_id=id, task_id=task_id, event_type="progress"))
        self.run.feed(self.dice.one_of(MailReceived(agent_message(id)), event))

    def end_work(self) -> None:
        if in_flight := sorted(self.run.thread.in_flight):
            fact = self.outcome_of(in_flight[self.dice.number_below(len(in_flight))])
            self.reported.append(fact)
            self.run.feed(fact)

    def outcome_of(self, id: str) -> Fact:
        """The command returns, or fails, or is cancelled; tools fail more often than others."""
        ending = self.dice.one_of(*["returned"] * 24, *["tool lost"] * 2, *["tool stopped"] * 2, "lost", "stopped")
        if isinstance(self.run.issued[id], StartChild | StartTask):
            if ending in ("lost", "tool lost"):
                return ChildClosed(id, "it was terminated")
            return child_settled(id, termination=Cancelled() if "stopped" in ending else NaturalEnd())
        is_tool = isinstance(self.run.issued[id], CallTool)
        if ending == "lost" or (is_tool and ending == "tool lost"):
            return WorkFailed(id, "its worker was lost")
        if ending == "stopped" or (is_tool and ending == "tool stopped"):
            return WorkCancelled(id)
        return self.success_of(id, self.tool_outcome())

    def success_of(self, id: str, outcome: ToolOutcome) -> Fact:
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
                return child_settled(id)
            case SendSignal() | DeliverMessage():
                return Delivered(id)
            case stop:
                raise AssertionError(f"{stop} is never in flight")

    def tool_outcome(self) -> ToolOutcome:
        kind = self.dice.one_of(*["success"] * 8, *["error"] * 3, *["pending"] * 5, "blocked")
        if kind == "blocked":
            return ToolOutcome(result=ToolResult.error("look", "locked"), blocked="locked", effects=self.effects())
        return ToolOutcome(result=self.result(kind), effects=self.effects())

    def effects(self) -> HookEffects | None:
        """What hooks and tools request: mostly nothing or a write, and sometimes an end or a handoff."""
        dice = self.dice
        if self.script == 0 or not self.agent.state_keys or dice.one_in(2):
            return None
        base = max(0, self.run.thread.agent_state.revision - dice.mostly(0, 1, 2))
        request: dict[str, object] = dice.mostly(
            {},
            {"stop": ENOUGH},
            {"block": "locked"},
            {"fail": "no audit"},
            {"handoff": "billing"},
            {"retry": "Again."},
            {"finish": FinalAnswer(text=dice.one_of("Here.", ""))},
            {"next_request": RequestChanges(excluded=("look",))},
            {"hold": (Hold(key="build"),)},
            {"release": ("build",)},
        )
        op = dice.one_of(
            merge_op("count", 1), merge_op("visits", 1), set_op("draft", dice.number_below(9)), set_op("undeclared", 1)
        )
        return HookEffects(base=base, state=(op, merge_op("notes", [1]))).model_copy(update=request)

    def result(self, kind: str) -> ToolResult:
        if kind == "success":
            return ToolResult.success("look", "sunny")
        if kind == "error":
            return ToolResult.error("look", "no such city")
        return ToolResult.suspended("look", self.ticket() if self.dice.number_below(6) else None, "May I?")

    def ticket(self) -> SuspensionTicket:
        dice = self.dice
        expiry = Expiry(
            after_seconds=dice.one_of(0.005, 0.05, 5), then=dice.one_of(*ExpiryAction), result=dice.one_of(None, {})
        )
        ticket = make_ticket(
            dice.one_of("", *SUSPENSION_IDS),
            mode=dice.one_of(*ResumeMode),
            asks_for=dice.mostly(None, *SCHEMAS),
            expiry=expiry if dice.one_in(4) else None,
            escalate_after=dice.mostly(None, 0.01, 0.05, 5.0),
            remember=dice.one_of(None, "look", "look(at = Paris)"),
        )
        return ticket.model_copy(update={"pending": call("suspended", arguments=dice.one_of(*SUSPENDED_ARGUMENTS))})

    def answer(self) -> ModelResponse:
        """Up to four calls, some with verdicts of gates; sometimes truncated, interrupted or invalid."""
        dice = self.dice
        if self.script == 0:
            return says("Done.")
        self.script -= 1
        drawn = [self.tool_call(dice.one_of(*CALL_IDS)) for _ in range(dice.mostly(1 + dice.number_below(4), 0, 0))]
        distinct = drawn if dice.one_in(12) else list({call.id: call for call in drawn}.values())
        calls = tuple(self.unique(call) for call in distinct)
        verdicts = {call.id: self.verdict(call) for call in calls if call.name in PLAIN and dice.one_in(4)}
        faults = {
            "stop_reason": dice.mostly(StopReason.END_TURN, *[StopReason.MAX_TOKENS] * 5),
            "incomplete_calls": dice.mostly((), ("look",), ("look", "pay")),
            "interruptions": tuple(self.interruption() for _ in range(dice.mostly(0, 1, 2))),
            "output_problem": dice.mostly(None, "not JSON", "not JSON"),
            "verdicts": verdicts | ({"unknown": Block(reason="no such call")} if dice.one_in(12) else {}),
        }
        return asks(*calls, text=dice.one_of("", "Hm."), usage=Usage(total_tokens=1)).model_copy(update=faults)

    def tool_call(self, id: str) -> ToolCall:
        """A call of an ordinary tool or, if the agent has sub-agents, often of one of the runtime's tools."""
        plain = call(id, self.dice.mostly("look", "pick", "pick", "fly"))
        to: tuple[JsonValue, ...] = (
            {"relation": "parent"},
            {"relation": "child", "name": "bg_0"},
            {"relation": "agent", "thread_id": "t5"},
        )
        if not self.has_subagents or self.dice.one_in(2):
            return plain
        return self.dice.one_of(
            *[delegate_call(id)] * 3,
            *[spawn_call(id)] * 4,
            spawn_call(id, "scout"),
            background_call(id),
            cancel_call(id, self.dice.one_of("bg_0", "scout")),
            cancel_call(id, "bg_1"),
            self.dice.mostly(plain, cancel_call(id)),
            send_call(id, self.dice.one_of(*to)),
            call(id, self.dice.one_of("handoff_to_billing", "handoff_to_assistant")),
            call(id, "list_tasks"),
        )

    def unique(self, call: ToolCall) -> ToolCall:
        """Call ids are unique over the steps of a thread, as the inference activity makes them."""
        if call.id not in self.run.ready.keys() | self.run.decisions.suspended_as.keys():
            return call
        return call.model_copy(update={"id": f"{call.id}_{self.run.thread.counters.steps}"})

    def verdict(self, call: ToolCall) -> Verdict:
        kind = self.dice.one_of("block", *["suspend"] * 4, *["set_result"] * 2)
        if kind == "block":
            return Block(reason=f"not {call.id}")
        if kind == "suspend":
            ticket, mode = self.ticket(), ResumeMode.USE_DECISION_AS_TOOL_RESULT
            return Suspend(ticket=ticket.model_copy(update={"resume_mode": mode}) if call.name == "pick" else ticket)
        pending = () if call.name == "pick" else ("pending",)
        return SetResult(result=self.result(self.dice.one_of("success", "error", *pending)))

    def interruption(self) -> Interruption:
        return Interruption(
            cause="connection reset",
            plan=self.dice.one_of(*RecoveryPlan),
            call_id=self.dice.one_of(None, "dropped"),
            call_name=self.dice.one_of(None, "look"),
        )

    def decide(self) -> None:
        self.run.send(tuple(self.decision() for _ in range(1 + self.dice.number_below(2))))

    def decision(self) -> Decision:
        """A decision for a call or suspension, mostly one of the newest; not always a valid one."""
        dice, names = self.dice, self.run.names
        newest = names[-1 - min(dice.number_below(len(names)), dice.number_below(len(names)))]
        return Decision(
            target=dice.mostly(newest, *CALL_IDS, *SUSPENSION_IDS, "unknown"),
            action=dice.mostly(DecisionAction.RESUME, DecisionAction.CANCEL, DecisionAction.CANCEL),
            decision_id=dice.one_of(None, "d1", "d2", "d3"),
            arguments=dice.mostly(None, {}, {}, "not arguments"),
            arguments_digest=dice.mostly(None, *map(digest_arguments, (*SUSPENDED_ARGUMENTS, OTHER_ARGUMENTS))),
            always=dice.one_in(8),
        )

    def submit(self) -> None:
        dice = self.dice
        messages = tuple(input_message(dice.one_of(*"vwxyz")) for _ in range(dice.number_below(3)))
        overrides = dice.mostly(None, InferenceOverrides(max_tokens=9), InferenceOverrides(max_tokens=9))
        on_busy = dice.one_of(*[OnBusy.ENQUEUE] * 4, *OnBusy)
        self.run.feed(MessagesSubmitted(messages, on_busy, settings=RunSettings(overrides=overrides)))

    def change(self) -> None:
        """Withdraw or edit messages, or revoke rules, of which there may be none."""
        dice = self.dice
        request_id, some = dice.one_of(None, "q1", "q2"), tuple(dice.one_of(*"vwxyz", "r1:1") for _ in range(2))
        edited = input_message(some[0]).model_copy(update={"content": dice.one_of("edited", "e" * INLINE_BYTES)})
        changes: tuple[Fact, ...] = (
            WithdrawalRequested(some, request_id),
            EditRequested(edited, request_id),
            RevocationRequested(("look", "pay"), request_id),
        )
        self.run.feed(dice.one_of(*changes))

    def pass_time(self) -> None:
        """A timer fires: when the next alarm is due, or at any other time."""
        alarm = self.run.thread.next_alarm
        until = alarm - self.run.now if alarm is not None and self.dice.number_below(3) else self.dice.number_below(60)
        late = self.dice.mostly(0, 1, 30)  # the workflow task that brings it may run later
        self.run.feed(TimerFired(self.run.now + max(1, until)), after=max(1, until) + late)

    def repeat(self) -> None:
        """The result of a command is reported once more."""
        if self.reported:
            self.run.feed(self.dice.one_of(*self.reported))

    def malform(self) -> None:
        self.run.feed(SignalMalformed("decide", "not a decision"))
