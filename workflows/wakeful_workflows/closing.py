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

from temporalio.exceptions import ApplicationError, CancelledError

from wakeful.contract.limits import cut
from wakeful.contract.runs import Cancelled, Errored, OnError, RunResult, ThreadMode, fitting_result, reason_code
from wakeful.loop.machine.state import Thread
from wakeful_workflows.visibility import Visibility

MESSAGE_LENGTH = 300
"""Characters of an error in the message of a failure: lists and logs show it, and no codec encrypts it."""


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
    """Fail the workflow with a result.

    Raises:
        ApplicationError: always.
    """
    message = f"the run of agent {cut(result.agent_id)!r} ended in an error: {cut(error.value, MESSAGE_LENGTH)}"
    raise ApplicationError(message, fitting_result(result), type=reason_code(error), non_retryable=True)
