"""Follow a run for a client that waits: tell it what happens, ask it for decisions, and answer with the run's result.

A client of the handshake protocols is asked while its request is open. One of the newest protocol gets the questions as
the result of its request, and repeats the request with the answers. One that cannot be asked reads what the run waits
for, and continues it with another tool.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import JsonValue

from wakeful.client.approvals import PendingDecision
from wakeful.contract import events as e
from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.errors import CallerError, NoAnswer, WakefulError
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.runs import RunIdentity, Suspended
from wakeful.contract.views import OutcomesView
from wakeful.mcp.beginning import Target, detached
from wakeful.mcp.deciding import decide, pending_in
from wakeful.mcp.notices import Notices
from wakeful.mcp.questions import Answer, form, parse_form, question_text, ticket_of
from wakeful.mcp.records import Records
from wakeful.mcp.results import failure, finished, waiting
from wakeful.mcp.served import Served

Answered = CallToolResult | InputRequiredResult

LOOK_AGAIN_SECONDS = 10.0

NOT_READ = "The thread ended before a run read this message. Call again to wake the thread."


class RequestState(Wire):
    """What a client of the newest protocol sends back with its answers.

    It grants nothing: the thread is checked as one that an argument names. So any server can read it.
    """

    thread_id: str
    message_id: str | None = None
    run_id: str | None = None
    shown: dict[str, str | None] = {}
    """What was asked: the digest of the arguments that were shown, by ticket."""

    @property
    def target(self) -> Target:
        return Target(self.thread_id, self.message_id, self.run_id)


@dataclass(frozen=True)
class Replies:
    """What became of the answers that a request came with; it is filled in before the run is followed."""

    problems: dict[str, str] = field(default_factory=dict)
    """Why answers were refused, by ticket."""
    dismissed: set[str] = field(default_factory=set)
    """The tickets of questions that the person has closed without an answer."""
    decided: set[tuple[str, int | None]] = field(default_factory=set)
    """What is decided, by ticket and time, though perhaps no worker has applied it yet."""


class FollowedRun:
    """One request that waits for one run.

    Args:
        schema: of the agent's output type, if it has one.
        outlasts: wait also for decisions that the client may not make.
    """

    def __init__(
        self,
        served: Served,
        ctx: ServerRequestContext[None, Any],
        target: Target,
        notices: Notices,
        *,
        schema: dict[str, JsonValue] | None,
        replies: Replies,
        outlasts: bool = False,
    ) -> None:
        self._served = served
        self._ctx = ctx
        self._target = target
        self._notices = notices
        self._schema = schema
        self._replies = replies
        self._outlasts = outlasts
        self._run_id = target.run_id
        self._identity: RunIdentity | None = None
        self._paused: set[str] = set()
        """The threads whose runs wait for decisions."""
        self._asked = {*replies.decided}
        self._asking: dict[tuple[str, str], anyio.CancelScope] = {}
        self._answer: Answered | None = None
        self._group: anyio.abc.TaskGroup | None = None

    async def answer(self) -> Answered:
        """Wait until there is something to answer."""
        async with anyio.create_task_group() as self._group:
            self._group.start_soon(self._notices.keep_alive)
            self._group.start_soon(self._guarded, self._watch)
            self._group.start_soon(self._guarded, self._look_again)
        assert self._answer is not None, "a task group ends when its tasks have, or when the request is cancelled"
        return self._answer

    def _settle(self, answer: Answered) -> None:
        """Answer, unless there is an answer already, and end everything else that this request does."""
        assert self._group is not None
        self._answer = self._answer or answer
        self._group.cancel_scope.cancel()

    async def _guarded(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """An error that a caller can read is an answer; others are ours, and end the request."""
        try:
            await work(*arguments)
        except WakefulError as error:
            self._settle(failure(str(error), thread_id=self._target.thread_id))

    async def _watch(self) -> None:
        await self._notices.opened()
        live = "progress_token" in (self._ctx.meta or {})
        with Records(self._served.client, self._target.thread_id, live=live) as records:
            async for record in records:
                if isinstance(record, WakefulError):
                    await self._notices.on_trouble(record)
                else:
                    await self._on_record(record)
                if self._answer is not None:
                    return
        self._settle(failure(records.ending or NOT_READ, thread_id=self._target.thread_id))

    async def _look_again(self) -> None:
        """Read what paused runs wait for, now and then: what was read with the event may have been older."""
        while True:
            await anyio.sleep(LOOK_AGAIN_SECONDS)
            if self._paused:
                await self._on_pending()

    async def _on_record(self, record: e.EventRecord) -> None:
        if not record.path:
            await self._find_run(record)
        if self._run_id is None or (not record.path and record.run_id != self._run_id):
            return
        await self._notices.on_record(record)
        self._withdraw_question(record)
        thread_id = record.thread_id or self._target.thread_id
        match record.event:
            case e.RunStart():
                self._paused.discard(thread_id)
            case e.RunFinish(termination=Suspended()) if _waits_for_decisions(record.event):
                self._paused.add(thread_id)
                await self._on_pending()
            case e.RunFinish(termination=termination) if not record.path and not isinstance(termination, Suspended):
                self._settle(finished(record, record.event, schema=self._schema))
            case _:
                pass

    async def _find_run(self, record: e.EventRecord) -> None:
        """Notice the run that reads the message."""
        read: tuple[str, ...] = ()
        match record.event:
            case e.RunStart(identity=identity, message_ids=read):
                self._identity = identity or self._identity
            case e.MessagesRead(message_ids=read):
                pass
            case e.MessagesWithdrawn(message_ids=withdrawn) if self._target.message_id in withdrawn:
                raise CallerError("the message was withdrawn before a run read it")
            case e.SignalRefused(signal=names.SIGNAL_SUBMIT):
                await self._check_refusal()
            case _:
                pass
        is_wanted = record.run_id == self._run_id or self._target.message_id in read
        if is_wanted and self._identity is not None:
            self._served.check_thread(self._identity)
            self._run_id = record.run_id

    async def _check_refusal(self) -> None:
        thread_id, message_id = self._target.thread_id, self._target.message_id
        if message_id is None:
            return
        request = {"ids": [message_id]}
        query = self._served.client.reader.query(thread_id, names.QUERY_OUTCOMES, OutcomesView, request)
        for outcome in (await detached(query)).outcomes:
            if outcome.status is OutcomeStatus.REFUSED and outcome.is_message:
                raise CallerError(f"thread {thread_id!r} refused the message: {outcome.reason}")

    async def _on_pending(self) -> None:
        """The run, or one of its descendants, waits for decisions: ask for those that were not asked for yet."""
        try:
            found = await pending_in(self._served.client, self._target.thread_id)
        except NoAnswer:
            return  # it is read again
        pending = [each for each in found if (ticket_of(each), each.since) not in self._asked]
        if not pending:
            return  # they are made: this is an event of the past
        to_ask = [each for each in pending if self._served.may_decide(each)]
        if self._outlasts and not to_ask:
            return
        is_dismissed = any(ticket_of(each) in self._replies.dismissed for each in pending)
        if is_dismissed or not to_ask or not self._can_ask():
            self._settle(self._waiting(pending))
        elif self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._settle(self._input_required(to_ask))
        else:
            assert self._group is not None
            for each in to_ask:
                self._asked.add((ticket_of(each), each.since))
                self._group.start_soon(self._guarded, self._ask, each)

    def _can_ask(self) -> bool:
        capabilities = self._ctx.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        if elicitation is None or (elicitation.form is None and elicitation.url is not None):
            return False
        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or self._ctx.session.can_send_request

    def _waiting(self, pending: list[PendingDecision]) -> CallToolResult:
        return waiting(self._target.thread_id, pending, may_decide=self._served.may_decide)

    def _input_required(self, pending: list[PendingDecision]) -> InputRequiredResult:
        requests = {
            ticket_of(each): self._question(each, self._replies.problems.get(ticket_of(each))) for each in pending
        }
        state = RequestState(
            thread_id=self._target.thread_id,
            message_id=self._target.message_id,
            run_id=self._run_id,
            shown={ticket_of(each): each.arguments_digest for each in pending},
        )
        return InputRequiredResult(input_requests={**requests}, request_state=state.model_dump_json())

    def _question(self, pending: PendingDecision, problem: str | None) -> ElicitRequest:
        text = question_text(pending, problem=problem)
        return ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=form(pending)))

    async def _ask(self, pending: PendingDecision) -> None:
        """Ask the client, until an answer is accepted or the decision is made elsewhere."""
        key, problem = (pending.thread_id, pending.call_id), None
        self._asking[key] = scope = anyio.CancelScope()
        with scope:
            while True:
                try:
                    text = question_text(pending, problem=problem)
                    response = await self._ctx.session.elicit_form(text, form(pending), self._ctx.request_id)
                except MCPError:
                    return self._settle(self._waiting([pending]))
                if response.action == "cancel":
                    return self._settle(self._waiting([pending]))
                try:
                    is_accepted = response.action == "accept"
                    answer = parse_form(pending, response.content) if is_accepted else Answer(DecisionAction.CANCEL)
                    return await decide(self._served, self._ctx, pending, answer)
                except CallerError as error:
                    problem = str(error)

    def _withdraw_question(self, record: e.EventRecord) -> None:
        """Take back the question that was decided elsewhere."""
        thread_id = record.thread_id or self._target.thread_id
        match record.event:
            case e.ToolCallResumed(target_id=call_id) | e.ToolCallCancel(id=call_id):
                decided = [(thread_id, call_id)]
            case e.ToolCallDone(id=call_id, outcome=outcome) if outcome is not e.ToolCallOutcome.SUSPENDED:
                decided = [(thread_id, call_id)]
            case e.RunFinish(termination=termination) if not isinstance(termination, Suspended):
                decided = [key for key in self._asking if key[0] == thread_id]
            case _:
                decided = []
        for key in decided:
            if (scope := self._asking.pop(key, None)) is not None:
                scope.cancel()


def _waits_for_decisions(finish: e.RunFinish) -> bool:
    reason = finish.result.status_reason if finish.result else None
    return reason not in (names.AWAITING_TASKS, names.PENDING_WORK)
