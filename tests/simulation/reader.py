"""The history reader over simulated histories: the model of core replays them, where the real reader uses the SDK's."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from temporalio.client import Client

import wakeful.history.reader
from tests.simulation.core import ActivationFailed, replayed
from tests.simulation.service import CONVERTER, SimulatedService
from wakeful.contract import names
from wakeful.contract.errors import NotStarted, ThreadNotFound, WakefulError
from wakeful.contract.views import StatusView
from wakeful.history.completed_part import completed_part
from wakeful.history.latest_execution import started_before
from wakeful.history.read_only_replayer import OURS, WORKFLOWS

_WORKFLOWS = dict(zip(OURS, WORKFLOWS, strict=True))

V = TypeVar("V")


class SimulatedReader:
    """Answers the queries of an execution from its history, up to its last completed workflow task."""

    def __init__(self, temporal: Client, **_options: Any) -> None:
        service = temporal.service_client
        assert isinstance(service, SimulatedService)
        self.temporal = temporal
        self._server = service.server

    async def query(
        self, thread_id: str, name: str, kind: type[V], argument: object = None, *, run_id: str | None = None
    ) -> V:
        try:
            return self._query(thread_id, run_id or "", name, kind, argument)
        except NotStarted as error:
            before = await started_before(self.temporal, thread_id, error.run_id) if run_id is None else None
            if before is None:
                raise
        return self._query(thread_id, before, name, kind, argument)

    async def status(self, thread_id: str) -> StatusView:
        return await self.query(thread_id, names.QUERY_STATUS, StatusView)

    def _query(self, thread_id: str, run_id: str, name: str, kind: type[V], argument: object) -> V:
        execution = self._server.find(thread_id, run_id)
        if execution is None:
            raise ThreadNotFound(thread_id)
        if (handled := completed_part(execution.history)) is None:
            raise NotStarted(thread_id, execution.run_id)
        core = replayed(thread_id, execution.run_id, handled.events, _WORKFLOWS, CONVERTER)
        try:
            payload = core.query(name, *([] if argument is None else [argument]))
        except ActivationFailed as error:
            if "the run has not started" in str(error):
                raise NotStarted(thread_id, execution.run_id, is_taken=True) from error
            raise WakefulError(f"query {name!r} of thread {thread_id!r} failed: {error}") from error
        finally:
            core.evict()
        answer: V = CONVERTER.payload_converter.from_payload(payload, kind)
        return answer

    async def aclose(self) -> None:
        """There is nothing to close."""


@contextmanager
def reading_simulated_histories() -> Iterator[None]:
    """Every history reader that is made meanwhile is a simulated one."""
    with patch.object(wakeful.history.reader, "HistoryReader", SimulatedReader):
        yield
