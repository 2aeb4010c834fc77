"""Drive the loop by hand: feed it facts, ten milliseconds apart, and record its commands and events."""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar, Unpack

from pydantic import JsonValue

from wakeful.contract.agents import HistoryBudget, ModelBinding, ResolvedAgent, ToolMode
from wakeful.contract.carryover import Carryover
from wakeful.contract.decisions import (
    Decision,
    DecisionAction,
    Expiry,
    ResumeMode,
    Suspension,
    SuspensionTicket,
    digest_arguments,
)
from wakeful.contract.events import AgentEvent, ToolCallOutcome, ToolCallResumed
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import HookEffects, LifecyclePhase, Phase, PluginBinding
from wakeful.contract.inference import ModelResponse, OutputSpec, StopReason
from wakeful.contract.messages import InputMessage, Message, Role, ToolCall, Visibility
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, RunResult, RunStatus, ThreadMode, ToolCallStatus, Usage
from wakeful.contract.segments import SegmentRef
from wakeful.contract.settings import Caller, RunOptions, RunSettings
from wakeful.contract.state import StateAction, StateKeySpec, StateMerge, StateOp, StateScope
from wakeful.contract.tools import FrontendTool, ToolDescriptor, ToolOutcome, ToolResult
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.commands import (
    CallTool,
    CancelWork,
    Command,
    Infer,
    ResolveAgent,
    RunHooks,
    StartChild,
    StartTask,
)
from wakeful.loop.machine.facts import (
    AgentResolved,
    CancelRequested,
    ChildIdAssigned,
    DecisionsReceived,
    Fact,
    HooksReturned,
    InferenceReturned,
    MessagesSubmitted,
    TimerFired,
    ToolReturned,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.machine.stages import Done, Idle
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread.continue_as_new import ThreadSnapshot, pack, unpack
from wakeful.loop.thread.opening import begin

C = TypeVar("C", bound=Command)

TICK = 10
LOOK = ToolDescriptor(id="look", name="look")
PAY = ToolDescriptor(id="pay", name="pay")
PICK = FrontendTool(id="pick")
REQUEST = RunRequest(agent_id="assistant", input="Hello", frontend_tools=(PICK,))
THREAD = RunRequest(agent_id="assistant", input="Hello", frontend_tools=(PICK,), mode=ThreadMode.THREAD)
NO_INPUT = RunRequest(agent_id="assistant", mode=ThreadMode.THREAD)


def make_agent(
    mode: ToolMode = ToolMode.SEQUENTIAL,
    *,
    max_rounds: int = 16,
    max_continuations: int = 2,
    output: OutputSpec | None = None,
    gates: tuple[str, ...] = (),
) -> ResolvedAgent:
    return ResolvedAgent(
        agent_id="assistant",
        model=ModelBinding(id="default", provider="scripted", name="model-1"),
        tools=(LOOK, PAY),
        max_rounds=max_rounds,
        tool_mode=mode,
        max_continuations=max_continuations,
        output=output,
        gates=gates,
    )


AGENT = make_agent()
PARALLEL = make_agent(ToolMode.PARALLEL)

COUNT = StateKeySpec(key="count", merge=StateMerge.ADD)
NOTES = StateKeySpec(key="notes", merge=StateMerge.APPEND)
DRAFT = StateKeySpec(key="draft")
VISITS = StateKeySpec(key="visits", scope=StateScope.THREAD, merge=StateMerge.ADD)
KEYS = (COUNT, NOTES, DRAFT, VISITS)


def with_hooks(
    *lifecycle: LifecyclePhase, agent: ResolvedAgent = AGENT, phases: tuple[Phase, ...] = ()
) -> ResolvedAgent:
    """The agent with the state keys and a plugin that has hooks for these lifecycle events and phases."""
    plugins = (PluginBinding(id="p", phases=phases, lifecycle=lifecycle),) if lifecycle or phases else ()
    return agent.model_copy(update={"plugins": plugins, "state_keys": KEYS})


def set_op(key: str, value: JsonValue) -> StateOp:
    return StateOp(key=key, action=StateAction.SET, value=value)


def merge_op(key: str, value: JsonValue) -> StateOp:
    return StateOp(key=key, action=StateAction.MERGE, value=value)


def reset_op(key: str) -> StateOp:
    return StateOp(key=key, action=StateAction.RESET)


def state_effects(*ops: StateOp, base: int = 0) -> HookEffects:
    return HookEffects(base=base, state=ops)


def call(id: str, name: str = "look", arguments: JsonValue = None) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def asks(*calls: ToolCall, text: str = "", usage: Usage | None = None) -> ModelResponse:
    return ModelResponse(model="model-1", text=text, tool_calls=calls, usage=usage or Usage())


def asks_gated(*calls: ToolCall, **verdicts: Verdict) -> ModelResponse:
    """An answer with the verdicts of gates, by call id."""
    return asks(*calls).model_copy(update={"verdicts": verdicts})


def says(text: str, usage: Usage | None = None) -> ModelResponse:
    return asks(text=text, usage=usage)


def truncated(text: str = "", *calls: ToolCall, incomplete: tuple[str, ...] = ()) -> ModelResponse:
    """An answer that hit the token limit."""
    response = asks(*calls, text=text)
    return response.model_copy(update={"stop_reason": StopReason.MAX_TOKENS, "incomplete_calls": incomplete})


def ok(data: JsonValue) -> ToolResult:
    return ToolResult.success("look", data)


def make_ticket(
    id: str,
    *,
    mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL,
    message: str | None = None,
    asks_for: JsonValue = None,
    expiry: Expiry | None = None,
    escalate_after: float | None = None,
    remember: str | None = None,
) -> SuspensionTicket:
    suspension = Suspension(
        id=id,
        action="ask",
        message=message,
        response_schema=asks_for,
        expiry=expiry,
        escalate_after_seconds=escalate_after,
    )
    return SuspensionTicket(suspension=suspension, pending=call("suspended"), resume_mode=mode, remember=remember)


def pending_with(ticket: SuspensionTicket) -> ToolResult:
    return ToolResult.suspended("look", ticket)


def pending(
    id: str | None = None, *, mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL, message: str | None = None
) -> ToolResult:
    """A suspension: with a ticket under this id, or without a ticket."""
    if id is None:
        return ToolResult.suspended("look", message=message)
    return pending_with(make_ticket(id, mode=mode, message=message))


def with_digest(ticket: SuspensionTicket | None) -> SuspensionTicket:
    """A ticket as the loop publishes it: with the digest of its arguments."""
    assert ticket is not None
    return ticket.model_copy(update={"arguments_digest": digest_arguments(ticket.pending.arguments)})


def resume(target: str, result: JsonValue = None, *, id: str | None = None, actor: str | None = None) -> Decision:
    return Decision(target=target, action=DecisionAction.RESUME, result=result, decision_id=id, actor=actor)


def reject(target: str, reason: str | None = None, *, id: str | None = None, result: JsonValue = None) -> Decision:
    return Decision(target=target, action=DecisionAction.CANCEL, reason=reason, decision_id=id, result=result)


def input_message(id: str, text: str = "And then?") -> InputMessage:
    return InputMessage(content=text, id=id)


def submitted_message(id: str) -> Message:
    """A submitted message as an inference request has it: inline, because it is short."""
    return input_message(id).as_message("")


def call_resumed(id: str, result: JsonValue, text: str | None = None, *, has_failed: bool = False) -> ToolCallResumed:
    outcome = ToolCallOutcome.FAILED if has_failed else ToolCallOutcome.SUCCEEDED
    return ToolCallResumed(target_id=id, result=result, outcome=outcome, text=text)


def snapshot_of(state: Thread) -> ThreadSnapshot:
    """What the thread passes to its next execution."""
    budget = HistoryBudget(events=9, bytes=99)
    return ThreadSnapshot(state, search_attributes=("WakefulStatus",), status=RunStatus.WAITING, budget=budget)


def segment_of(state: Thread, *, messages: int) -> SegmentRef:
    """An archive of the thread's first messages."""
    position = state.transcript.position_at(messages)
    assert position is not None
    return SegmentRef(
        archive_id="t1/archive/1-a",
        run_id="archive-run",
        first_message=0,
        messages=messages,
        digest=position.digest,
        first_event=0,
        events=0,
    )


def after_continue_as_new(state: Thread) -> Thread:
    """The thread in its next execution."""
    return unpack(pack(snapshot_of(state))).thread


def thread_id_of(work_id: str) -> str:
    """The thread id that the driver assigns to a sub-agent or task."""
    return f"t1/{work_id}"


class Driver:
    """Feeds facts to a thread, from `begin` on. It resolves `agent` and assigns the thread ids of children at once."""

    def __init__(
        self,
        agent: ResolvedAgent | None = AGENT,
        *,
        request: RunRequest = REQUEST,
        revision: int = REVISION,
        carryover: Carryover | None = None,
    ) -> None:
        self.now = 0
        self.revision = revision
        run_id = "r1" if carryover is None else "woken"
        self.last = begin(request, thread_id="t1", run_id=run_id, carryover=carryover)
        self.commands: list[Command] = list(self.last.commands)
        self.events: list[AgentEvent] = list(self.last.events)
        if agent is not None:
            self.feed(AgentResolved(self._newest(ResolveAgent).id, agent, revision))

    def feed(self, *facts: Fact) -> Advance:
        for fact in facts:
            self.now += TICK
            self.last = advance(self.thread, fact, now=self.now)
            for command in self.last.commands:
                if isinstance(command, StartChild | StartTask) and CancelWork(command.id) not in self.last.commands:
                    assigned = ChildIdAssigned(command.id, thread_id_of(command.id))
                    self.last = self.last.then(advance, assigned, now=self.now)
            self.commands += self.last.commands
            self.events += self.last.events
        return self.last

    def model(self, response: ModelResponse, effects: HookEffects | None = None) -> Advance:
        """The inference in flight returns `response`, with the effects of hooks."""
        if effects is not None:
            response = response.model_copy(update={"effects": effects})
        return self.feed(InferenceReturned(self._newest(Infer).id, response))

    def tool(
        self, call_id: str, result: ToolResult, effects: HookEffects | None = None, *, gated: bool = False
    ) -> Advance:
        outcome = ToolOutcome(result=result, gated=gated, effects=effects)
        return self.feed(ToolReturned(self.work_id_of(call_id), outcome))

    def hooks(self, effects: HookEffects | None = None) -> Advance:
        """The hooks in flight return, with effects or without."""
        return self.feed(HooksReturned(self._newest(RunHooks).id, effects or HookEffects()))

    def block(
        self, call_id: str, reason: str, effects: HookEffects | None = None, *, result: ToolResult | None = None
    ) -> Advance:
        """A gate blocks the call just before its tool would run; `result` is what hooks made of the error."""
        made = result or ToolResult.rejected("look", reason)
        outcome = ToolOutcome(result=made, blocked=reason, effects=effects)
        return self.feed(ToolReturned(self.work_id_of(call_id), outcome))

    def wait(self, milliseconds: int) -> Advance:
        """Time passes, and the timer fires."""
        self.now += milliseconds - TICK
        return self.feed(TimerFired(self.now + TICK))

    def tool_failed(self, call_id: str, error: str, *, is_result: bool = False) -> Advance:
        return self.feed(WorkFailed(self.work_id_of(call_id), error, is_result=is_result))

    def tool_cancelled(self, call_id: str) -> Advance:
        return self.feed(WorkCancelled(self.work_id_of(call_id)))

    def decide(self, *decisions: Decision) -> Advance:
        return self.feed(DecisionsReceived(decisions))

    def submit(
        self,
        *ids: str,
        on_busy: OnBusy = OnBusy.ENQUEUE,
        agent_id: str | None = None,
        caller: Caller | None = None,
        **settings: Unpack[RunOptions],
    ) -> Advance:
        """Messages that arrive in one signal."""
        messages = tuple(input_message(id) for id in ids)
        given = RunSettings.model_validate(settings)
        return self.feed(MessagesSubmitted(messages, on_busy, agent_id, caller=caller or Caller(), settings=given))

    def cancel(self, reason: str | None = None, *, close: bool = False) -> Advance:
        return self.feed(CancelRequested(reason, close))

    def cancel_in_flight(self) -> None:
        """Everything in flight ends as cancelled."""
        self.feed(*(WorkCancelled(id) for id in sorted(self.thread.in_flight)))

    def resolve(self, agent: ResolvedAgent = AGENT) -> Advance:
        return self.feed(AgentResolved(self._newest(ResolveAgent).id, agent, self.revision))

    @property
    def thread(self) -> Thread:
        return self.last.thread

    @property
    def result(self) -> RunResult:
        assert isinstance(self.thread.stage, Done | Idle)
        assert self.thread.stage.result is not None
        return self.thread.stage.result

    @property
    def texts(self) -> list[str]:
        """The texts of the transcript."""
        return [message.text for message in self.thread.transcript.messages]

    @property
    def notes(self) -> list[str]:
        """The texts that only the model reads."""
        messages = self.thread.transcript.messages
        return [message.text for message in messages if message.visibility is Visibility.INTERNAL]

    @property
    def event_types(self) -> list[str]:
        return [event.event_type for event in self.events]

    @property
    def tool_results(self) -> list[tuple[str | None, str]]:
        """Each call id with its result, in the order of the transcript."""
        messages = self.thread.transcript.messages
        return [(message.tool_call_id, message.text) for message in messages if message.role is Role.TOOL]

    def json_result(self, call_id: str) -> JsonValue:
        """The result of this call, parsed."""
        parsed: JsonValue = json.loads(dict(self.tool_results)[call_id])
        return parsed

    @property
    def queued(self) -> list[str]:
        """The ids of the queued messages."""
        return [submitted.message.id for submitted in self.thread.queued]

    @property
    def call_statuses(self) -> list[ToolCallStatus]:
        """The statuses of the calls of the current step."""
        return [call.status for call in self.thread.batch.calls] if self.thread.batch else []

    @property
    def refusal_reasons(self) -> list[str]:
        """The reasons of the recorded refusals."""
        return [refusal.reason for refusal in self.thread.refusals]

    def events_of(self, *event_types: str) -> list[AgentEvent]:
        return [event for event in self.events if event.event_type in event_types]

    def inference(self) -> Infer:
        return self._newest(Infer)

    def tool_commands(self, call_id: str) -> list[CallTool]:
        """Every command that ran the tool of this call."""
        return [command for command in self.commands_of(CallTool) if command.call.id == call_id]

    def work_id_of(self, call_id: str) -> str:
        """The id of the newest command for this call."""
        return self.tool_commands(call_id)[-1].id

    def _newest(self, kind: type[C]) -> C:
        return self.commands_of(kind)[-1]

    def commands_of(self, kind: type[C]) -> list[C]:
        """Every command of this kind, so far."""
        return [command for command in self.commands if isinstance(command, kind)]


def resolving() -> Driver:
    return Driver(agent=None)


def inferring() -> Driver:
    return Driver()


def calling_tools() -> Driver:
    driver = Driver()
    driver.model(asks(call("c1"), call("c2", "pay")))
    return driver


def awaiting_decisions() -> Driver:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    return driver


def two_suspended() -> Driver:
    """Two suspended calls: `c1` with the suspension `s1`, and `c2` with `s2`."""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    driver.tool("c2", pending("s2"))
    return driver


def cancelling() -> Driver:
    driver = calling_tools()
    driver.cancel("enough")
    return driver


def done(*, request: RunRequest = REQUEST, revision: int = REVISION) -> Driver:
    driver = Driver(request=request, revision=revision)
    driver.model(says("Hello!"))
    return driver


def idle() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(says("Hello!"))
    return driver


def without_run() -> Driver:
    """A thread that waits for its first message."""
    return Driver(agent=None, request=NO_INPUT)


LIVE_STAGES: Mapping[str, Callable[[], Driver]] = {
    "resolving": resolving,
    "inferring": inferring,
    "calling tools": calling_tools,
    "awaiting decisions": awaiting_decisions,
    "cancelling": cancelling,
}
"""How to bring a run into each stage in which a fact can reach it."""
