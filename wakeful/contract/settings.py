"""What belongs to a run and who asks for it, as two values that travel whole: from a client through its request, the
signal, the fact, the queue, the snapshot and the archive to the run.

A model that has them on the wire extends them, so its JSON has their fields beside its own. `part_of` takes them out.
A setting that you add to `RunSettings` is in all of these places; only what it does is left to write.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict, TypeVar

from pydantic import BaseModel, JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Budget
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import Adapter, AdapterName
from wakeful.contract.tools import FrontendTool


class RunSettings(Wire):
    """What a message sets for the run that it begins, and for no other."""

    overrides: Maybe[InferenceOverrides] = None
    """Changes of the agent's model and its settings."""
    permissions: Few[tuple[Rule, ...]] = ()
    """One replaces the agent's or the thread's rule for the same `tool`, except one that denies."""
    budget: Maybe[Budget] = None
    """What the run and its descendants may spend."""
    frontend_tools: Few[tuple[FrontendTool, ...]] = ()
    """The tools of the sender's front end; from this run on, they replace those that the thread has."""
    live: Few[bool] = False
    """The sender watches the answers while models write them."""

    @property
    def given(self) -> dict[str, object]:
        """Those that are set, and that a run under way cannot apply, because it has its own."""
        return {name: value for name, value in self if value and name != "live"}


class Caller(Wire):
    """Who sends a message, and by which protocol."""

    tenant: Maybe[str] = None
    """A thread of another tenant refuses the message; without one, it counts as the thread's own."""
    user: Maybe[str] = None
    """The user for whom the run acts that the message begins."""
    metadata: Few[dict[str, JsonValue]] = {}
    """What tools, hooks, gates and permission rules of that run can read; the model does not."""
    adapter: Maybe[Adapter] = None
    """The protocol by which the message came; `internal` by default."""


M = TypeVar("M", bound=BaseModel)


def part_of(value: BaseModel, kind: type[M]) -> M:
    """The part of a value that is a `kind`, which its type extends."""
    return kind.model_construct(**{name: getattr(value, name) for name in kind.model_fields})


class CallerOptions(TypedDict, total=False):
    """Who sends a message, as the verbs of a client take it."""

    tenant: str | None
    """Yours. A new thread belongs to it, and a thread of another tenant refuses the message."""
    user: str | None
    """The user for whom the run acts."""
    metadata: Mapping[str, JsonValue] | None
    """JSON that tools, hooks, gates and permission rules of the run can read."""


class RunOptions(CallerOptions, total=False):
    """What the verbs of a client take that begin a run: the fields of `RunSettings` and `Caller`."""

    overrides: InferenceOverrides | None
    """Changes of the agent's model and its settings, for this run only."""
    permissions: Sequence[Rule]
    """Rules for this run only."""
    budget: Budget | None
    """What this run and its descendants may spend."""
    frontend_tools: Sequence[FrontendTool]
    """From this run on, they replace those that the thread has."""
    live: bool
    """You watch the answers while models write them: workers heartbeat them five times a second, instead of once."""


class SendOptions(RunOptions, total=False):
    """The same of a message, with the protocol by which it came."""

    adapter: Adapter | AdapterName | None
