"""Remote tasks in our words: what a service streams and answers, folded into one value."""

import time

import pytest
from a2a.helpers.proto_helpers import new_text_message
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from pydantic import JsonValue

from wakeful.contract.limits import ANSWER_BYTES
from wakeful.contract.messages import Base64Source, DocumentBlock, ImageBlock
from wakeful.contract.remote import RemoteState
from wakeful_activities.a2a.failures import RemoteError
from wakeful_activities.a2a.snapshots import MAX_STREAMED, RemoteSnapshot, TaskFold, snapshot_of, text_of

STATES = [
    (TaskState.TASK_STATE_UNSPECIFIED, RemoteState.WORKING),
    (TaskState.TASK_STATE_SUBMITTED, RemoteState.SUBMITTED),
    (TaskState.TASK_STATE_WORKING, RemoteState.WORKING),
    (TaskState.TASK_STATE_INPUT_REQUIRED, RemoteState.INPUT_REQUIRED),
    (TaskState.TASK_STATE_AUTH_REQUIRED, RemoteState.AUTH_REQUIRED),
    (TaskState.TASK_STATE_COMPLETED, RemoteState.COMPLETED),
    (TaskState.TASK_STATE_FAILED, RemoteState.FAILED),
    (TaskState.TASK_STATE_CANCELED, RemoteState.CANCELED),
    (TaskState.TASK_STATE_REJECTED, RemoteState.REJECTED),
]


def data(value: dict[str, JsonValue]) -> Part:
    return Part(data=ParseDict(value, Value()))


def chunk(text: str, *, id: str = "a", append: bool = True) -> StreamResponse:
    artifact = Artifact(artifact_id=id, parts=[Part(text=text)])
    return StreamResponse(
        artifact_update=TaskArtifactUpdateEvent(task_id="k1", context_id="c1", artifact=artifact, append=append)
    )


def status(state: TaskState, text: str = "") -> StreamResponse:
    said = new_text_message(text) if text else None
    return StreamResponse(
        status_update=TaskStatusUpdateEvent(task_id="k1", context_id="c1", status=TaskStatus(state=state, message=said))
    )


@pytest.mark.parametrize(("theirs", "ours"), STATES)
def test_every_state_of_the_protocol_is_one_of_ours(theirs: TaskState, ours: RemoteState) -> None:
    assert snapshot_of(Task(id="k1", status=TaskStatus(state=theirs))).state is ours


def test_streamed_chunks_are_appended_or_replace_what_was_there() -> None:
    fold = TaskFold(Task(id="k1", context_id="c1"))
    for event in (chunk("it ", append=False), chunk("rains"), chunk("in Rome", id="b", append=False)):
        fold.add(event)
    assert (fold.snapshot.text, fold.snapshot.task_id) == ("it rains\n\nin Rome", "k1")
    fold.add(chunk("it snows", append=False))
    fold.add(status(TaskState.TASK_STATE_COMPLETED, "done"))
    expected = RemoteSnapshot(RemoteState.COMPLETED, "c1", "k1", text="it snows\n\nin Rome", status_text="done")
    assert fold.snapshot == expected


def test_chunks_and_other_parts_of_an_artifact_stay_in_their_order() -> None:
    fold = TaskFold()
    for part in (Part(text="se"), Part(text="e"), data({"n": 1}), Part(text="en"), Part(text="d")):
        artifact = Artifact(artifact_id="a", parts=[part])
        fold.add(StreamResponse(artifact_update=TaskArtifactUpdateEvent(artifact=artifact, append=True)))
        assert fold.snapshot.text.startswith("se")  # the chunks that were read are joined, and others follow
    assert (fold.snapshot.text, fold.snapshot.data) == ('see\n{"n": 1}\nend', {"n": 1})
    fold.add(StreamResponse(task=Task(id="k1", artifacts=[Artifact(artifact_id="a", parts=[Part(text="an")])])))
    fold.add(chunk("other"))
    assert fold.snapshot == RemoteSnapshot(RemoteState.WORKING, "c1", "k1", text="another")


def test_a_stream_takes_the_time_of_its_bytes_however_many_artifacts_and_chunks_it_has() -> None:
    fold, began = TaskFold(), time.process_time()
    for number in range(8_000):
        fold.add(chunk("x", id=str(number % 4_000)))
    for _ in range(50_000):
        fold.add(chunk("x" * 100))
    assert len(fold.snapshot.text) > 5_000_000
    assert time.process_time() - began < 5


def test_of_a_stream_a_bounded_number_of_artifacts_and_parts_is_kept() -> None:
    fold = TaskFold()
    for _ in range(MAX_STREAMED):
        fold.add(chunk("x", append=False))
    for number in range(MAX_STREAMED // 2 - 1):
        fold.add(chunk("x", id=str(number)))
    with pytest.raises(RemoteError, match="it streams more than 10,000 artifacts and parts"):
        fold.add(chunk("x", id="last"))
    many = Artifact(artifact_id="a", parts=[Part()] * MAX_STREAMED)
    with pytest.raises(RemoteError, match="artifacts and parts"):
        fold.add(StreamResponse(task=Task(id="k1", artifacts=[many])))


def test_a_stream_may_begin_with_an_update() -> None:
    fold = TaskFold()
    fold.add(status(TaskState.TASK_STATE_WORKING))
    fold.add(StreamResponse())
    assert (fold.snapshot.task_id, fold.snapshot.context_id) == ("k1", "c1")
    fold.add(StreamResponse(task=Task(id="k2")))
    assert fold.snapshot.task_id == "k2"


def test_a_message_alone_is_a_complete_answer() -> None:
    fold = TaskFold()
    fold.add(StreamResponse(message=Message(context_id="c1", parts=[Part(text="hi")])))
    assert fold.snapshot == RemoteSnapshot(RemoteState.COMPLETED, "c1", text="hi")


def test_parts_that_are_not_text_are_described() -> None:
    parts = [
        Part(text="see"),
        Part(url="https://x.example.com/a.png", filename="a.png"),
        Part(raw=b"1234", media_type="image/png"),
        data({"b": 1.5, "a": [2]}),
        Part(text="end"),
        Part(),
    ]
    described = (
        'see\n[a.png](https://x.example.com/a.png)\n[image/png: 4 bytes, not shown]\n{"a": [2], "b": 1.5}\nend\n'
    )
    assert text_of(parts) == described


def test_the_answer_is_the_artifacts_or_else_the_message_of_the_status() -> None:
    said = TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=new_text_message("done"))
    assert snapshot_of(Task(id="k1", status=said)).answer == "done"
    artifact = Artifact(artifact_id="a", parts=[data({"n": 1})])
    only = snapshot_of(Task(id="k1", status=said, artifacts=[artifact]))
    assert (only.answer, only.data) == ('{"n": 1}', {"n": 1})
    assert snapshot_of(Task(id="k1", artifacts=[artifact, artifact])).data is None


def test_files_of_an_answer_are_kept_up_to_half_of_what_an_answer_may_have() -> None:
    parts = [
        Part(raw=b"1234", media_type="image/png", filename="a.png"),
        Part(raw=b"0" * ANSWER_BYTES, media_type="image/png"),
        Part(raw=b"s3cret", filename="notes"),
    ]
    found = snapshot_of(Task(id="k1", artifacts=[Artifact(artifact_id="a", parts=parts)]))
    picture = ImageBlock(source=Base64Source(media_type="image/png", data="MTIzNA=="))
    notes = DocumentBlock(source=Base64Source(media_type="application/octet-stream", data="czNjcmV0"), title="notes")
    assert found.files == (picture, notes)
    assert found.without(lambda text: text.replace("s3cret", "-")).files == (picture,)


def test_secrets_that_a_service_repeats_are_removed() -> None:
    snapshot = RemoteSnapshot(RemoteState.FAILED, text="token s3cret", status_text="s3cret", data={"token": "s3cret"})
    clean = RemoteSnapshot(RemoteState.FAILED, text="token -", status_text="-", data={"token": "-"})
    assert snapshot.without(lambda text: text.replace("s3cret", "-")) == clean
