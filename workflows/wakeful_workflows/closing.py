"""How the workflow of a thread closes: Temporal's close status says how its last run ended.

| in `run` mode, a run that ends | closes the workflow as |
|---|---|
| naturally, stopped or blocked | Completed |
| in an error | Failed, or Completed with `on_error="complete"` |
| cancelled, after Temporal's own cancel | Canceled |
| cancelled by the bare signal, by itself or by its parent | Completed |

A thread in `thread` mode is Canceled after Temporal's cancel, and else Completed. The result of a failed execution is
the detail of its failure. A cancelled one has no room for it, so its memo has the result. The memo also says that the
workflow itself closed the execution: one that Temporal closed has notified neither its parent nor its children.
"""

from typing import NoReturn

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError, CancelledError

from wakeful.contract.limits import NAME_LENGTH, cut
from wakeful.contract.runs import Cancelled, Errored, OnError, RunResult, ThreadMode, fitting_result, reason_code
from wakeful.loop.machine.state import Thread
from wakeful_workflows.visibility import Visibility


def close(thread: Thread, result: RunResult, visibility: Visibility, *, is_cancelled: bool) -> RunResult:
    """Return the result of a workflow that completes, or raise what closes it otherwise.

    Args:
        is_cancelled: Temporal's own cancel has reached this execution.

    Raises:
        CancelledError: the workflow closes as Canceled.
        ApplicationError: it fails.
    """
    is_run = thread.mode is ThreadMode.RUN
    if is_cancelled and (isinstance(result.termination, Cancelled) or not is_run):
        visibility.mark_ended(fitting_result(result))
        raise CancelledError("the thread was cancelled in Temporal")
    if is_run and isinstance(result.termination, Errored) and thread.on_error is OnError.FAIL:
        visibility.mark_ended()
        fail(result, result.termination)
    return result


def fail(result: RunResult, error: Errored) -> NoReturn:
    """Fail the workflow with a result. Its text is in the detail only: no codec encodes the message of a failure.

    Raises:
        ApplicationError: always.
    """
    code = reason_code(error)
    message = f"the run of agent {cut(result.agent_id, NAME_LENGTH)!r} ended in an error ({code})"
    problem = f"{message}; the detail of this failure has its text"
    raise ApplicationError(problem, fitting_result(result), type=code, non_retryable=True)


def failure_result(failure: BaseException | None) -> RunResult | None:
    """The result that a run left in the failure of its workflow; None if it is another failure."""
    try:
        return RunResult.model_validate(failure.details[0]) if isinstance(failure, ApplicationError) else None
    except (IndexError, ValidationError):
        return None
