"""A reader decodes payloads as a worker does, with the namespace's codec and payload store, and writes none."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    SerializationContext,
    StorageDriverClaim,
    StorageDriverStoreContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from tests.history.conftest import Working
from tests.support.waiting import until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.contract.errors import CannotDecode
from wakeful.history.read_only_replayer import decoding_only
from wakeful.history.reader import HistoryReader
from wakeful.storage import DirectoryStore, data_converter, external_storage

KEY = 0x5A
ENCODING = b"binary/flipped"
SECRET = "approve the secret launch"


class Flipping(PayloadCodec):
    """Flips bits: what it has not decoded is not readable."""

    def __init__(self) -> None:
        self.encoded = 0

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        self.encoded += len(payloads)
        return [
            Payload(metadata={"encoding": ENCODING}, data=_flipped(payload.SerializeToString())) for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload.FromString(_flipped(payload.data)) if payload.metadata["encoding"] == ENCODING else payload
            for payload in payloads
        ]


class PerThread(Flipping, WithSerializationContext):
    """Has a key per workflow."""

    def __init__(self, key: str = "") -> None:
        super().__init__()
        self.key = key

    def with_context(self, context: SerializationContext) -> "PerThread":
        assert isinstance(context, WorkflowSerializationContext)
        return PerThread(context.workflow_id or "")

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(data=self.key.encode()) for _ in payloads]


class CountingStore(DirectoryStore):
    """Counts what is stored."""

    stored = 0

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        self.stored += len(payloads)
        return await super().store(context, payloads)


def _flipped(data: bytes) -> bytes:
    return bytes(byte ^ KEY for byte in data)


async def connected(temporal: TemporalClient, converter: DataConverter) -> TemporalClient:
    return await TemporalClient.connect(temporal.service_client.config.target_host, data_converter=converter)


async def suspended(client: Client, working: Working, text: str) -> str:
    thread_id = client.task_queue
    async with working(client):
        await client.start("tester", text, thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
    return thread_id


async def test_an_encrypted_thread_is_read_with_its_codec(
    temporal: TemporalClient, thread_id: str, working: Working
) -> None:
    codec = Flipping()
    converter = replace(await data_converter({}), payload_codec=codec)
    client = Client(await connected(temporal, converter), task_queue=thread_id)
    await suspended(client, working, SECRET)
    assert SECRET not in (await temporal.get_workflow_handle(thread_id).fetch_history()).to_json()
    encoded = codec.encoded
    reader = HistoryReader(client.temporal)
    reading = await reader.read(thread_id)
    await reader.aclose()
    assert (reading.messages[0].text, reading.status.status) == (SECRET, RunStatus.WAITING)
    assert codec.encoded == encoded


async def test_a_reader_without_the_codec_says_what_it_cannot_decode(
    temporal: TemporalClient, thread_id: str, working: Working
) -> None:
    converter = replace(await data_converter({}), payload_codec=Flipping())
    client = Client(await connected(temporal, converter), task_queue=thread_id)
    await suspended(client, working, SECRET)
    with pytest.raises(CannotDecode, match=rf"thread '{thread_id}' cannot be decoded here: its payloads have the enc"):
        await HistoryReader(temporal).read(thread_id)


@pytest.mark.parametrize(("codec", "decoded"), [(PerThread(), b"t1"), (Flipping(), b"data")])
async def test_a_codec_knows_the_thread_whose_payloads_it_decodes(codec: PayloadCodec, decoded: bytes) -> None:
    converter = decoding_only(replace(await data_converter({}), payload_codec=codec))
    context = WorkflowSerializationContext(namespace="default", workflow_id="t1")
    of_thread = converter.with_context(context).payload_codec
    assert of_thread is not None
    payload = Payload(metadata={"encoding": b"json/plain"}, data=b"data")
    assert [each.data for each in await of_thread.decode([payload])] == [decoded]
    assert await of_thread.encode([payload]) == [payload]


async def test_payloads_outside_history_are_read_and_not_stored_again(
    temporal: TemporalClient, thread_id: str, working: Working, tmp_path: Path
) -> None:
    store = CountingStore(tmp_path)
    converter = replace(await data_converter({}), external_storage=external_storage(store, threshold=500))
    client = Client(await connected(temporal, converter), task_queue=thread_id)
    text = "approve " + "everything " * 200
    await suspended(client, working, text)
    stored = store.stored
    reader = HistoryReader(client.temporal)
    assert (await reader.read(thread_id)).messages[0].text == text
    await reader.aclose()
    assert (stored > 0, store.stored) == (True, stored)
