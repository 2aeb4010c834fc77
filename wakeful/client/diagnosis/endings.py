"""A run that is over: how it ended, who or what ended it, and how its thread goes on."""

from dataclasses import dataclass

from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Asked, Closing, Ended, Evidence, Failure
from wakeful.client.diagnosis.wording import ago, capital, code, counted, go_on, plain, said, wakeful
from wakeful.contract.errors import ProviderErrorKind
from wakeful.contract.runs import Blocked, Cancelled, Errored, RunResult, Stopped
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import TaskStatus

COOLDOWN = "30s"
"""How long a circuit breaker leaves a model alone."""

INVALID_REQUEST = "InvalidRequest"
"""How a workflow fails that was started with something else than a run request."""

OTHERWISE = "See to it, and then"
FIXES = {
    ProviderErrorKind.UNAUTHORIZED: "Give the worker a valid API key, and then",
    ProviderErrorKind.MODEL_NOT_FOUND: "Correct the model's name or the base URL, and then",
    ProviderErrorKind.CONTEXT_OVERFLOW: "Give the agent a context policy or a model with a larger window, and then",
    ProviderErrorKind.INVALID_REQUEST: "Correct what the provider complains about, and then",
    ProviderErrorKind.CONTENT_FILTERED: "Say it in another way:",
    ProviderErrorKind.RATE_LIMITED: "Wait or raise the provider's limit, and then",
    ProviderErrorKind.OVERLOADED: "Wait until the provider has recovered, and then",
}


@dataclass(frozen=True)
class _Over:
    """A run that has ended, on a thread that may be open for the next one."""

    thread_id: str
    steps: int
    at: int | None
    now: int
    is_open: bool = False

    def finding(self, cause: Cause, doing: str, why: str, next: str, *commands: str) -> Finding:
        stays = " The thread is open." if self.is_open else ""
        return Finding(cause, doing, f"{why}{stays}", next, self.at, commands or (self.send,))

    @property
    def when(self) -> str:
        at = "" if self.at is None else f" {ago(self.at, self.now)}"
        return f"{at} after {counted(self.steps, 'step')}"

    @property
    def send(self) -> str:
        return go_on(self.thread_id)

    @property
    def goes_on(self) -> str:
        return f"{code(self.send)} goes on with the thread, whose conversation is kept."


def ending(evidence: Evidence, ended: Ended, *, now: int) -> Finding:
    """Why a thread's workflow is closed."""
    match ended.result:
        case RunResult() as result:
            return _of_run(
                _Over(evidence.thread_id, result.steps, ended.at, now), result, ended.failure, evidence.cancel
            )
        case ChildResult() as settled:
            return _of_tool(settled, ended.at, now=now)
        case None:
            return _from_outside(evidence, ended, now=now)


def last_run(evidence: Evidence, result: RunResult, *, now: int) -> Finding:
    """How the last run of a thread ended that is open and has nothing to do."""
    over = _Over(evidence.thread_id, result.steps, evidence.last_event_at, now, is_open=True)
    return _of_run(over, result, evidence.last_failure, evidence.cancel)


def _of_run(over: _Over, result: RunResult, failure: Failure | None, cancel: Asked | None) -> Finding:
    """How a run ended that made its result itself."""
    match result.termination:
        case Errored(value=error):
            return _errored(over, error, failure)
        case Stopped(value=stop) if stop.code == "budget":
            doing = f"was stopped{over.when} because its budget is spent"
            next = f"A new run has a budget of its own: {over.goes_on} To allow more, raise the run's or the agent's."
            return over.finding(Cause.BUDGET_SPENT, doing, f"The {said(stop.detail or 'budget is spent')}.", next)
        case Stopped(value=stop):
            doing = f"was stopped{over.when} ({stop.code})"
            detail = f": {said(stop.detail)}" if stop.detail else ""
            why = f"A stop condition, a plugin or the limit of rounds ended it{detail}."
            return over.finding(Cause.STOPPED, doing, why, over.goes_on)
        case Blocked(value=reason):
            doing = f"ended{over.when}: a gate or a permission rule forbade a call"
            next = f"Change the rule or the request; {over.goes_on}"
            return over.finding(Cause.BLOCKED, doing, f"It said: {said(reason)}.", next)
        case Cancelled():
            reason = plain(result.detail or "")
            told = f", saying {reason!r}" if reason else " and gave no reason"
            why = f"{_who(cancel)} asked for it{told}."
            return over.finding(Cause.CANCELLED, f"was cancelled{over.when}", why, over.goes_on)
        case _:
            return _well(over)


def _well(over: _Over) -> Finding:
    doing, show = f"came to its natural end{over.when}", wakeful("show", over.thread_id)
    if over.is_open:
        next = f"It waits for a message: {code(over.send)}, or {code(show)} to read what was said."
        return over.finding(Cause.IDLE, f"is idle: its last run {doing}", "All is done.", next, over.send, show)
    next = f"{code(show)} shows its answer; {over.goes_on}"
    return over.finding(Cause.ENDED, doing, "It waits for nothing.", next, show, over.send)


def _errored(over: _Over, error: str, failure: Failure | None) -> Finding:
    kind = failure.kind if failure and failure.message and failure.message in error else ""
    why = _sentence(error)
    if kind == ProviderErrorKind.ALL_MODELS_UNAVAILABLE:
        why += (
            " Each of its models has failed several times in a row, for any run of that worker, and is left alone for "
            f"{COOLDOWN}; then one call may try it."
        )
        next = (
            f"See what is wrong with the provider (the worker's log has it), wait {COOLDOWN}, and then {over.goes_on}"
        )
        return over.finding(Cause.BREAKERS_OPEN, f"failed{over.when}: all its models are unavailable", why, next)
    fix = FIXES.get(ProviderErrorKind(kind), OTHERWISE) if kind in set(ProviderErrorKind) else OTHERWISE
    return over.finding(Cause.FAILED, f"ended with an error{over.when}", why, f"{fix} {over.goes_on}")


def _of_tool(settled: ChildResult, at: int | None, *, now: int) -> Finding:
    """A background tool that has told, or is telling, its owner."""
    when = f" {ago(at, now)}" if at is not None else ""
    match settled.status:
        case TaskStatus.COMPLETED:
            return Finding(Cause.ENDED, f"is a background tool and has ended{when}", "Its owner was told.", "", at)
        case TaskStatus.CANCELLED:
            return Finding(
                Cause.CANCELLED, f"is a background tool and was cancelled{when}", "Its owner was told.", "", at
            )
        case TaskStatus.FAILED:
            why = f"{_sentence(settled.error or 'It did not say why')} Its owner was told."
            return Finding(Cause.FAILED, f"is a background tool and failed{when}", why, "", at)


def _from_outside(evidence: Evidence, ended: Ended, *, now: int) -> Finding:
    """The run had no say in it, so it left no result."""
    when = f" {ago(ended.at, now)}" if ended.at is not None else ""
    reason = f"The reason that was given: {said(ended.reason)}." if ended.reason else "No reason was given."
    cause, next, commands = Cause.TERMINATED, *_after(evidence)
    match ended.closing:
        case Closing.TERMINATED:
            by = f" by {ended.by}" if ended.by else ""
            doing = f"was terminated{when} in Temporal{by}, from outside"
            why = f"{reason} It had no say in it, and what it had in flight was not waited for."
        case Closing.TIMED_OUT:
            doing = f"was ended{when} by its workflow's timeout"
            why = "Whoever started it gave it that; Wakeful sets none."
        case Closing.CANCELLED:
            cause, doing = Cause.CANCELLED, f"was cancelled{when} before it began"
            why = f"{_who(evidence.cancel)} cancelled it in Temporal. {reason}"
        case Closing.FAILED | Closing.COMPLETED:
            cause, doing = Cause.FAILED, f"failed{when} as a workflow"
            why = _sentence(ended.failure.message) if ended.failure else "Its result could not be read."
            if ended.failure is not None and ended.failure.kind == INVALID_REQUEST:
                next, commands = "Correct what it was started with, and start another: `wakeful run AGENT TEXT`.", ()
    return Finding(cause, doing, why, next, ended.at, commands)


def _after(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """How a thread goes on that was ended from outside; a background tool does not."""
    if evidence.is_tool:
        return "A background tool is not started again; the thread that owns it goes on without it.", ()
    send = go_on(evidence.thread_id)
    return f"{code(send)} goes on with the thread, whose conversation is kept.", (send,)


def _who(asked: Asked | None) -> str:
    return capital(asked.by) if asked else "Somebody whom its newest events do not name"


def _sentence(text: str) -> str:
    return f"{capital(said(text))}."
