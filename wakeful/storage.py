"""External storage of payloads that are too large for history: a directory for development, or S3.

`WAKEFUL_PAYLOAD_STORE` enables it (`dir:/path` or `s3://bucket`), and must be the same for every worker and client of a
namespace. Each workflow's payloads are in a folder of their own, so that deleting one thread never breaks another: the
folder is that of the workflow whose history has to be read with the payload, such as the recipient of a signal.
"""

import asyncio
import dataclasses
import hashlib
import re
import shutil
import uuid
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.limits import NAME_LENGTH, cut
from wakeful.contract.requests import RunRequest
from wakeful.undecodable import marked

VARIABLE = "WAKEFUL_PAYLOAD_STORE"
THRESHOLD_BYTES = 128 * 1024

READABLE_LENGTH = 80
"""Characters of a workflow id that its folder's name shows."""

_DIGEST = re.compile("[0-9a-f]{64}")
_S3_KEY = re.compile("v0/ns/[^/]+/wt/null/wi/[A-Za-z0-9_-]+/ri/null/d/sha256/(?P<digest>[0-9a-f]{64})")


class PayloadStore(StorageDriver):
    """A store with a folder per workflow."""

    @abstractmethod
    async def delete(self, namespace: str, workflow_id: str) -> int:
        """Delete every payload of a workflow, and return how many there were."""


class DirectoryStore(PayloadStore):
    """Stores payloads as files named by their digest: equal ones of one workflow are stored once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def name(self) -> str:
        return "wakeful-directory"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        owner = _owner(context)
        folder = _folder(owner.namespace, owner.id or "")
        return [await asyncio.to_thread(self._write, folder, payload.SerializeToString()) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        del context
        return [await asyncio.to_thread(self._read, claim.claim_data) for claim in claims]

    async def delete(self, namespace: str, workflow_id: str) -> int:
        return await asyncio.to_thread(self._delete, self._directory / _folder(namespace, workflow_id))

    def _write(self, folder: str, data: bytes) -> StorageDriverClaim:
        digest = hashlib.sha256(data).hexdigest()
        path = self._directory / folder / digest
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written to another name and moved: a worker that dies meanwhile must not leave half a payload.
            part = path.with_suffix(f".{uuid.uuid4().hex}.part")
            part.write_bytes(data)
            part.replace(path)
        return StorageDriverClaim({"folder": folder, "digest": digest})

    def _read(self, claim: Mapping[str, str]) -> Payload:
        folder, digest = claim.get("folder", ""), claim.get("digest", "")
        # Any client can write a claim into a signal: it must not name another file of this machine, nor block the run.
        if not _DIGEST.fullmatch(digest) or not _is_folder(folder):
            return marked(f"{cut(folder, NAME_LENGTH)!r} / {cut(digest, NAME_LENGTH)!r} is not a stored payload")
        path = self._directory / folder / digest
        data = path.read_bytes()
        # An OSError: the workflow task has to wait until the file is restored, and not to refuse what it held.
        if (found := hashlib.sha256(data).hexdigest()) != digest:
            raise OSError(
                f"the stored payload {str(path)!r} was changed: its digest is {found}; restore it from a backup"
            )
        return Payload.FromString(data)

    def _delete(self, folder: Path) -> int:
        stored = sum(_DIGEST.fullmatch(path.name) is not None for path in folder.iterdir()) if folder.exists() else 0
        shutil.rmtree(folder, ignore_errors=not folder.exists())
        return stored


class ObjectClient(Protocol):
    """The part of an S3 client (aioboto3) that deletes objects."""

    def get_paginator(self, operation_name: str, /) -> Any: ...

    async def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Any]) -> Mapping[str, Any]: ...  # noqa: N803  # its names


class S3Store(PayloadStore):
    """The SDK's S3 driver, with one prefix per workflow."""

    def __init__(self, driver: StorageDriver, objects: ObjectClient, bucket: str) -> None:
        self._driver = driver
        self._objects = objects
        self._bucket = bucket

    def name(self) -> str:
        return self._driver.name()

    def type(self) -> str:
        return self._driver.type()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        owner = _owner(context)
        # Without the run id and the type, which not every writer knows; and short: the driver would give keys that are
        # too long no workflow at all.
        named = StorageDriverWorkflowInfo(namespace=owner.namespace, id=_readable(owner.id or ""))
        return await self._driver.store(StorageDriverStoreContext(target=named), payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        forged = [self._problem(claim.claim_data) for claim in claims]
        sound = [claim for claim, problem in zip(claims, forged, strict=True) if problem is None]
        found = iter(await self._driver.retrieve(context, sound) if sound else ())
        return [next(found) if problem is None else marked(problem) for problem in forged]

    def _problem(self, claim: Mapping[str, str]) -> str | None:
        """The driver compares the content with the claim's hash; but any client can write a claim into a signal."""
        bucket, key, digest = claim.get("bucket", ""), claim.get("key", ""), claim.get("hash_value", "")
        named = _S3_KEY.fullmatch(key)
        if bucket == self._bucket and named is not None and named["digest"] == digest:
            return None
        return f"{cut(key, NAME_LENGTH)!r} is not a stored payload of the bucket {self._bucket!r}"

    async def delete(self, namespace: str, workflow_id: str) -> int:
        deleted = 0
        try:
            async for keys in self._pages(_s3_prefix(namespace, workflow_id)):
                request = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
                answer = await self._objects.delete_objects(Bucket=self._bucket, Delete=request)
                if errors := answer.get("Errors"):
                    raise OSError(f"S3 did not delete {len(errors)} objects, such as {errors[0]!r}")
                deleted += len(keys)
        except Exception as error:  # botocore's own errors have no common base with Python's
            raise OSError(f"the bucket {self._bucket!r}: {error}") from error
        return deleted

    async def _pages(self, prefix: str) -> AsyncIterator[list[str]]:
        pages = self._objects.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        async for page in pages:
            if keys := [entry["Key"] for entry in page.get("Contents", ())]:
                yield keys


def _owner(context: StorageDriverStoreContext) -> StorageDriverWorkflowInfo:
    if not isinstance(context.target, StorageDriverWorkflowInfo):
        raise ValueError(f"a payload without a workflow is not stored: {context.target!r}")
    return context.target


def _folder(namespace: str, workflow_id: str) -> str:
    return f"{_readable(namespace)}/{_readable(workflow_id)}"


def _readable(id: str) -> str:
    """A name that any file system and S3 accept: readable, and different for every id."""
    return f"{re.sub('[^A-Za-z0-9_-]+', '-', id)[:READABLE_LENGTH]}-{hashlib.sha256(id.encode()).hexdigest()[:32]}"


def _is_folder(name: str) -> bool:
    return re.fullmatch("[A-Za-z0-9_-]+/[A-Za-z0-9_-]+", name) is not None


def _s3_prefix(namespace: str, workflow_id: str) -> str:
    """How the SDK's driver begins the keys of `S3Store.store`."""
    encoded = quote(namespace, safe="!*'()").replace("~", "%7E")
    return f"v0/ns/{encoded}/wt/null/wi/{_readable(workflow_id)}/"


class SharedPayloadConverter(PydanticPayloadConverter):
    """Pydantic's converter with shared parts: the SDK creates a converter for every activation of every workflow."""

    _PARTS = PydanticPayloadConverter().converters

    def __init__(self) -> None:
        self.converters = self._PARTS


_CONVERTER = DataConverter(payload_converter_class=SharedPayloadConverter)


def with_pydantic(converter: DataConverter) -> DataConverter:
    """The same converter, with pydantic's payload converter instead of Temporal's default."""
    if converter.payload_converter_class is not DefaultPayloadConverter:
        return converter
    return dataclasses.replace(converter, payload_converter_class=SharedPayloadConverter)


def converts_models(converter: DataConverter) -> bool:
    """Whether our types pass through the payload converter unchanged."""
    request = RunRequest(agent_id="a", input="b")
    try:
        payloads = converter.payload_converter.to_payloads([request])
        return converter.payload_converter.from_payloads(payloads, [RunRequest]) == [request]
    except Exception:  # whatever a converter of the user's own raises
        return False


async def data_converter(environ: Mapping[str, str]) -> DataConverter:
    """The converter that every client and worker of a namespace must share.

    Raises:
        ConfigurationError: the variable has an unknown form, or S3 support is not installed.
    """
    location = environ.get(VARIABLE, "")
    if not location:
        return _CONVERTER
    return dataclasses.replace(_CONVERTER, external_storage=external_storage(await payload_store(location)))


def external_storage(store: PayloadStore, *, threshold: int = THRESHOLD_BYTES) -> ExternalStorage:
    """The SDK's setting for a store. Heartbeats stay where they are: the SDK does not say whose they are.

    They are not history: the server keeps the newest one, until the activity ends.
    """

    def select(context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:
        del payload
        return store if isinstance(context.target, StorageDriverWorkflowInfo) else None

    return ExternalStorage(drivers=[store], driver_selector=select, payload_size_threshold=threshold)


async def payload_store(location: str) -> PayloadStore:
    """The store that `WAKEFUL_PAYLOAD_STORE` names.

    Raises:
        ConfigurationError: it has an unknown form, or S3 support is not installed.
    """
    kind, _, rest = location.partition(":")
    if kind == "dir" and rest:
        return DirectoryStore(Path(rest))
    if kind == "s3" and rest.strip("/"):
        return await _s3(rest.strip("/"))
    raise ConfigurationError([f"{VARIABLE} is {location!r}; write it as dir:/path or s3://bucket"])


async def _s3(bucket: str) -> PayloadStore:
    try:
        import aioboto3
        from temporalio.contrib.aws.s3driver import S3StorageDriver
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client
    except ImportError as error:
        raise ConfigurationError([f"{VARIABLE} names S3, which needs: pip install 'wakeful[s3]'"]) from error
    # Open for the life of the process: any payload may need it.
    s3 = await aioboto3.Session().client("s3").__aenter__()
    return S3Store(S3StorageDriver(client=new_aioboto3_client(s3), bucket=bucket), s3, bucket)


async def delete_stored(converter: DataConverter, namespace: str, workflow_id: str) -> int:
    """Delete what is stored outside history for a workflow, and return how many payloads there were.

    Raises:
        OSError: a store did not delete a payload.
    """
    stores = [driver for driver in _drivers(converter) if isinstance(driver, PayloadStore)]
    return sum([await store.delete(namespace, workflow_id) for store in stores])


def foreign_store(converter: DataConverter) -> str | None:
    """The name of a store that is not Wakeful's, so that nothing can be deleted from it here."""
    return next((driver.name() for driver in _drivers(converter) if not isinstance(driver, PayloadStore)), None)


def _drivers(converter: DataConverter) -> Sequence[StorageDriver]:
    return converter.external_storage.drivers if converter.external_storage is not None else ()
