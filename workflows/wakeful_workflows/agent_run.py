"""`AgentRun`: the workflow around the loop. Its id is the thread's, so Temporal itself allows one active run a thread.

Signal handlers append a fact and return; one line changes the state; commands become activities whose ends are facts.
Runs unsandboxed: there is no user code in it, the import rules keep it pure, and recorded histories replay in CI.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.events import EventRecord
from wakeful.contract.requests import (
    parse_cancel,
    parse_decisions,
    parse_page,
    parse_request,
    parse_submission,
)
from wakeful.contract.runs import RunResult
from wakeful.contract.views import EventsPage, StatusView, TranscriptPage
from wakeful.loop.advance import advance, begin
from wakeful.loop.commands import Command, Stop
from wakeful.loop.facts import (
    CancelRequested,
    DecisionsReceived,
    Fact,
    LoopBroken,
    MessagesSubmitted,
    SignalNotUnderstood,
    Submitted,
)
from wakeful.loop.state import Advance, Done, RunState
from wakeful.loop.views import status_view, visible_messages
from wakeful_workflows.pages import fitting
from wakeful_workflows.perform import Work
from wakeful_workflows.visibility import Visibility


# Not `Exception`: that would make nondeterminism fail runs, which must wait for a worker with the right code instead.
# These two are what the SDK raises for a start with arguments that cannot be passed on.
@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=[TypeError, RuntimeError])
class AgentRun:
    """One run of an agent on a thread. Start it with `{"agent_id": "assistant", "input": "hello"}`."""

    def __init__(self) -> None:
        self._facts: deque[Fact] = deque()
        self._state: RunState | None = None
        self._events: list[EventRecord] = []
        self._work = Work(self._facts.append)
        self._visibility = Visibility()
        self._submissions = 0

    @workflow.run
    async def run(self, request: Any = None) -> RunResult:
        try:
            parsed = parse_request(request)
        except CallerError as error:
            message = f"the run request was not understood: {error}"
            raise ApplicationError(message, type="InvalidRequest", non_retryable=True) from None
        self._visibility.title(parsed)
        self._take(begin(parsed, thread_id=workflow.info().workflow_id, run_id=str(workflow.uuid4())))
        while True:
            state = self._current()
            if isinstance(state.stage, Done):
                return state.stage.result
            await self._a_fact()
            self._take(self._advance(state, self._facts.popleft()))

    def _advance(self, state: RunState, fact: Fact) -> Advance:
        now = _now()
        try:
            return advance(state, fact, now=now)
        except Exception as error:  # a bug of ours ends the run with its message; it must not hang it
            workflow.logger.exception("the loop broke", extra={"fact": type(fact).__name__})
            broken = f"internal error on {type(fact).__name__}: {type(error).__name__}: {error}"
            return advance(state, LoopBroken(broken), now=now)

    def _take(self, made: Advance) -> None:
        """The one place where the state changes."""
        self._state = made.state
        identity, now = made.state.identity, _now()
        for event in made.events:
            record = EventRecord(
                seq=len(self._events) + 1, at=now, run_id=identity.run_id, agent_id=identity.agent_id, event=event
            )
            self._events.append(record)
        for command in made.commands:
            self._perform(made.state, command)
        self._visibility.show(made.state, search_attributes=self._work.search_attributes)

    def _perform(self, state: RunState, command: Command) -> None:
        if isinstance(command, Stop):
            self._work.stop(command.id)
        else:
            self._work.start(command, state.identity)

    async def _a_fact(self) -> None:
        """Wait for the next fact. Temporal's own cancellation is a fact like the signal."""
        try:
            await workflow.wait_condition(lambda: bool(self._facts))
        except asyncio.CancelledError:
            reason = workflow.cancellation_reason()
            if reason is None:  # the worker drops this run from its cache: nothing happened to the run
                raise
            self._facts.append(CancelRequested(reason or None, close=True))

    @workflow.signal(name=names.SIGNAL_SUBMIT, description='Messages for the run: {"input": "…"}')
    def submit(self, *args: Any) -> None:
        number = self._submissions
        self._submissions += 1

        def understood(written: Any) -> Fact:
            submission = parse_submission(written)
            sources = [f"submit:{number}:{index}" for index in range(len(submission.messages))]
            messages = zip(submission.messages, sources, strict=True)
            return MessagesSubmitted(
                tuple(Submitted(written.as_message(source), source) for written, source in messages)
            )

        self._signal(names.SIGNAL_SUBMIT, args, understood)

    @workflow.signal(
        name=names.SIGNAL_DECIDE, description='Answer a suspended call: {"call_id": "…", "action": "resume" | "cancel"}'
    )
    def decide(self, *args: Any) -> None:
        self._signal(names.SIGNAL_DECIDE, args, lambda written: DecisionsReceived(parse_decisions(written)))

    @workflow.signal(name=names.SIGNAL_CANCEL, description='Cancel the run: {"reason": "…"}')
    def cancel(self, *args: Any) -> None:
        self._signal(names.SIGNAL_CANCEL, args, lambda written: CancelRequested(parse_cancel(written).reason))

    @workflow.signal(dynamic=True)
    def unknown_signal(self, name: str, _args: Sequence[RawValue]) -> None:
        known = ", ".join((names.SIGNAL_SUBMIT, names.SIGNAL_DECIDE, names.SIGNAL_CANCEL))
        self._facts.append(SignalNotUnderstood(name, f"there is no signal {name!r}; known: {known}"))

    def _signal(self, name: str, args: Sequence[Any], understood: Callable[[Any], Fact]) -> None:
        """Append what was sent as a fact. Handlers take any arguments, since one that raises would hang the run."""
        try:
            if len(args) > 1:
                raise CallerError(f"it takes one JSON value, got {len(args)}")
            self._facts.append(understood(args[0] if args else None))
        except CallerError as error:
            self._facts.append(SignalNotUnderstood(name, str(error)))

    @workflow.query(name=names.QUERY_STATUS, description="Where the run stands and what it waits for")
    def status(self) -> StatusView:
        return status_view(self._current())

    @workflow.query(name=names.QUERY_TRANSCRIPT, description='The messages so far, in pages: {"after": n}')
    def transcript(self, page: Any = None) -> TranscriptPage:
        asked = parse_page(page)
        messages = visible_messages(self._current())
        taken = fitting(messages[asked.after : asked.after + asked.limit])
        end = asked.after + len(taken)
        return TranscriptPage(messages=taken, next=end if end < len(messages) else None)

    @workflow.query(name=names.QUERY_EVENTS, description='What happened, in pages: {"after": seq}')
    def events(self, page: Any = None) -> EventsPage:
        asked = parse_page(page)
        taken = fitting(self._events[asked.after : asked.after + asked.limit])
        last = asked.after + len(taken)
        ended = isinstance(self._current().stage, Done)
        return EventsPage(events=taken, last=last, done=ended and last >= len(self._events))

    def _current(self) -> RunState:
        if self._state is None:
            raise ApplicationError("the run has not begun")
        return self._state


def _now() -> int:
    return int(workflow.time() * 1000)
