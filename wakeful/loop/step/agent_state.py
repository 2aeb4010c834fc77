"""The state that agents keep beside the conversation: writes are applied as a whole, or refused as a whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.events import StateConflict
from wakeful.contract.state import STATE_LIMIT, StateKeySpec, StateMerge, StateOp, StateScope, StateView, applied
from wakeful.loop.machine.replace import replace


@dataclass(frozen=True)
class Values:
    """What keys hold, by their scope. A write that is applied makes the next revision of all of it."""

    revision: int = 0
    run: Mapping[str, JsonValue] = field(default_factory=dict)
    thread: Mapping[str, JsonValue] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    """Which revision has written a key last."""
    shown: int = 0
    """The revision that watchers have seen."""

    @property
    def view(self) -> StateView:
        return StateView(revision=self.revision, values={**self.thread, **self.run})

    def for_next_run(self) -> "Values":
        """Without what belonged to the run that is over."""
        return replace(self, run={}, revision=self.revision + 1) if self.run else self

    def writing(
        self, specs: Sequence[StateKeySpec], ops: Sequence[StateOp], *, base: int, source: str
    ) -> "Values | StateConflict":
        """The values after these writes, or why none of them is applied."""
        by_key = {spec.key: spec for spec in specs}
        run, thread, touched = dict(self.run), dict(self.thread), set[str]()
        for op in ops:
            spec = by_key.get(op.key)
            if spec is None:
                return StateConflict(key=op.key, source=source, reason="the agent has no such key")
            if self._is_taken(spec, base):
                return StateConflict(key=op.key, source=source, reason="somebody else has written it meanwhile")
            values = thread if spec.scope is StateScope.THREAD else run
            try:
                values[op.key] = applied(spec, values.get(op.key), op)
            except ValueError as error:
                return StateConflict(key=op.key, source=source, reason=str(error))
            touched.add(op.key)
        size = len(json.dumps({**thread, **run}, ensure_ascii=False).encode())
        if size > STATE_LIMIT:
            reason = f"the state would have {size:,} bytes, and at most {STATE_LIMIT:,} fit"
            return StateConflict(key=ops[-1].key, source=source, reason=reason)
        revision = self.revision + 1
        written = {**self.written, **dict.fromkeys(sorted(touched), revision)}
        return replace(self, revision=revision, run=run, thread=thread, written=written)

    def _is_taken(self, spec: StateKeySpec, base: int) -> bool:
        return spec.merge is StateMerge.EXCLUSIVE and self.written.get(spec.key, 0) > base
