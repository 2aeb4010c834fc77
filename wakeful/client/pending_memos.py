"""What the memos of listed threads say about the decisions that they wait for.

A list query returns the memos, so an inbox needs no other call. Each memo is decoded once: a codec may be slow, and
most of what one look at the inbox finds, the look before it has found, too.
"""

from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.client import Client, WorkflowExecution

from wakeful.contract import names
from wakeful.contract.views import PendingView
from wakeful.history.decoder import Payloads

CAPACITY = 10_000
"""Memos in memory: as many as an inbox can show in a useful way."""


class PendingMemos:
    """Decodes the memos of one client's lists, and remembers them while they stay the same."""

    def __init__(self, temporal: Client) -> None:
        self._payloads = Payloads(temporal.data_converter)
        self._decoded: dict[str, tuple[bytes, PendingView]] = {}

    async def of(self, execution: WorkflowExecution) -> PendingView | None:
        """What the execution waits for, as it was listed; None if it has no such memo, or one that cannot be read."""
        payload = execution.raw_info.memo.fields.get(names.MEMO_PENDING)
        if payload is None:
            self._decoded.pop(execution.run_id, None)
            return None
        raw = payload.SerializeToString(deterministic=True)
        known = self._decoded.get(execution.run_id)
        if known is not None and known[0] == raw:
            return known[1]
        try:
            view = await self._payloads.value(RawPayloads(payloads=[payload]), PendingView)
        except Exception:  # its codec, perhaps: the thread is read instead, and that says what is wrong
            return None
        if len(self._decoded) >= CAPACITY:
            self._decoded.clear()
        self._decoded[execution.run_id] = raw, view
        return view
