"""The SDK's real core judges its model: both replay the same history, and have to agree on it.

They agree if they make the same activations (the same jobs in the same order, at the same time and history length) and
reach the same verdict: the workflow's commands fit the history, or they do not.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any
from unittest.mock import patch

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import WorkflowHistory
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowReplayResult, WorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

from tests.simulation.core import ActivationFailed, completed_part, replayed
from tests.simulation.instances import NAMESPACE, activate
from tests.simulation.machines import Nondeterminism
from tests.simulation.schedule import run
from tests.simulation.service import CONVERTER
from tests.simulation.workers import WORKFLOWS
from tests.simulation.world import World

REPLAY_TIMEOUT_SECONDS = 60.0
"""For one history; the SDK detects workflow code that hangs within seconds."""

CHANGED = (
    f"the SDK's core no longer cuts histories as the model does (temporalio {version('temporalio')}): "
    "see docs/testing.md"
)

NOT_MODELLED = frozenset(
    {
        "run_id",  # of an execution that was reset, the Replayer only knows the first
        "original_execution_run_id",
        "continued_initiator",
        "deployment_version_for_current_task",
        "last_sdk_version",
        "identity",
        "meta",
    }
)
"""Fields that the model leaves out, because neither the SDK nor the workflows decide anything by them."""

MAX_SHOWN = 5
"""Differences of one activation in a message."""


@dataclass(frozen=True)
class Replay:
    """What one core did with a history."""

    activations: list[WorkflowActivation]
    failure: str | None
    """Why it rejects the history; None if it accepts it."""


@dataclass(frozen=True)
class Disagreement:
    """A history that the real core and its model replay differently."""

    workflow_id: str
    run_id: str
    difference: str

    def __str__(self) -> str:
        return f"{self.workflow_id} ({self.run_id}): {self.difference}"


@dataclass
class Verdicts:
    """What the judge found in many schedules."""

    schedules: int = 0
    histories: int = 0
    events: int = 0
    activations: int = 0
    rejected: int = 0
    """Histories that both reject."""
    disagreements: list[tuple[str, Disagreement]] = field(default_factory=list)
    """Each with the seed of its schedule."""

    def __iadd__(self, other: "Verdicts") -> "Verdicts":
        self.schedules += other.schedules
        self.histories += other.histories
        self.events += other.events
        self.activations += other.activations
        self.rejected += other.rejected
        self.disagreements += other.disagreements
        return self

    def __str__(self) -> str:
        lines = [
            f"{self.schedules:,} schedules, {self.histories:,} histories, {self.events:,} events, "
            f"{self.activations:,} activations: the real core and its model disagree on {len(self.disagreements):,}; "
            f"both reject {self.rejected:,}"
        ]
        return "\n".join([*lines, *(f"seed {seed}: {found}" for seed, found in self.disagreements)])


class RealCore:
    """The SDK's Replayer with one worker for many histories, one after the other; it notes every activation."""

    def __init__(self, workflows: Mapping[str, type] = WORKFLOWS) -> None:
        self._activations: list[WorkflowActivation] = []
        self._waiting: asyncio.Queue[WorkflowHistory] = asyncio.Queue()
        self._replayer = Replayer(
            workflows=[*workflows.values()],
            unsandboxed_workflow_runner=_NotingRunner(self._activations),
            data_converter=CONVERTER,
            namespace=NAMESPACE,
            runtime=_silent_runtime(),
        )
        self._replays: AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]] | None = None
        self._results: AsyncIterator[WorkflowReplayResult] | None = None

    async def __aenter__(self) -> "RealCore":
        self._replays = self._replayer.workflow_replay_iterator(self._histories())
        self._results = await self._replays.__aenter__()
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._replays is not None
        await self._replays.__aexit__(None, None, None)

    async def replay(self, workflow_id: str, history: Sequence[HistoryEvent]) -> Replay:
        """Replay a history that has at least one completed workflow task; the SDK would wait forever for others."""
        assert self._results is not None
        self._activations.clear()
        self._waiting.put_nowait(WorkflowHistory(workflow_id, list(history)))
        async with asyncio.timeout(REPLAY_TIMEOUT_SECONDS):
            result = await anext(self._results)
        failure = None if result.replay_failure is None else str(result.replay_failure)
        return Replay(list(self._activations), failure)

    async def _histories(self) -> AsyncIterator[WorkflowHistory]:
        while True:
            yield await self._waiting.get()


class _NotingRunner(WorkflowRunner):
    def __init__(self, activations: list[WorkflowActivation]) -> None:
        self._inner = UnsandboxedWorkflowRunner()
        self._activations = activations

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = self._inner.create_instance(det)
        activate = instance.activate

        def noting(act: WorkflowActivation) -> WorkflowActivationCompletion:
            _note(self._activations, act)
            return activate(act)

        instance.activate = noting  # type: ignore[method-assign]
        return instance

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._inner.set_worker_level_failure_exception_types(types)


@cache
def _silent_runtime() -> Runtime:
    """One for the process, because each has threads of its own. The SDK's log would go to stdout."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


def _note(activations: list[WorkflowActivation], activation: WorkflowActivation) -> None:
    if any(job.HasField("remove_from_cache") for job in activation.jobs):
        return  # the Replayer evicts every run in the end
    copy = WorkflowActivation()
    copy.CopyFrom(activation)
    activations.append(copy)


def replay_on_model(
    workflow_id: str, run_id: str, history: Sequence[HistoryEvent], workflows: Mapping[str, type] = WORKFLOWS
) -> Replay:
    """What the model of core does with a history."""
    activations: list[WorkflowActivation] = []
    with _noting_activations_of_the_model(activations):
        try:
            core = replayed(workflow_id, run_id, history, workflows, CONVERTER)
        except (Nondeterminism, ActivationFailed) as error:
            return Replay(activations, str(error))
    core.evict()
    return Replay(activations, None)


@contextmanager
def _noting_activations_of_the_model(activations: list[WorkflowActivation]) -> Iterator[None]:
    def noting(instance: WorkflowInstance, activation: WorkflowActivation) -> WorkflowActivationCompletion:
        _note(activations, activation)
        return activate(instance, activation)

    with patch("tests.simulation.core.activate", noting):
        yield


def difference(real: Replay, model: Replay) -> str | None:
    """The first thing that the two did differently; None if there is none."""
    if (real.failure is None) != (model.failure is None):
        return f"verdict: real core {real.failure or 'accepts it'}; model {model.failure or 'accepts it'}"
    for number, (theirs, ours) in enumerate(zip(real.activations, model.activations, strict=False), start=1):
        wanted, made = dict(_leaves(theirs)), dict(_leaves(ours))
        differing = [name for name in {**wanted, **made} if wanted.get(name) != made.get(name)]
        if differing:
            shown = "; ".join(
                f"{name}: {wanted.get(name)!r}, model {made.get(name)!r}" for name in differing[:MAX_SHOWN]
            )
            return f"activation {number} has in the real core {shown}"
    if len(real.activations) != len(model.activations):
        return f"real core made {len(real.activations)} activations, the model {len(model.activations)}"
    return None


def _leaves(message: Message, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value in a message that the model has, too, with its path."""
    for kind, value in message.ListFields():
        name = f"{path}.{kind.name}" if path else kind.name
        if kind.name in NOT_MODELLED:
            continue
        values = list(enumerate(value)) if kind.is_repeated and not _is_map(kind) else [("", value)]
        if _is_map(kind):
            values = sorted(value.items())
        for index, item in values:
            where = name if index == "" else f"{name}[{index}]"
            if isinstance(item, Message):
                yield from _leaves(item, where)
            else:
                yield where, item
        if kind.containing_oneof is not None:
            yield name, "set"


def _is_map(kind: FieldDescriptor) -> bool:
    return kind.message_type is not None and kind.message_type.GetOptions().map_entry


async def judge(world: World, core: RealCore, verdicts: Verdicts | None = None) -> list[Disagreement]:
    """Give every history of a simulation, up to its last completed workflow task, to both."""
    verdicts = verdicts or Verdicts()
    found = []
    for execution in world.server.executions:
        if not execution.previous_started:
            continue
        history = completed_part(execution.history)
        real = await core.replay(execution.workflow_id, history)
        model = replay_on_model(execution.workflow_id, execution.run_id, history)
        verdicts.histories += 1
        verdicts.events += len(history)
        verdicts.activations += len(real.activations)
        verdicts.rejected += real.failure is not None and model.failure is not None
        if (differs := difference(real, model)) is not None:
            found.append(Disagreement(execution.workflow_id, execution.run_id, differs))
    return found


async def judge_schedules(seeds: Iterable[str], steps: int) -> Verdicts:
    """Run random schedules, and judge all their histories with one worker."""
    verdicts = Verdicts()
    async with RealCore() as core:
        for seed in seeds:
            world = run(seed, steps).world
            verdicts.schedules += 1
            verdicts.disagreements += [(seed, found) for found in await judge(world, core, verdicts)]
    return verdicts


def judge_many(seeds: Iterable[str], steps: int) -> Verdicts:
    """The same, for a command line."""
    return asyncio.run(judge_schedules(seeds, steps))
