"""A remote task as far as it is known, in our words: what the service streams and answers, folded into one value."""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, dropwhile

from a2a.types.a2a_pb2 import Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState
from google.protobuf.json_format import MessageToDict
from pydantic import JsonValue

from wakeful.contract.limits import ANSWER_BYTES, MESSAGE_BYTES
from wakeful.contract.messages import AudioBlock, Base64Source, DocumentBlock, ImageBlock, MediaBlock, VideoBlock
from wakeful.contract.remote import RemoteState
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind

_STATES = {
    TaskState.TASK_STATE_UNSPECIFIED: RemoteState.WORKING,
    TaskState.TASK_STATE_SUBMITTED: RemoteState.SUBMITTED,
    TaskState.TASK_STATE_WORKING: RemoteState.WORKING,
    TaskState.TASK_STATE_INPUT_REQUIRED: RemoteState.INPUT_REQUIRED,
    TaskState.TASK_STATE_AUTH_REQUIRED: RemoteState.AUTH_REQUIRED,
    TaskState.TASK_STATE_COMPLETED: RemoteState.COMPLETED,
    TaskState.TASK_STATE_FAILED: RemoteState.FAILED,
    TaskState.TASK_STATE_CANCELED: RemoteState.CANCELED,
    TaskState.TASK_STATE_REJECTED: RemoteState.REJECTED,
}


@dataclass(frozen=True)
class RemoteSnapshot:
    """What a service has said of a task, or its answer without one."""

    state: RemoteState
    context_id: str = ""
    task_id: str | None = None
    text: str = ""
    """Of its artifacts; of a message alone, the message."""
    status_text: str = ""
    """The message of its status: progress, a question, or why it failed."""
    data: JsonValue = None
    """The one structured result, if there is exactly one."""
    files: tuple[MediaBlock, ...] = ()
    """The files of its artifacts, the first of them, up to half of what an answer may have."""
    state_since: int | None = None
    message_ids: frozenset[str] = frozenset()
    """Of its history, if the service keeps one."""

    @property
    def answer(self) -> str:
        return self.text or self.status_text

    def without(self, secrets: Callable[[str], str]) -> "RemoteSnapshot":
        """The snapshot with texts from which secrets are removed, and without files that contain one."""
        data = self.data
        if data is not None and secrets(written := json.dumps(data)) != written:
            data = json.loads(secrets(written))
        files = tuple(file for file in self.files if (written := _written(file)) == secrets(written))
        return replace(self, text=secrets(self.text), status_text=secrets(self.status_text), data=data, files=files)


MAX_STREAMED = 10_000
"""Artifacts and parts that are kept of a task which is streamed; the chunks of a text are one part."""


class TaskFold:
    """Applies what a service streams to a task. An event takes the time of its bytes, and a snapshot that of all."""

    def __init__(self, task: Task | None = None) -> None:
        self._message: Message | None = None
        self._streamed = 0
        self._set_task(task or Task())

    def add(self, event: StreamResponse) -> None:
        """Apply an event.

        Raises:
            RemoteError: the service streams more artifacts than are read.
        """
        match event.WhichOneof("payload"):
            case "task":
                self._set_task(event.task)
            case "message":
                self._message = event.message
            case "status_update":
                self._name(event.status_update.task_id, event.status_update.context_id)
                self._task.status.CopyFrom(event.status_update.status)
            case "artifact_update":
                self._name(event.artifact_update.task_id, event.artifact_update.context_id)
                self._add_artifact(event.artifact_update)
            case _:
                pass  # of a later version of the protocol

    def _set_task(self, task: Task) -> None:
        self._task = Task()
        self._task.CopyFrom(task)
        self._task.ClearField("artifacts")
        self._artifacts = [_pieces(artifact.parts) for artifact in task.artifacts]
        self._by_id = dict[str, list[_Piece]]()
        for artifact, pieces in zip(task.artifacts, self._artifacts, strict=True):
            self._by_id.setdefault(artifact.artifact_id, pieces)
        self._kept = 0
        self._count(len(self._artifacts) + sum(map(len, self._artifacts)))

    def _add_artifact(self, update: TaskArtifactUpdateEvent) -> None:
        new = update.artifact
        self._streamed += new.ByteSize()
        if self._streamed > MESSAGE_BYTES:
            raise _too_much(f"{MESSAGE_BYTES:,} bytes")
        known = self._by_id.get(new.artifact_id)
        if known is None:
            self._by_id[new.artifact_id] = known = []
            self._artifacts.append(known)
            self._count(1)
        before = len(known)
        if not update.append:
            known.clear()
        _extend(known, new.parts)
        self._count(len(known) - before)

    def _count(self, more: int) -> None:
        self._kept += more
        if self._kept > MAX_STREAMED:
            raise _too_much(f"{MAX_STREAMED:,} artifacts and parts")

    def _name(self, task_id: str, context_id: str) -> None:
        self._task.id = self._task.id or task_id
        self._task.context_id = self._task.context_id or context_id

    @property
    def state(self) -> RemoteState:
        return RemoteState.COMPLETED if self._message is not None else _state(self._task)

    @property
    def snapshot(self) -> RemoteSnapshot:
        if self._message is not None:
            return snapshot_of_message(self._message)
        return _snapshot(self._task, self._artifacts)


def _too_much(what: str) -> RemoteError:
    return RemoteError(RemoteErrorKind.REFUSED, f"its task is not read further: it streams more than {what}")


@dataclass
class _Piece:
    """A part as a model reads it, or consecutive parts of text."""

    texts: list[str] = field(default_factory=list)
    """Chunks of one text: they are joined when they are read, because a stream may have one per token."""
    part: Part | None = None
    """That is not a text."""

    def joined(self) -> str:
        self.texts = ["".join(self.texts)]
        return self.texts[0]


def _pieces(parts: Iterable[Part]) -> list[_Piece]:
    pieces: list[_Piece] = []
    _extend(pieces, parts)
    return pieces


def _extend(pieces: list[_Piece], parts: Iterable[Part]) -> None:
    for part in parts:
        if part.WhichOneof("content") != "text":
            pieces.append(_Piece([_described(part)], part))
        elif pieces and pieces[-1].part is None:
            pieces[-1].texts.append(part.text)
        else:
            pieces.append(_Piece([part.text]))


def snapshot_of(task: Task) -> RemoteSnapshot:
    return _snapshot(task, [_pieces(artifact.parts) for artifact in task.artifacts])


def _snapshot(task: Task, artifacts: Sequence[list[_Piece]]) -> RemoteSnapshot:
    status = task.status
    said = _pieces(status.message.parts)
    parts = _parts(chain.from_iterable(artifacts)) if any(artifacts) else _parts(said)
    at = status.timestamp.ToMilliseconds() if status.HasField("timestamp") else None
    return RemoteSnapshot(
        state=_state(task),
        context_id=task.context_id,
        task_id=task.id or None,
        text="\n\n".join(filter(None, map(_text, artifacts))),
        status_text=_text(said),
        data=_only_data(parts),
        files=_files(parts),
        state_since=at,
        message_ids=frozenset(message.message_id for message in task.history),
    )


def _state(task: Task) -> RemoteState:
    return _STATES.get(task.status.state, RemoteState.WORKING)


def snapshot_of_message(message: Message) -> RemoteSnapshot:
    """A service may answer with a message, and no task."""
    return RemoteSnapshot(
        state=RemoteState.COMPLETED,
        context_id=message.context_id,
        text=text_of(message.parts),
        data=_only_data(message.parts),
        files=_files(message.parts),
    )


def text_of(parts: Iterable[Part]) -> str:
    """The parts as a model reads them. Consecutive texts are chunks of one; other parts stand on lines of their own."""
    return _text(_pieces(parts))


def _text(pieces: Iterable[_Piece]) -> str:
    return "\n".join(dropwhile(lambda line: not line, [piece.joined() for piece in pieces]))


def _parts(pieces: Iterable[_Piece]) -> list[Part]:
    """The parts that are not texts."""
    return [piece.part for piece in pieces if piece.part is not None]


def _described(part: Part) -> str:
    name = part.filename or part.media_type or "file"
    match part.WhichOneof("content"):
        case "data":
            return json.dumps(_json(part), ensure_ascii=False, sort_keys=True)  # the library keeps no order
        case "url":
            return f"[{name}]({part.url})"
        case "raw":
            return f"[{name}: {len(part.raw):,} bytes, not shown]"
        case _:
            return ""


def _only_data(parts: Sequence[Part]) -> JsonValue:
    found = [part for part in parts if part.WhichOneof("content") == "data"]
    return _json(found[0]) if len(found) == 1 else None


def _files(parts: Iterable[Part]) -> tuple[MediaBlock, ...]:
    files: list[MediaBlock] = []
    left = _FILE_BYTES
    for part in parts:
        if part.WhichOneof("content") == "raw" and len(part.raw) <= left:
            left -= len(part.raw)
            files.append(_file(part))
    return tuple(files)


def _file(part: Part) -> MediaBlock:
    media_type = part.media_type or "application/octet-stream"
    source = Base64Source(media_type=media_type, data=base64.b64encode(part.raw).decode())
    kind = _BLOCKS.get(media_type.partition("/")[0])
    return DocumentBlock(source=source, title=part.filename or None) if kind is None else kind(source=source)


def _written(file: MediaBlock) -> str:
    """The bytes of a file as a text in which a secret would be found."""
    return base64.b64decode(file.source.data).decode("latin-1") if isinstance(file.source, Base64Source) else ""


_BLOCKS: dict[str, type[ImageBlock | AudioBlock | VideoBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
}
_FILE_BYTES = ANSWER_BYTES // 2
"""Base64 adds a third; the rest is for the text."""


def _json(part: Part) -> JsonValue:
    return _with_integers(MessageToDict(part.data))


def _with_integers(value: JsonValue) -> JsonValue:
    """The value as the service wrote it: the protocol's library reads every number as a float."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _with_integers(each) for name, each in value.items()}
        case list():
            return [_with_integers(each) for each in value]
        case _:
            return value
