"""Run an agent as a child of a user's own workflow: `wakeful.workflow` exports this into the sandbox.

It is the one part of this package that runs in workflows of others. What it raises is an `ApplicationError`, because
anything else would fail the workflow task, and Temporal would retry that for ever.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Generic, NoReturn, TypeVar, Unpack, cast, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json
from temporalio import workflow
from temporalio.common import Priority as TemporalPriority
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ChildWorkflowHandle, ParentClosePolicy

from wakeful.contract import ids, names
from wakeful.contract.decisions import Decision, DecisionAction, DecisionActionName
from wakeful.contract.errors import CallerError, InvalidValue
from wakeful.contract.messages import InputMessage
from wakeful.contract.requests import RunRequest, Submission, title_of
from wakeful.contract.runs import (
    Blocked,
    Cancelled,
    Errored,
    OnBusy,
    Priority,
    RunResult,
    StopDetail,
    Stopped,
    outcome_of,
    priority_of,
    reason_code,
)
from wakeful.contract.settings import RunOptions
from wakeful.permissions.rules import rule_problems
from wakeful_workflows.closing import failure_result

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AgentFailed(ApplicationError):
    """The agent's run did not end as the workflow needs it. Uncaught, it fails the workflow.

    The message says why, but quotes neither an error nor an answer: no codec encodes the message of a failure.

    Attributes:
        result: how the run ended, if it did; its `status_reason` has the text of an error.
    """

    def __init__(
        self,
        message: str,
        *,
        thread_id: str = "",
        result: RunResult | None = None,
        type: str = "AgentFailed",
        non_retryable: bool = False,
    ) -> None:
        super().__init__(message, type=type, non_retryable=non_retryable)
        self.thread_id = thread_id
        self.result = result


class AgentCancelled(AgentFailed):
    """The agent's run was cancelled, and not because this workflow was."""


class AgentTimedOut(AgentFailed):
    """The agent's run took longer than `timeout`, and was cancelled."""


class AgentOptions(RunOptions, total=False):
    """How an agent runs as a child of a workflow."""

    thread_id: str
    """By default the workflow's id, the agent's, and random digits that are the same in every replay."""
    task_queue: str
    """Where the agent's workers are; by default the workflow's own."""
    timeout: timedelta
    """How long the run may take, with all that it waits for. Then it is cancelled, and `AgentTimedOut` is raised."""
    parent_close_policy: ParentClosePolicy
    """What happens to the agent if this workflow closes or continues as new first: by default it is cancelled.

    With ABANDON it runs on, and reports to nothing.
    """
    title: str
    priority: Priority
    """How Temporal orders the tasks of the run; what it leaves out is this workflow's."""


class AgentHandle(Generic[T_co]):
    """An agent that runs as a child of this workflow."""

    def __init__(self, handle: ChildWorkflowHandle[Any, RunResult], agent_id: str, output_type: Any) -> None:
        self._handle = handle
        self._agent_id = agent_id
        self._output_type = output_type
        self._timeout: timedelta | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def thread_id(self) -> str:
        """For everything that `wakeful.Client` does with a thread, such as its inbox."""
        return self._handle.id

    async def result(self) -> T_co:
        """Wait for the end. If this is cancelled, the agent is cancelled, and has ended when this raises.

        Raises:
            AgentFailed: the run ended in an error, or without the output that was asked for.
        """
        # Python counts a cancel that the workflow has caught, too: only a later one is a reason to raise it again.
        earlier_cancels = _cancels()
        try:
            result = await self._handle
        except ChildWorkflowError as error:
            self._raise(error, earlier_cancels)
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if isinstance(result.termination, Cancelled):
            self._raise_cancelled(result, earlier_cancels)
        if isinstance(result.termination, Errored):
            why = _in_an_error(result)
            raise AgentFailed(self._says(why), thread_id=self.thread_id, result=result)
        return cast("T_co", result if self._output_type is None else self._output(result))

    async def decide(
        self,
        call_id: str,
        action: DecisionAction | DecisionActionName,
        *,
        result: JsonValue = None,
        reason: str | None = None,
        arguments: JsonValue = None,
        always: bool = False,
        actor: str | None = None,
    ) -> None:
        """Answer a suspended tool call, as `Client.decide` does.

        Raises:
            AgentFailed: the decision is malformed, or the run has ended.
        """
        try:
            decision = Decision(
                target=call_id,
                action=action,
                result=result,
                reason=reason,
                arguments=arguments,
                always=always,
                decision_id=str(workflow.uuid4()),
                actor=actor,
                channel="workflow",
            )
        except ValueError as error:
            raise self._rejected(f"the decision about call {call_id!r}", error) from None
        await self._signal(names.SIGNAL_DECIDE, decision)

    async def send(self, text: str) -> None:
        """Send the agent another message, which its run reads at its next step.

        Raises:
            AgentFailed: the message is malformed, or the run has ended.
        """
        try:
            message = InputMessage(content=text, id=str(workflow.uuid4()))
            submission = Submission(input=(message,), on_busy=OnBusy.STEER)
        except ValueError as error:
            raise self._rejected("the message", error) from None
        await self._signal(names.SIGNAL_SUBMIT, submission)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the run; `result` then raises `AgentCancelled`."""
        self._handle.cancel(reason)

    def cancel_after(self, timeout: timedelta) -> None:
        """Cancel the run when it takes longer than this, from now on; `result` then raises `AgentTimedOut`."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout.total_seconds(), self._on_timeout, timeout)

    def _on_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self.cancel(f"it took longer than {timeout}")

    async def _signal(self, name: str, payload: Decision | Submission) -> None:
        try:
            await self._handle.signal(name, payload)
        except ApplicationError as error:
            raise AgentFailed(self._says(f"the {name} signal did not reach it: {error.message}")) from error

    def _output(self, result: RunResult) -> Any:
        kind = getattr(self._output_type, "__name__", str(self._output_type))
        match result.termination:
            case Stopped(value=stop):
                why = f"its run was stopped ({_limit(stop)}); `result` says why"
                raise self._ended("AgentStopped", why, result)
            case Blocked():
                why = f"its run was blocked by {_blocking(result)}; `result` says why"
                raise self._ended("AgentBlocked", why, result)
            case _:
                pass
        if result.output is None:
            outcome = outcome_of(result.termination)
            problem = f"ended as {outcome!r} without an output, and the workflow asks for a {kind}"
            remedy = f"give the agent that output type, as Agent(id={self._agent_id!r}, output={kind})"
            raise self._invalid_output(f"{problem}: {remedy}", result)
        try:
            return TypeAdapter(self._output_type).validate_json(to_json(result.output))
        except ValidationError as error:
            # Not `from error`: what pydantic says of a field can quote it.
            wrong = [f"{'.'.join(map(str, each['loc']))} ({each['type']})" for each in error.errors()]
            raise self._invalid_output(f"has an output that is no {kind}: {', '.join(wrong)}", result) from None

    def _invalid_output(self, problem: str, result: RunResult) -> AgentFailed:
        message = f"agent {self._agent_id!r} on thread {self.thread_id!r} {problem}"
        return AgentFailed(
            message, thread_id=self.thread_id, result=result, type="AgentOutputInvalid", non_retryable=True
        )

    def _ended(self, type: str, why: str, result: RunResult) -> AgentFailed:
        return AgentFailed(self._says(why), thread_id=self.thread_id, result=result, type=type, non_retryable=True)

    def _raise(self, error: ChildWorkflowError, earlier_cancels: int) -> NoReturn:
        cause = error.cause
        result = failure_result(cause)
        match cause:
            case CancelledError():
                self._raise_cancelled(None, earlier_cancels)
            case TerminatedError():
                why = "it was terminated in Temporal"
            case TimeoutError():
                why = "Temporal's own timeout of its workflow has passed"
            case ApplicationError(message=message):
                why = message if result is None else _in_an_error(result)
            case _:
                why = str(cause or error)
        is_final = isinstance(cause, ApplicationError) and cause.non_retryable
        raise AgentFailed(self._says(why), thread_id=self.thread_id, result=result, non_retryable=is_final) from error

    def _raise_cancelled(self, result: RunResult | None, earlier_cancels: int) -> NoReturn:
        if _cancels() > earlier_cancels:
            raise asyncio.CancelledError  # it is this workflow, or a scope in it, that is cancelled
        if self._timeout is not None:
            why = f"it took longer than {self._timeout}, and was cancelled"
            raise AgentTimedOut(self._says(why), thread_id=self.thread_id, result=result, type="AgentTimedOut")
        why = self._says("it was cancelled")
        raise AgentCancelled(why, thread_id=self.thread_id, result=result, type="AgentCancelled")

    def _rejected(self, what: str, error: ValueError) -> AgentFailed:
        problems = error.fields if isinstance(error, InvalidValue) else [str(error)]
        return AgentFailed(self._says(f"{what} is malformed: {'; '.join(problems)}"), non_retryable=True)

    def _says(self, why: str) -> str:
        return f"agent {self._agent_id!r} on thread {self.thread_id!r}: {why}"


@overload
async def run_agent(
    agent_id: str, input: str | Sequence[InputMessage], *, output_type: type[T], **options: Unpack[AgentOptions]
) -> T: ...
@overload
async def run_agent(
    agent_id: str, input: str | Sequence[InputMessage], **options: Unpack[AgentOptions]
) -> RunResult: ...
async def run_agent(
    agent_id: str,
    input: str | Sequence[InputMessage],
    *,
    output_type: Any = None,
    **options: Unpack[AgentOptions],
) -> Any:
    """Run an agent as a child of this workflow, and wait for its end. Cancelling this cancels the agent.

    Returns the run's result; with `output_type`, its output, parsed as that type: give the agent the same `output`.

    Raises:
        AgentFailed: the run ended in an error, or without the output that was asked for, or could not start.
        CallerError: this is no workflow.
    """
    handle: AgentHandle[Any] = await start_agent(agent_id, input, output_type=output_type, **options)
    return await handle.result()


@overload
async def start_agent(
    agent_id: str, input: str | Sequence[InputMessage], *, output_type: type[T], **options: Unpack[AgentOptions]
) -> AgentHandle[T]: ...
@overload
async def start_agent(
    agent_id: str, input: str | Sequence[InputMessage], **options: Unpack[AgentOptions]
) -> AgentHandle[RunResult]: ...
async def start_agent(
    agent_id: str,
    input: str | Sequence[InputMessage],
    *,
    output_type: Any = None,
    **options: Unpack[AgentOptions],
) -> AgentHandle[Any]:
    """Start an agent as a child of this workflow: the handle decides, sends, cancels and waits for its end.

    Raises:
        AgentFailed: the request is malformed, or the thread already has a run.
        CallerError: this is no workflow.
    """
    if not workflow.in_workflow():
        raise CallerError("run_agent and start_agent work in a workflow; elsewhere, use wakeful.Client")
    thread_id = options.get("thread_id") or _child_id(agent_id)
    request = _request(agent_id, input, thread_id, options)
    try:
        child: ChildWorkflowHandle[Any, RunResult] = await workflow.start_child_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=options.get("task_queue"),
            result_type=RunResult,
            parent_close_policy=options.get("parent_close_policy", ParentClosePolicy.REQUEST_CANCEL),
            memo={names.MEMO_TITLE: title_of(request)},
            priority=TemporalPriority(**priority_of(request.priority, request.tenant).model_dump()),
            static_summary=f"{agent_id}: {title_of(request)}",
        )
    except WorkflowAlreadyStartedError as error:
        problem = f"thread already has an active run: {thread_id}"
        raise AgentFailed(problem, thread_id=thread_id, type="ThreadBusy", non_retryable=True) from error
    handle: AgentHandle[Any] = AgentHandle(child, agent_id, output_type)
    if (timeout := options.get("timeout")) is not None:
        handle.cancel_after(timeout)
    return handle


def _child_id(agent_id: str) -> str:
    """Not the same for every call: after a reset, an agent of the undone part may still be running."""
    parent, unique = workflow.info().workflow_id, workflow.uuid4().hex
    id = ids.child_thread_id(parent, parent, agent_id, unique)
    return id if ids.thread_id_problem(id) is None else f"{agent_id}-{unique}"


def _request(agent_id: str, input: str | Sequence[InputMessage], thread_id: str, options: AgentOptions) -> RunRequest:
    given: dict[str, Any] = {
        name: value for name, value in options.items() if name in _OF_THE_REQUEST and value is not None
    }
    try:
        request = RunRequest(agent_id=agent_id, input=input if isinstance(input, str) else tuple(input), **given)
        problems = [*rule_problems(request.permissions), *filter(None, [ids.thread_id_problem(thread_id)])]
    except InvalidValue as error:
        problems = [*error.fields]
    if problems:
        message = f"agent {agent_id!r} was not started: {'; '.join(problems)}"
        raise AgentFailed(message, thread_id=thread_id, type="InvalidRequest", non_retryable=True)
    return request


_OF_THE_REQUEST = RunOptions.__optional_keys__ | {"title", "priority"}


def _cancels() -> int:
    """How often the task under way was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _limit(stop: StopDetail) -> str:
    """What stopped a run. Only of a budget the detail is ours: a plugin can quote the conversation in its own."""
    return f"budget: {stop.detail}" if stop.code == "budget" and stop.detail else stop.code


def _blocking(result: RunResult) -> str:
    """What blocked a run, without what it says: that may have arguments of the call."""
    known = {"rule": "a permission rule", "gate": "a gate", "plugin": "a hook", "handoff": "a handoff"}
    return known.get(reason_code(result.termination), reason_code(result.termination))


def _in_an_error(result: RunResult) -> str:
    return f"its run ended in an error ({reason_code(result.termination)}); `result` has its text"
