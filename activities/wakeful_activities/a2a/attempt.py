"""One attempt at a call of a remote agent: what is known of its task, and the heartbeat that the next attempt reads."""

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

from temporalio import activity

from wakeful.contract import ids
from wakeful.contract.missing import Missing
from wakeful.contract.remote import Endpoint, RemoteProgress
from wakeful.contract.streaming import Outage, StreamCheckpoint
from wakeful_activities.inference.attempt import CHECKPOINT_LIMIT
from wakeful_activities.other_workers import missing_before

D = TypeVar("D", StreamCheckpoint, Outage, RemoteProgress)


class RemoteAttempt:
    """What is known of a call, from the attempts before and from this one."""

    def __init__(self, agent_id: str, endpoint: Endpoint) -> None:
        info = activity.info()
        self.agent_id = agent_id
        self.number = info.attempt
        self.text = ""
        earlier = _earlier(StreamCheckpoint)
        if earlier is not None:
            self.text = earlier.text
        self.outage = _earlier(Outage)
        self.missing = missing_before()
        known = _earlier(RemoteProgress)
        run_id = info.workflow_run_id or ""
        self.progress = known or RemoteProgress(
            service=endpoint.service,
            context_id="",
            message_id=ids.remote_message_id(run_id, info.activity_id),
        )
        self.on_heartbeat: Callable[[], object] | None = None
        """Learns what a stream has said since the last heartbeat."""
        self._first_context_id = ids.remote_context_id(run_id, info.activity_id)

    @property
    def lost(self) -> int:
        """How many attempts before this one ended without a report."""
        left = self.missing.attempt if self.missing else 0
        return self.number - 1 - max(self.progress.reported, left)

    @property
    def may_be_sent(self) -> bool:
        """Whether an earlier attempt may have sent the message, so that the service has to be asked."""
        return self.lost > 0 or self.progress.may_be_sent

    @property
    def task_id(self) -> str | None:
        return self.progress.task_id

    def converse_in(self, context_id: str | None) -> None:
        """The message continues this conversation of the service; None begins one."""
        self._change(context_id=context_id or self._first_context_id)

    def learn(self, *, task_id: str | None, context_id: str, state: str, since: int | None, text: str) -> None:
        """What the service has said of the task."""
        now = int(time.time() * 1000)
        if state != self.progress.state:
            self._change(state=state, state_since=since or now)
        self._change(task_id=task_id, context_id=context_id or self.progress.context_id, may_be_sent=False)
        self.text = text[:CHECKPOINT_LIMIT]

    def report(self, *, may_be_sent: bool = False, polled: bool = False) -> None:
        """This attempt ends, and says how."""
        may_be_sent = may_be_sent and self.task_id is None
        polls = self.progress.polls + polled
        self._change(reported=self.number, may_be_sent=may_be_sent, polls=polls)

    def heartbeat(self) -> tuple[StreamCheckpoint | RemoteProgress | Outage | Missing | None, ...]:
        if self.on_heartbeat is not None:
            learn, self.on_heartbeat = self.on_heartbeat, None
            learn()
        checkpoint = StreamCheckpoint(attempt=self.number, model=self.agent_id, text=self.text) if self.text else None
        more = tuple(each for each in (self.outage, self.missing) if each is not None)
        return (checkpoint, self.progress, *more)

    def _change(self, **fields: object) -> None:
        # Validated: `model_copy` would keep a text where a state belongs.
        self.progress = RemoteProgress.model_validate({**self.progress.model_dump(), **fields})


def _earlier(kind: type[D]) -> D | None:
    info = activity.info()
    for each in info.heartbeat_details if info.attempt > 1 else ():
        with contextlib.suppress(ValueError):  # the other kind, or of another version
            return kind.model_validate(each)
    return None
