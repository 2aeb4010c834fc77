"""Agent state: the values of state keys. The writes of one outcome are applied or rejected as a whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.base import replace
from wakeful.contract.events import StateConflict
from wakeful.contract.state import STATE_LIMIT, StateKeySpec, StateMerge, StateOp, StateScope, StateView, applied


@dataclass(frozen=True)
class AgentState:
    """Values by scope. Every applied batch of writes makes the next revision."""

    revision: int = 0
    run: Mapping[str, JsonValue] = field(default_factory=dict)
    thread: Mapping[str, JsonValue] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    """The revision that last wrote each key."""
    emitted: int = 0
    """The revision of the newest `state_snapshot` event."""

    @property
    def view(self) -> StateView:
        return StateView(revision=self.revision, values={**self.thread, **self.run})

    def rolled_back(self, before: "AgentState") -> "AgentState":
        """The values of `before`, as the next revision: watchers have seen later ones."""
        if (before.run, before.thread) == (self.run, self.thread):
            return self
        return replace(before, revision=self.revision + 1, emitted=self.emitted)

    def for_next_run(self) -> "AgentState":
        """Without the values of run scope."""
        return replace(self, run={}, revision=self.revision + 1) if self.run else self

    def writing(
        self, specs: Sequence[StateKeySpec], ops: Sequence[StateOp], *, base: int, source: str
    ) -> "AgentState | StateConflict":
        """The state after these writes, or why they are rejected."""
        by_key = {spec.key: spec for spec in specs}
        run, thread, touched = dict(self.run), dict(self.thread), set[str]()
        for op in ops:
            spec = by_key.get(op.key)
            if spec is None:
                return StateConflict(key=op.key, source=source, reason="the agent declares no such key")
            if self._is_stale(spec, base):
                return StateConflict(key=op.key, source=source, reason="a concurrent write changed it")
            values = thread if spec.scope is StateScope.THREAD else run
            try:
                values[op.key] = applied(spec, values.get(op.key), op)
            except ValueError as error:
                return StateConflict(key=op.key, source=source, reason=str(error))
            touched.add(op.key)
        size = len(json.dumps({**thread, **run}, ensure_ascii=False).encode())
        if size > STATE_LIMIT:
            reason = f"the state would have {size:,} bytes; at most {STATE_LIMIT:,} are allowed"
            return StateConflict(key=ops[-1].key, source=source, reason=reason)
        revision = self.revision + 1
        written = {**self.written, **dict.fromkeys(sorted(touched), revision)}
        return replace(self, revision=revision, run=run, thread=thread, written=written)

    def _is_stale(self, spec: StateKeySpec, base: int) -> bool:
        return spec.merge is StateMerge.EXCLUSIVE and self.written.get(spec.key, 0) > base
