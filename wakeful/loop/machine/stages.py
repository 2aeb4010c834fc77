"""The stages of a run. They are a union, so that a wrong state cannot be said."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from wakeful.contract.context import ContextMessage
from wakeful.contract.hooks import Moment
from wakeful.contract.runs import Cancelled, RunResult, RunStatus, Termination
from wakeful.loop.calls.batch import Batch
from wakeful.loop.machine.commands import RESOLVE_ID


class Afterwards(StrEnum):
    """What follows a run that is being cancelled; each outdoes those before it."""

    END = "end"
    NEXT_RUN = "next_run"
    """Somebody interrupted it: their messages are next."""
    ROLL_BACK = "roll_back"
    """The same, and what the cancelled run said and heard is undone."""
    CLOSE = "close"
    """The whole thread ends."""


@dataclass(frozen=True)
class Resolving:
    id: str = RESOLVE_ID
    kind: Literal["resolving"] = "resolving"
    status = RunStatus.CREATED


@dataclass(frozen=True)
class Inferring:
    """`told` counts the entries that this inference is the first to hear of."""

    id: str
    message_id: str
    since: int
    told: int = 0
    context: tuple[ContextMessage, ...] = ()
    continuing: bool = False
    """The answer before was cut off, and this one goes on with it."""
    ended: int = 0
    """The step before, if hooks hear of its end with this one."""
    kind: Literal["inferring"] = "inferring"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class CallingTools:
    batch: Batch
    kind: Literal["calling_tools"] = "calling_tools"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class AwaitingDecisions:
    batch: Batch
    kind: Literal["awaiting_decisions"] = "awaiting_decisions"
    status = RunStatus.WAITING


@dataclass(frozen=True)
class AwaitingTasks:
    """The model has nothing more to say, but background tasks of the thread still run; their events go on with it."""

    kind: Literal["awaiting_tasks"] = "awaiting_tasks"
    status = RunStatus.WAITING


@dataclass(frozen=True)
class AwaitingBudget:
    """What the run was allowed is spent: its parent was asked for more, or its tasks may give something back."""

    spent: str
    """Which budget."""
    asked: bool = True
    """The parent was asked."""
    kind: Literal["awaiting_budget"] = "awaiting_budget"
    status = RunStatus.WAITING


@dataclass(frozen=True)
class HandingOver:
    """Another agent is to go on with the run, and is being looked up."""

    id: str
    agent_id: str
    kind: Literal["handing_over"] = "handing_over"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class Ending:
    """How a run is about to end, while its last hooks run."""

    termination: Termination
    result: RunResult
    detail: str | None
    then: Afterwards


@dataclass(frozen=True)
class Hooking:
    """Hooks of plugins run that need an activity of their own; then the run goes on, or ends."""

    id: str
    moments: tuple[Moment, ...]
    ending: Ending | None = None
    kind: Literal["hooking"] = "hooking"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class BetweenSteps:
    """A step is committed and the next has not begun; no fact ever meets a run here."""

    kind: Literal["between_steps"] = "between_steps"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class Cancelling:
    """Told to stop, by somebody or by a gate; waiting until what is in flight has stopped."""

    in_flight: frozenset[str]
    batch: Batch | None
    reason: str | None
    then: Afterwards = Afterwards.END
    since: int = 0
    """When the model was asked, if it is its answer that is in flight."""
    termination: Termination = Cancelled()
    """How the run ends when it has stopped; `Blocked` if it was a gate that stopped it."""
    asked_by: str | None = None
    """The call by which the run cancelled itself; it is told what that came to."""
    kind: Literal["cancelling"] = "cancelling"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class Done:
    result: RunResult
    kind: Literal["done"] = "done"
    status = RunStatus.DONE


@dataclass(frozen=True)
class Idle:
    """A thread between two runs; `result` is the last one's."""

    result: RunResult | None = None
    closing: bool = False
    """The thread is to end as soon as its tasks have stopped."""
    stopping: tuple[str, ...] = ()
    """Tasks that were told to stop; what they still tell begins no run."""
    kind: Literal["idle"] = "idle"
    status = RunStatus.DONE


Stage = Annotated[
    Resolving
    | Inferring
    | CallingTools
    | AwaitingDecisions
    | AwaitingTasks
    | AwaitingBudget
    | HandingOver
    | Hooking
    | BetweenSteps
    | Cancelling
    | Idle
    | Done,
    Field(discriminator="kind"),
]
