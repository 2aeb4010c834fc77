"""External storage of payloads that are too large for history: a directory for development, or S3.

`WAKEFUL_PAYLOAD_STORE` enables it (`dir:/path` or `s3://bucket`), and must be the same for every worker and client of a
namespace. Nothing is ever deleted: set a lifetime that is longer than the namespace's retention.
"""

import asyncio
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from wakeful.contract.errors import ConfigurationError

VARIABLE = "WAKEFUL_PAYLOAD_STORE"
THRESHOLD_BYTES = 128 * 1024


class DirectoryStore(StorageDriver):
    """Stores payloads as files named by their digest, so that equal ones are stored once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def name(self) -> str:
        return "wakeful-directory"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        del context
        return [await asyncio.to_thread(self._write, payload.SerializeToString()) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        del context
        return [await asyncio.to_thread(self._read, claim.claim_data["digest"]) for claim in claims]

    def _write(self, data: bytes) -> StorageDriverClaim:
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written to another name and moved: a worker that dies meanwhile must not leave half a payload.
            part = path.with_suffix(f".{id(data)}.part")
            part.write_bytes(data)
            part.replace(path)
        return StorageDriverClaim({"digest": digest})

    def _read(self, digest: str) -> Payload:
        return Payload.FromString(self._path(digest).read_bytes())

    def _path(self, digest: str) -> Path:
        return self._directory / digest[:2] / digest


class SharedPayloadConverter(PydanticPayloadConverter):
    """Pydantic's converter with shared parts: the SDK creates a converter for every activation of every workflow."""

    _PARTS = PydanticPayloadConverter().converters

    def __init__(self) -> None:
        self.converters = self._PARTS


_CONVERTER = DataConverter(payload_converter_class=SharedPayloadConverter)


async def data_converter(environ: Mapping[str, str]) -> DataConverter:
    """The converter that every client and worker of a namespace must share.

    Raises:
        ConfigurationError: the variable has an unknown form, or S3 support is not installed.
    """
    location = environ.get(VARIABLE, "")
    if not location:
        return _CONVERTER
    storage = ExternalStorage(drivers=[await _driver(location)], payload_size_threshold=THRESHOLD_BYTES)
    return dataclasses.replace(_CONVERTER, external_storage=storage)


async def _driver(location: str) -> StorageDriver:
    kind, _, rest = location.partition(":")
    if kind == "dir" and rest:
        return DirectoryStore(Path(rest))
    if kind == "s3" and rest.strip("/"):
        return await _s3(rest.strip("/"))
    raise ConfigurationError([f"{VARIABLE} is {location!r}; write it as dir:/path or s3://bucket"])


async def _s3(bucket: str) -> StorageDriver:
    try:
        import aioboto3
        from temporalio.contrib.aws.s3driver import S3StorageDriver
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client
    except ImportError as error:
        raise ConfigurationError([f"{VARIABLE} names S3, which needs: pip install 'wakeful[s3]'"]) from error
    # Open for the life of the process: any payload may need it.
    s3 = await aioboto3.Session().client("s3").__aenter__()
    return S3StorageDriver(client=new_aioboto3_client(s3), bucket=bucket)
