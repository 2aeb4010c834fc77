"""Payloads outside history: every workflow has a folder of its own, which can be deleted without breaking another."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.converter import (
    StorageDriver,
    StorageDriverActivityInfo,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from wakeful.storage import DirectoryStore, PayloadStore, S3Store, external_storage
from wakeful.undecodable import Undecodable, checked, is_permanent

LARGE = Payload(metadata={"encoding": b"binary/plain"}, data=b"x" * 1000)
READING = StorageDriverRetrieveContext()
ODD_IDS = ["..", "../b", "a/b", "a b", "ä~" * 300, "a-b", "A-B", ""]


class FakeS3(S3StorageDriverClient):
    """A bucket in memory, with the methods of aioboto3 that delete objects, two keys a page."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refused: set[str] = set()

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        self.objects[key] = data

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        return key in self.objects

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        return self.objects[key]

    def get_paginator(self, operation_name: str, /) -> "FakeS3":
        assert operation_name == "list_objects_v2"
        return self

    async def paginate(self, *, Bucket: str, Prefix: str) -> AsyncIterator[Mapping[str, Any]]:  # noqa: N803  # its names
        keys = [key for key in sorted(self.objects) if key.startswith(Prefix)]
        for first in range(0, len(keys), 2):
            yield {"Contents": [{"Key": key} for key in keys[first : first + 2]]}
        yield {}

    async def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: N803  # its names
        keys = [entry["Key"] for entry in Delete["Objects"]]
        if refused := self.refused & set(keys):
            return {"Errors": [{"Key": key, "Code": "AccessDenied"} for key in sorted(refused)]}
        for key in keys:
            del self.objects[key]
        return {}


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3()


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, s3: FakeS3) -> PayloadStore:
    if request.param == "directory":
        return DirectoryStore(tmp_path / "payloads")
    return S3Store(S3StorageDriver(client=s3, bucket="b"), s3, "b")


def of(workflow_id: str, run_id: str | None = None, namespace: str = "default") -> StorageDriverStoreContext:
    return StorageDriverStoreContext(
        target=StorageDriverWorkflowInfo(namespace=namespace, id=workflow_id, run_id=run_id, type="AgentRun")
    )


async def test_deleting_a_thread_leaves_the_same_payload_of_another(store: PayloadStore) -> None:
    (mine,) = await store.store(of("t1", "r1"), [LARGE])
    (yours,) = await store.store(of("t1/helper-1"), [LARGE])
    (elsewhere,) = await store.store(of("t1", namespace="other"), [LARGE])
    assert await store.delete("default", "t1") == 1
    assert await store.retrieve(READING, [yours, elsewhere]) == [LARGE, LARGE]
    with pytest.raises((OSError, RuntimeError)):
        await store.retrieve(READING, [mine])


async def test_all_executions_of_a_thread_share_a_folder_and_equal_payloads(store: PayloadStore) -> None:
    others = [Payload(data=bytes([number]) * 1000) for number in range(4)]
    first = await store.store(of("t1", "r1"), [LARGE, *others])
    assert await store.store(of("t1", "r2"), [LARGE, *others]) == first
    assert await store.delete("default", "t1") == 5
    assert await store.delete("default", "t1") == 0


async def test_any_id_has_a_folder_of_its_own(store: PayloadStore) -> None:
    claims = [(await store.store(of(id), [LARGE]))[0] for id in ODD_IDS]
    for id, claim in zip(ODD_IDS, claims, strict=True):
        assert await store.retrieve(READING, [claim]) == [LARGE]
        assert await store.delete("default", id) == 1


async def assert_refused(
    store: PayloadStore, claim: StorageDriverClaim, forged: Mapping[str, str], reason: str
) -> None:
    """A forged claim does not block the workflow task that reads it: the signal is refused."""
    read = await store.retrieve(READING, [claim, StorageDriverClaim({**claim.claim_data, **forged}), claim])
    assert (read[0], read[2]) == (LARGE, LARGE)
    with pytest.raises(Undecodable, match=reason):
        checked(read[1])


async def test_a_claim_cannot_name_another_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(LARGE.SerializeToString())
    store = DirectoryStore(tmp_path / "payloads")
    (claim,) = await store.store(of("t1"), [LARGE])
    for forged in ({"digest": "../../../secret"}, {"folder": "..", "digest": "0" * 64}, {"digest": ""}):
        await assert_refused(store, claim, forged, "is not a stored payload")


async def test_a_claim_cannot_name_another_object_or_bucket(s3: FakeS3) -> None:
    store = S3Store(S3StorageDriver(client=s3, bucket="b"), s3, "b")
    (claim,) = await store.store(of("t1"), [LARGE])
    s3.objects["backups/secret"] = LARGE.SerializeToString()
    for forged in ({"key": "backups/secret"}, {"bucket": "other"}, {"hash_value": "0" * 64}, {"key": ""}):
        await assert_refused(store, claim, forged, "is not a stored payload of the bucket 'b'")


async def test_a_payload_that_was_changed_is_an_error_that_waits_for_its_repair(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (claim,) = await store.store(of("t1"), [LARGE])
    stored = tmp_path / claim.claim_data["folder"] / claim.claim_data["digest"]
    content = stored.read_bytes()
    stored.write_bytes(content.replace(b"x", b"y", 1))
    with pytest.raises(OSError, match=r"was changed: its digest is [0-9a-f]{64}; restore it from a backup") as changed:
        await store.retrieve(READING, [claim])
    assert not is_permanent(changed.value)
    stored.write_bytes(content)
    assert await store.retrieve(READING, [claim]) == [LARGE]


async def test_what_s3_does_not_delete_is_an_error(s3: FakeS3) -> None:
    store = S3Store(S3StorageDriver(client=s3, bucket="b"), s3, "b")
    await store.store(of("t1"), [LARGE])
    s3.refused = set(s3.objects)
    with pytest.raises(OSError, match=r"did not delete 1 objects, such as .*AccessDenied"):
        await store.delete("default", "t1")


def test_heartbeats_are_not_stored_since_they_name_no_thread(store: PayloadStore) -> None:
    select = external_storage(store).driver_selector
    assert select is not None
    chosen: list[StorageDriver | None] = [
        select(StorageDriverSelectContext(target=target), LARGE)
        for target in (StorageDriverActivityInfo(namespace="default", id="infer-1"), of("t1").target)
    ]
    assert chosen == [None, store]
