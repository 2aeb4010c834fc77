"""The stages of a thread, each with exactly the data that it needs. `transitions` has the edges between them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from wakeful.contract.context import ContextMessage
from wakeful.contract.hooks import LifecyclePhase, RequestChanges
from wakeful.contract.runs import Cancelled, RunResult, Termination
from wakeful.loop.calls.batch import Batch


class AfterRun(StrEnum):
    """What follows a run that is ending; each outranks those before it."""

    END = "end"
    NEXT_RUN = "next_run"
    """A message interrupted the run, and starts the next one."""
    ROLL_BACK = "roll_back"
    """The same, and the cancelled run's messages are removed from the conversation."""
    CLOSE = "close"
    """The thread itself ends."""


@dataclass(frozen=True)
class Idle:
    """No run is under way; `result` is the last one's."""

    result: RunResult | None = None
    since: int = 0
    """When the last run ended, in milliseconds since 1970; 0 before the first."""
    closing: bool = False
    """The thread ends as soon as its tasks have stopped."""
    stopping: tuple[str, ...] = ()
    """Tasks that are being cancelled; what they still report starts no run."""
    reason: str | None = None
    """Why the thread is being closed."""
    kind: Literal["idle"] = "idle"


@dataclass(frozen=True)
class Resolving:
    """The run waits for `resolve_agent`."""

    id: str
    kind: Literal["resolving"] = "resolving"


@dataclass(frozen=True)
class PendingEnd:
    """How a run will end once its last hooks have run."""

    termination: Termination
    result: RunResult
    detail: str | None
    then: AfterRun


@dataclass(frozen=True)
class RunningHooks:
    """Lifecycle hooks are running in an activity of their own; then the run continues, or ends."""

    id: str
    phases: tuple[LifecyclePhase, ...]
    ending: PendingEnd | None = None
    kind: Literal["running_hooks"] = "running_hooks"


@dataclass(frozen=True)
class BetweenSteps:
    """A step is committed and the next has not started. `advance` never returns a thread in this stage."""

    kind: Literal["between_steps"] = "between_steps"


@dataclass(frozen=True)
class Inferring:
    """The model is being called."""

    id: str
    message_id: str
    since: int
    new_entries: int = 0
    """How many transcript entries this inference is the first to be given."""
    context: tuple[ContextMessage, ...] = ()
    continuing: bool = False
    """The previous answer hit the token limit, and this one continues it."""
    ended_step: int = 0
    """The previous step, if its `step_end` hooks run with this inference."""
    changes: RequestChanges | None = None
    """What hooks and tools requested for this request before it."""
    lineage: str = ""
    """The lineage that a reset began meanwhile: the activity labels the answer's calls as of before the reset."""
    kind: Literal["inferring"] = "inferring"


@dataclass(frozen=True)
class CallingTools:
    """At least one tool call of the step is running or waiting for its turn."""

    batch: Batch
    kind: Literal["calling_tools"] = "calling_tools"


@dataclass(frozen=True)
class AwaitingDecisions:
    """Every unfinished tool call of the step is suspended."""

    batch: Batch
    kind: Literal["awaiting_decisions"] = "awaiting_decisions"


@dataclass(frozen=True)
class AwaitingTasks:
    """The model has given its last answer, but tasks are running or work is pending; messages continue the run."""

    kind: Literal["awaiting_tasks"] = "awaiting_tasks"


@dataclass(frozen=True)
class AwaitingBudget:
    """A budget is spent: the parent was asked for more, or running tasks may release some."""

    field: str
    """Which budget."""
    asked_parent: bool = True
    kind: Literal["awaiting_budget"] = "awaiting_budget"


@dataclass(frozen=True)
class HandingOff:
    """The run waits for `resolve_agent` to look up the agent that takes it over."""

    id: str
    agent_id: str
    kind: Literal["handing_off"] = "handing_off"


@dataclass(frozen=True)
class Cancelling:
    """The run is ending early and waits until everything in flight has stopped."""

    in_flight: frozenset[str]
    batch: Batch | None
    reason: str | None
    then: AfterRun = AfterRun.END
    since: int = 0
    """When the model was called, if an inference is in flight."""
    termination: Termination = Cancelled()
    """How the run ends when everything has stopped: cancelled, blocked by a gate, or stopped by a budget."""
    requested_by: str | None = None
    """The tool call by which the model cancelled its own run; its result is the receipt."""
    kind: Literal["cancelling"] = "cancelling"


@dataclass(frozen=True)
class Done:
    """The run has ended. In run mode, or once the thread is closed, the workflow completes with this result."""

    result: RunResult
    expired: bool = False
    """The thread was idle for too long: it is deleted once it is closed, unless a message arrives before."""
    kind: Literal["done"] = "done"


Stage = Annotated[
    Idle
    | Resolving
    | RunningHooks
    | BetweenSteps
    | Inferring
    | CallingTools
    | HandingOff
    | AwaitingDecisions
    | AwaitingTasks
    | AwaitingBudget
    | Cancelling
    | Done,
    Field(discriminator="kind"),
]
