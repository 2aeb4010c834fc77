"""The attempts that Temporal makes of one activity, on any workers, for tests without a server."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import to_json
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from tests.activities.wiring import environment
from wakeful.contract.missing import TIMEOUTS

START = datetime(2026, 1, 1, tzinfo=UTC)
ONCE = RetryPolicy(non_retryable_error_types=TIMEOUTS)
"""Of a tool that must not run twice."""


@dataclass
class Attempts:
    """The attempts of one activity on any workers, with the heartbeat that Temporal keeps of them."""

    attempt: int = 0
    tool: str = "pay"
    workflow_id: str = "t"
    now: datetime = START
    heartbeat: Sequence[Any] = ()
    retry_policy: RetryPolicy | None = None
    is_local: bool = False
    delays: list[float] = field(default_factory=list)

    async def make(self, activity: Any, argument: Any, *, queued: timedelta = timedelta()) -> Any:
        """One attempt; its failure, if it fails."""
        self.attempt += 1
        running = environment(tool=self.tool)
        running.info = replace(
            running.info,
            workflow_id=self.workflow_id,
            workflow_run_id=f"{self.workflow_id}-1",
            attempt=self.attempt,
            heartbeat_details=self.heartbeat,
            current_attempt_scheduled_time=self.now,
            started_time=self.now + queued,
            retry_policy=self.retry_policy,
            is_local=self.is_local,
        )
        running.on_heartbeat = self._beat
        self.now += queued
        try:
            return await running.run(activity, argument)
        except ApplicationError as error:
            if error.next_retry_delay is not None:
                self.delays.append(error.next_retry_delay.total_seconds())
                self.now += error.next_retry_delay
            return error

    def _beat(self, *details: Any) -> None:
        self.heartbeat = [json.loads(to_json(each)) for each in details]
