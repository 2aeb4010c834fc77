"""The hooks and the state of a run under watch, and what must hold of them."""

from dataclasses import dataclass, field

from wakeful.contract.events import RunFinish, StateConflict, StateSnapshot
from wakeful.contract.hooks import HookEffects, LifecyclePhase
from wakeful.loop.machine.commands import Infer, RunHooks
from wakeful.loop.machine.facts import Fact, HooksReturned, InferenceReturned, ToolReturned
from wakeful.loop.machine.state import Advance, Thread

EXCLUSIVE = ("draft", "nobody's")
ONCE = (LifecyclePhase.RUN_START, LifecyclePhase.RUN_END)


@dataclass
class Hooks:
    """Which moments hooks have heard of, and what watchers know of the state."""

    heard: set[tuple[str, LifecyclePhase]] = field(default_factory=set)
    steps: set[tuple[str, int]] = field(default_factory=set)
    shown: int = 0

    def asked(self, fact: Fact) -> HookEffects | None:
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
        """A fact asks for hooks of one run only: the one it met, or the one that it began."""
        run_id = moved.thread.identity.run_id
        for command in moved.commands:
            if isinstance(command, RunHooks):
                self._runs(run_id, command)
            if isinstance(command, Infer) and command.ended_step:
                self._step_ends(run_id, command.ended_step)
        assert moved.thread.agent_state.revision >= before.agent_state.revision
        for event in moved.events:
            if isinstance(event, StateSnapshot):
                assert isinstance(event.snapshot, dict)
                revision = event.snapshot["revision"]
                assert isinstance(revision, int)
                assert revision > self.shown, "watchers are shown what has changed"
                self.shown = revision
            if isinstance(event, StateConflict):
                assert event.key in EXCLUSIVE, "what can be merged is never refused"
            if isinstance(event, RunFinish) and event.run_id == run_id:
                assert self.shown == moved.thread.agent_state.revision, "watchers know the state that a run leaves"

    def _runs(self, run_id: str, command: RunHooks) -> None:
        assert command.phases
        assert set(command.phases) <= {moment for plugin in command.agent.plugins for moment in plugin.lifecycle}
        for moment in command.phases:
            if moment is LifecyclePhase.STEP_END:
                self._step_ends(run_id, command.step)
            if moment in ONCE:
                assert (run_id, moment) not in self.heard, "once a run"
                self.heard.add((run_id, moment))

    def _step_ends(self, run_id: str, step: int) -> None:
        assert (run_id, step) not in self.steps, "a step ends once"
        self.steps.add((run_id, step))
