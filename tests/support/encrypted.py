"""A company's own client, whose codec encrypts every payload."""

import dataclasses
import hashlib
import hmac
import os
from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

ENCODING = b"binary/encrypted"
KEY = b"the company's key"
FACTORY = "tests.support.encrypted:connect"
WITH_ANOTHER_KEY = "tests.support.encrypted:connect_with_another_key"


class Encryption(PayloadCodec):
    """Encrypts with a key stream, and authenticates: AES-GCM without a package for it."""

    def __init__(self, key: bytes = KEY) -> None:
        self._key = key

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": ENCODING}, data=self._encrypt(each.SerializeToString())) for each in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload.FromString(self._decrypt(each.data)) if each.metadata.get("encoding") == ENCODING else each
            for each in payloads
        ]

    def _encrypt(self, data: bytes) -> bytes:
        nonce = os.urandom(12)
        encrypted = self._combined(nonce, data)
        return nonce + self._tag(nonce + encrypted) + encrypted

    def _decrypt(self, data: bytes) -> bytes:
        nonce, tag, encrypted = data[:12], data[12:44], data[44:]
        if not hmac.compare_digest(tag, self._tag(nonce + encrypted)):
            raise ValueError("encrypted with another key")
        return self._combined(nonce, encrypted)

    def _combined(self, nonce: bytes, data: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + nonce).digest(len(data))
        return (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(len(data))

    def _tag(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")


def encrypting(key: bytes = KEY) -> DataConverter:
    return dataclasses.replace(DataConverter.default, payload_codec=Encryption(key))


async def connect(address: str | None = None, namespace: str = "default") -> Client:
    address = address or os.environ["TEMPORAL_ADDRESS"]
    return await Client.connect(address, namespace=namespace, data_converter=encrypting())


async def connect_with_another_key(namespace: str = "default") -> Client:
    address = os.environ["TEMPORAL_ADDRESS"]
    return await Client.connect(address, namespace=namespace, data_converter=encrypting(b"another key"))
