"""The hooks and the agent state of a checked run, and what must hold for them."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.events import RunFinish, StateConflict, StateDelta, StateSnapshot
from wakeful.contract.hooks import HookEffects, LifecyclePhase
from wakeful.contract.json_patch import patched
from wakeful.loop.machine.commands import Infer, RunHooks
from wakeful.loop.machine.facts import Fact, HooksReturned, InferenceReturned, ToolReturned
from wakeful.loop.machine.state import Advance, Thread

EXCLUSIVE = ("draft", "undeclared")
ONCE_PER_RUN = (LifecyclePhase.RUN_START, LifecyclePhase.RUN_END)


@dataclass
class HookChecks:
    """Records which lifecycle hooks ran, and which revision of the state watchers have seen."""

    ran: set[tuple[str, LifecyclePhase]] = field(default_factory=set)
    steps: set[tuple[str, int]] = field(default_factory=set)
    shown: int = 0
    state: JsonValue = None
    """The state as a watcher knows it."""

    def effects_of(self, fact: Fact) -> HookEffects | None:
        match fact:
            case HooksReturned(effects=effects):
                return effects
            case InferenceReturned(response=response):
                return response.effects
            case ToolReturned(outcome=outcome):
                return outcome.effects
            case _:
                return None

    def check(self, before: Thread, moved: Advance) -> None:
        """A fact runs hooks of one run only: the current one, or the one that it started."""
        run_id = moved.thread.identity.run_id
        for command in moved.commands:
            if isinstance(command, RunHooks):
                self._runs(run_id, command)
            if isinstance(command, Infer) and command.ended_step:
                self._step_ends(run_id, command.ended_step)
        assert moved.thread.agent_state.revision >= before.agent_state.revision
        for event in moved.events:
            if isinstance(event, StateSnapshot | StateDelta):
                self.state = event.snapshot if isinstance(event, StateSnapshot) else patched(self.state, event.delta)
                assert isinstance(self.state, dict)
                revision = self.state["revision"]
                assert isinstance(revision, int)
                assert revision > self.shown, "the state has a new revision"
                self.shown = revision
            if isinstance(event, StateConflict):
                assert event.key in EXCLUSIVE, "a mergeable write is never refused"
            if isinstance(event, RunFinish) and event.run_id == run_id:
                assert self.shown == moved.thread.agent_state.revision, "watchers have seen the final state of the run"
                values = moved.thread.agent_state.view.values
                assert not self.shown or self.state == {"revision": self.shown, "extensions": values}

    def _runs(self, run_id: str, command: RunHooks) -> None:
        assert command.phases
        assert set(command.phases) <= {phase for plugin in command.agent.plugins for phase in plugin.lifecycle}
        for phase in command.phases:
            if phase is LifecyclePhase.STEP_END:
                self._step_ends(run_id, command.step)
            if phase in ONCE_PER_RUN:
                assert (run_id, phase) not in self.ran, "once per run"
                self.ran.add((run_id, phase))

    def _step_ends(self, run_id: str, step: int) -> None:
        assert (run_id, step) not in self.steps, "a step ends once"
        self.steps.add((run_id, step))
