"""A run that has ended: how, by whom or what, and how its thread continues."""

from dataclasses import dataclass

from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import CancelRequest, CloseStatus, Ended, Evidence, Failure
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    clause,
    code,
    counted,
    one_line,
    send_continue,
    sentence,
    wakeful,
)
from wakeful.contract import names
from wakeful.contract.errors import ProviderErrorKind
from wakeful.contract.runs import Blocked, Cancelled, Errored, RunResult, Stopped
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import TaskStatus

OTHER_FIX = "Fix the cause, then"
FIXES = {
    ProviderErrorKind.UNAUTHORIZED: "Give the worker a valid API key, then",
    ProviderErrorKind.MODEL_NOT_FOUND: "Correct the model's name or the base URL, then",
    ProviderErrorKind.CONTEXT_OVERFLOW: "Give the agent a context policy or a model with a larger window, then",
    ProviderErrorKind.INVALID_REQUEST: "Correct what the provider rejects, then",
    ProviderErrorKind.CONTENT_FILTERED: "Rephrase the request:",
    ProviderErrorKind.RATE_LIMITED: "Wait or raise the provider's limit, then",
    ProviderErrorKind.OVERLOADED: "Wait until the provider has recovered, then",
}


@dataclass(frozen=True)
class _EndedRun:
    """A run that has ended, on a thread that is closed, or open for the next run."""

    thread_id: str
    steps: int
    at: int | None
    now: int
    is_open: bool = False

    def finding(self, cause: Cause, doing: str, why: str, next: str, *commands: str) -> Finding:
        is_open = " The thread is open." if self.is_open else ""
        return Finding(cause, doing, f"{why}{is_open}", next, self.at, commands or (self.send,))

    @property
    def when(self) -> str:
        at = "" if self.at is None else f" {ago(self.at, self.now)}"
        return f"{at} after {counted(self.steps, 'step')}"

    @property
    def send(self) -> str:
        return send_continue(self.thread_id)

    @property
    def continues(self) -> str:
        return f"{code(self.send)} {_continues_with(is_open=self.is_open)}."


def _continues_with(*, is_open: bool) -> str:
    return "continues the conversation" if is_open else "wakes the thread and continues its conversation"


def ending(evidence: Evidence, ended: Ended, *, now: int) -> Finding:
    """Why a thread's workflow is closed."""
    match ended.result:
        case RunResult(run_id=""):  # its run never began
            return _from_outside(evidence, ended, now=now)
        case RunResult() as result:
            run = _EndedRun(evidence.thread_id, result.steps, ended.at, now)
            return _of_run(run, result, ended.failure, evidence.cancel)
        case ChildResult() as result:
            return _of_tool(result, ended.at, now=now)
        case None:
            return _from_outside(evidence, ended, now=now)


def last_run(evidence: Evidence, result: RunResult, *, now: int) -> Finding:
    """How the last run ended on a thread that is open and idle."""
    run = _EndedRun(evidence.thread_id, result.steps, evidence.last_event_at, now, is_open=True)
    return _of_run(run, result, evidence.last_failure, evidence.cancel)


def _of_run(run: _EndedRun, result: RunResult, failure: Failure | None, cancel: CancelRequest | None) -> Finding:
    """How a run ended that has a result."""
    match result.termination:
        case Errored(value=error):
            return _errored(run, error, failure)
        case Stopped(value=stop) if stop.code == "budget":
            doing = f"was stopped{run.when} because its budget is spent"
            next = f"A new run has a budget of its own: {run.continues} To allow more, raise the run's or the agent's."
            return run.finding(Cause.BUDGET_SPENT, doing, f"The {clause(stop.detail or 'budget is spent')}.", next)
        case Stopped(value=stop):
            doing = f"was stopped{run.when} ({stop.code})"
            detail = f": {clause(stop.detail)}" if stop.detail else ""
            why = f"A stop condition, a plugin or the limit of rounds ended it{detail}."
            return run.finding(Cause.STOPPED, doing, why, run.continues)
        case Blocked(value=reason, rule=rule):
            by = f"permission rule {rule!r} denied a call" if rule else "a gate or a permission rule blocked a call"
            next = f"Change the rule or the request; {run.continues}"
            return run.finding(Cause.BLOCKED, f"ended{run.when}: {by}", f"The reason: {clause(reason)}.", next)
        case Cancelled():
            reason = one_line(result.detail or "")
            given = f", with the reason {reason!r}" if reason else " and gave no reason"
            why = f"{_who(cancel)} {'closed the thread' if cancel and cancel.is_close else 'cancelled it'}{given}."
            return run.finding(Cause.CANCELLED, f"was cancelled{run.when}", why, run.continues)
        case _:
            return _natural(run, cancel)


def _natural(run: _EndedRun, cancel: CancelRequest | None) -> Finding:
    doing, show = f"came to its natural end{run.when}", wakeful("show", run.thread_id)
    if run.is_open:
        next = f"It waits for a message: {code(run.send)}, or {code(show)} to read the conversation."
        return run.finding(Cause.IDLE, f"is idle: its last run {doing}", "Nothing is left to do.", next, run.send, show)
    closed = f" {_who(cancel)} closed the thread." if cancel and cancel.is_close else ""
    next = f"{code(show)} shows its answer; {run.continues}"
    return run.finding(Cause.ENDED, doing, f"Nothing is left to do.{closed}", next, show, run.send)


def _errored(run: _EndedRun, error: str, failure: Failure | None) -> Finding:
    kind = failure.kind if failure and failure.message and failure.message in error else ""
    why = sentence(error)
    fix = FIXES.get(ProviderErrorKind(kind), OTHER_FIX) if kind in set(ProviderErrorKind) else OTHER_FIX
    return run.finding(Cause.FAILED, f"ended with an error{run.when}", why, f"{fix} {run.continues}")


def _of_tool(result: ChildResult, at: int | None, *, now: int) -> Finding:
    """A background tool, which reports its result to its parent before it ends."""
    when = f" {ago(at, now)}" if at is not None else ""
    reported = "It has reported that to its parent."
    match result.status:
        case TaskStatus.COMPLETED:
            return Finding(Cause.ENDED, f"is a background tool and completed{when}", reported, "", at)
        case TaskStatus.CANCELLED:
            return Finding(Cause.CANCELLED, f"is a background tool and was cancelled{when}", reported, "", at)
        case TaskStatus.FAILED:
            why = f"{sentence(result.error or 'It gave no reason')} {reported}"
            return Finding(Cause.FAILED, f"is a background tool and failed{when}", why, "", at)


def _from_outside(evidence: Evidence, ended: Ended, *, now: int) -> Finding:
    """The workflow was closed without a result of its own."""
    when = f" {ago(ended.at, now)}" if ended.at is not None else ""
    reason = f"The reason that was given: {clause(ended.reason)}." if ended.reason else "No reason was given."
    cause, next, commands = Cause.TERMINATED, *_after(evidence)
    match ended.status:
        case CloseStatus.TERMINATED:
            by = f" by {ended.by}" if ended.by else ""
            doing = f"was terminated{when} in Temporal{by}"
            why = f"{reason} The run could not react to that, and its activities in flight were abandoned."
        case CloseStatus.TIMED_OUT:
            doing = f"hit its workflow timeout{when}"
            why = "The client that started it set that timeout; Wakeful sets none."
        case CloseStatus.CANCELLED:
            cause, doing = Cause.CANCELLED, f"was cancelled{when} before it started"
            why = f"{_who(evidence.cancel)} cancelled it in Temporal. {reason}"
        case CloseStatus.FAILED | CloseStatus.COMPLETED:
            cause, doing = Cause.FAILED, f"failed{when} as a workflow"
            why = sentence(ended.failure.message) if ended.failure else "Its result could not be read."
            if ended.failure is not None and ended.failure.kind == names.MALFORMED_REQUEST:
                next, commands = "Correct the request, and start another run: `wakeful run AGENT TEXT`.", ()
    return Finding(cause, doing, why, next, ended.at, commands)


def _after(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """How a thread continues that was ended from outside; a background tool does not."""
    if evidence.is_tool:
        return "A background tool is not restarted; its parent continues without it.", ()
    send = send_continue(evidence.thread_id)
    return f"{code(send)} {_continues_with(is_open=False)}.", (send,)


def _who(cancel: CancelRequest | None) -> str:
    return capital(cancel.by) if cancel else "A client or a thread that its newest events do not show"
