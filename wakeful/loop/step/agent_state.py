"""Agent state: the values of state keys. The writes of one outcome are applied or rejected as a whole."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.base import replace
from wakeful.contract.events import StateConflict
from wakeful.contract.json_patch import pointer
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
    """The revision of the newest event with the state."""
    changed: Mapping[str, bool] | None = None
    """The keys that have changed since that event, and whether watchers know a value of each; None before the first."""

    @property
    def view(self) -> StateView:
        return StateView(revision=self.revision, values={**self.thread, **self.run})

    def rolled_back(self, before: "AgentState") -> "AgentState":
        """The values of `before`, as the next revision: watchers have seen later ones."""
        if (before.run, before.thread) == (self.run, self.thread):
            return self
        known = {*self.view.values, *before.view.values}
        restored = replace(before, revision=self.revision + 1, emitted=self.emitted)
        return restored._changing(known, self)

    def for_next_run(self) -> "AgentState":
        """Without the values of run scope."""
        if not self.run:
            return self
        return replace(self, run={}, revision=self.revision + 1)._changing(self.run.keys(), self)

    @property
    def delta(self) -> tuple[JsonValue, ...]:
        """What has changed since the newest event with the state, as a JSON Patch of its `state_snapshot`."""
        values = self.view.values
        patch: list[JsonValue] = [{"op": "replace", "path": "/revision", "value": self.revision}]
        for key, is_known in (self.changed or {}).items():
            path = pointer("extensions", key)
            if key in values:
                patch.append({"op": "add", "path": path, "value": values[key]})
            elif is_known:
                patch.append({"op": "remove", "path": path})
        return tuple(patch)

    def _changing(self, keys: Iterable[str], before: "AgentState") -> "AgentState":
        """The state after these keys have changed; watchers may know their values of before."""
        if before.changed is None:
            return replace(self, changed=None)
        known = before.view.values
        new = {key: key in known for key in sorted(keys) if key not in before.changed}
        return replace(self, changed={**before.changed, **new})

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
        return replace(self, revision=revision, run=run, thread=thread, written=written)._changing(touched, self)

    def _is_stale(self, spec: StateKeySpec, base: int) -> bool:
        return spec.merge is StateMerge.EXCLUSIVE and self.written.get(spec.key, 0) > base
