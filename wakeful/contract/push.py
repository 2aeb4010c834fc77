"""Push notifications of A2A tasks: what `A2aPush`, the workflow that sends them, is given and keeps.

A config may hold secrets of a client. They are in history, so the server takes such a config only where a payload codec
encrypts it; and no `repr` shows them.
"""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.decisions import ClientDecisions

TASK_CHANGED = "wakeful_a2a_task_changed"
"""The extern function by which a thread's workflow tells its worker that the state of an A2A task may have changed."""


def _is_none(value: object) -> bool:
    return value is None


Hidden = Annotated[str | None, Field(exclude_if=_is_none, repr=False)]
"""A secret, or what may hold one."""


class PushConfig(Wire):
    """A webhook that a client wants the states of a task to be posted to."""

    id: str
    """The client's name for it; it is unique to the task."""
    task_id: str
    message_id: str
    """The message that names the task."""
    url: Annotated[str, Field(repr=False)]
    token: Hidden = None
    """What the client wants to see in the header `X-A2A-Notification-Token`."""
    scheme: Maybe[str] = None
    credentials: Hidden = None
    """For the header `Authorization`, after the scheme."""
    private: Few[bool] = False
    """The server allows webhooks at addresses that are not public."""
    decisions: Maybe[ClientDecisions] = None
    """What the server's clients may decide; None of a config from a release whose clients could decide everything."""
    per_task: Maybe[int] = None
    """How many configs a task may have: this one is dropped if the task has as many. None: any number."""
    per_thread: Maybe[int] = None
    """The same, of all tasks of the thread."""

    @property
    def ref(self) -> "PushConfigRef":
        return PushConfigRef(task_id=self.task_id, id=self.id)


class PushConfigRef(Wire):
    """Which config of which task."""

    task_id: str
    id: str


class PushSubscription(Wire):
    """A config, and the states that were posted to it."""

    config: PushConfig
    sent: Few[tuple[str, ...]] = ()


class PushState(Wire):
    """What `A2aPush` starts with: nothing but its thread, unless it continues as new."""

    thread_id: str
    subscriptions: Few[tuple[PushSubscription, ...]] = ()


class PostInput(Wire):
    """Post the first state of a task that was not posted to this webhook."""

    thread_id: str
    subscription: PushSubscription


class Posted(Wire):
    """What was posted."""

    state: Maybe[str] = None
    """The state; None if there was no new one for a while."""
    is_over: Few[bool] = False
    """No other state will follow: the task has ended, or its thread does not exist any more."""


def has_room(config: PushConfig, known: Collection[PushConfigRef]) -> bool:
    """Whether a config may be added to these, by its own limits."""
    of_task = sum(ref.task_id == config.task_id for ref in known)
    fits_task = config.per_task is None or of_task < config.per_task
    return fits_task and (config.per_thread is None or len(known) < config.per_thread)
