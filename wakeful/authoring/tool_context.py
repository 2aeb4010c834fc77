"""`ToolContext`: what a running tool call can read, report and request."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NoReturn, Protocol, cast

from pydantic import JsonValue

from wakeful.authoring.hook_requests import Requesting
from wakeful.authoring.lifespan import D_co
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.authoring.suspend import SuspendableCall
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.mail import AGENT_MESSAGE_LIMIT
from wakeful.contract.runs import RunMode
from wakeful.contract.tool_attempts import CHECKPOINT_BYTES


class ProgressSink(Protocol):
    """Receives the progress of a running call."""

    def __call__(self, report: Mapping[str, JsonValue], /) -> None: ...


class EmitSink(Protocol):
    """Receives the events of a background task; returns whether they are delivered."""

    def __call__(self, event_type: str, payload: JsonValue, /) -> bool: ...


@dataclass(frozen=True)
class ToolContext(SuspendableCall[NoReturn], Requesting, Generic[D_co]):
    """What a running call can use. Add a parameter of this type to your tool.

    A tool can request what a hook can: add context, permissions or overrides, stop or finish the run, hand it off. The
    requests are applied together with the call's result, and discarded if the tool raises or suspends; those of a
    background tool have no effect.

    `ToolContext[Database]` says what `deps` is: the value that the registry's lifespan yields.

    `suspend` raises, so the tool stops there. By default it runs again from its beginning after the decision, which it
    finds in `resume_input`.
    """

    idempotency_key: str
    """The same for every attempt of this call, and for no other call. Pass it to the service that you change."""
    deps: D_co = field(default=cast("D_co", None), repr=False)
    """The value of the registry's lifespan; None if it has none."""
    attempt: int = 1
    """Above 1 if the call is retried: after an error, or after a worker was lost or did not have the tool."""
    last_checkpoint: JsonValue = None
    """The newest `checkpoint` of the attempts before this one; None if they made none."""
    resume_input: ToolCallResume | None = None
    """The decision that resumed this call, if it was suspended before. Its `arguments` are the edited ones, if any."""
    suspension_id: str | None = None
    suspension_reason: str | None = None
    state: State = field(default_factory=State, repr=False)
    """The agent's state. Writes are applied when the tool returns, and discarded if it raises or suspends."""
    profiles: Profiles = field(default_factory=Profiles, repr=False)
    """Data that is shared across threads. Sync tools use `profiles.wait`. Writes stay, even if the call fails."""
    progress_sink: ProgressSink = field(default=lambda _report: None, repr=False)
    stream_sink: Callable[[str], None] = field(default=lambda _text: None, repr=False)
    activity_sink: Callable[[str, JsonValue], None] = field(default=lambda _type, _content: None, repr=False)
    patch_sink: Callable[[str, tuple[JsonValue, ...]], None] = field(default=lambda _type, _patch: None, repr=False)
    checkpoint_sink: Callable[[JsonValue], None] = field(default=lambda _value: None, repr=False)
    cancelled_source: Callable[[], bool] = field(default=lambda: False, repr=False)
    emit_sink: EmitSink = field(default=lambda _type, _payload: False, repr=False)
    message_sink: Callable[[str], bool] = field(default=lambda _text: False, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the run has cancelled this call. Async tools are cancelled as well; sync tools should poll this."""
        return self.cancelled_source()

    @property
    def run_mode(self) -> RunMode:
        """Why the call runs: `resume` if a decision has resumed it, or else the mode of its run."""
        return self.identity.mode_of_call(is_resumed=self.resume_input is not None)

    def report(
        self,
        message: str | None = None,
        *,
        progress: float | None = None,
        loaded: float | None = None,
        total: float | None = None,
    ) -> None:
        """Report progress. Live watchers see it; it is not written to history."""
        values = {"message": message, "progress": progress, "loaded": loaded, "total": total}
        self.progress_sink({name: value for name, value in values.items() if value is not None})

    def stream(self, text: str) -> None:
        """Show live watchers a piece of output while the tool works; it is not written to history.

        The model reads only what the tool returns. Watchers see the pieces joined, a few times per second; of more than
        16,000 characters between two heartbeats they see the end.
        """
        self.stream_sink(text)

    def show_activity(self, activity_type: str, content: JsonValue) -> None:
        """Show live watchers an activity of your own, such as a plan or a map, in place of the last one of its type.

        It is not written to history.

        Raises:
            TypeError: the content is not JSON.
            ValueError: the activities of the call have more than 32,000 bytes together.
        """
        self.activity_sink(activity_type, json_copy(activity_type, content))

    def patch_activity(self, activity_type: str, patch: JsonValue) -> None:
        """Change an activity that live watchers see by a JSON Patch (RFC 6902): an operation, or a list of them.

        Raises:
            TypeError: the patch is not JSON.
            ValueError: it does not fit the activity, or that becomes too large.
        """
        operations = json_copy(activity_type, patch)
        self.patch_sink(activity_type, tuple(operations) if isinstance(operations, list) else (operations,))

    def checkpoint(self, value: JsonValue) -> None:
        """Record how far the call has come: if it runs again, it finds the value in `last_checkpoint`.

        A call runs again after an error that is retried, and after its worker was lost if the tool is `idempotent` or
        `read_only`. The next attempt gets the newest checkpoint that the server has received: a worker sends one within
        0.2 seconds, so one that is killed may lose the last. A decision that resumes the call starts without one.

        Raises:
            TypeError: the value is not JSON.
            ValueError: it has more than 32,000 bytes.
        """
        self.checkpoint_sink(_checkpoint_copy(value))

    def emit(self, event_type: str, payload: JsonValue = None) -> bool:
        """Send an event to the owner of the background task that this call belongs to; the owner's model reads it.

        Events arrive in order, and before the call's result. If an attempt runs again and emits the same events, they
        are delivered once.

        Returns:
            False if the event is not delivered: the call belongs to no background task, or has ended.

        Raises:
            TypeError: the payload is not JSON.
            ValueError: the payload is too large for a model to read.
        """
        return self.emit_sink(event_type, json_copy(event_type, payload))

    def emit_message(self, text: str) -> bool:
        """Send the owner of the background task a message that its model reads as it is, like one of a user.

        Returns:
            False if it is not delivered: the call belongs to no background task, or has ended.

        Raises:
            TypeError: it is not a string of valid unicode.
            ValueError: it is too long for a model to read.
        """
        return self.message_sink(str(json_copy("message", text)))

    def _suspended(self, ticket: SuspensionTicket) -> NoReturn:
        raise SuspendCall(ticket)


class SuspendCall(Exception):
    """Raised by `ToolContext.suspend` to stop the tool. Not an error: do not catch it."""

    def __init__(self, ticket: SuspensionTicket) -> None:
        super().__init__(f"the tool call is suspended: {ticket.suspension.message}")
        self.ticket = ticket


def _checkpoint_copy(value: JsonValue) -> JsonValue:
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"a checkpoint has to be JSON: {error}") from error
    if len(written) > CHECKPOINT_BYTES:
        raise ValueError(
            f"the checkpoint has {len(written):,} bytes; at most {CHECKPOINT_BYTES:,} are allowed: store large data "
            "elsewhere, and checkpoint where it is"
        )
    copied: JsonValue = json.loads(written)
    return copied


def json_copy(event_type: str, payload: JsonValue) -> JsonValue:
    """A copy of an event's payload, so that a tool can change its own afterwards."""
    try:
        written = json.dumps(payload, allow_nan=False, ensure_ascii=False)
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the payload of event {event_type!r} is not JSON: {error}") from error
    if len(written) > AGENT_MESSAGE_LIMIT:
        raise ValueError(
            f"the payload of event {event_type!r} has {len(written):,} characters; at most {AGENT_MESSAGE_LIMIT:,} are "
            "allowed: store large data where a tool can read it, and emit a reference"
        )
    copied: JsonValue = json.loads(written)
    return copied
