"""A payload codec: what Temporal stores of orders and conversations is sealed with a key of the company.

It needs nothing but the standard library, and shows where a codec goes. In production, use AES-GCM and a key service.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

ENCODING = b"binary/sealed"
NONCE, TAG = 16, 32


class SealedCodec(PayloadCodec):
    def __init__(self, key: bytes) -> None:
        self._key = key

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": ENCODING}, data=self._seal(p.SerializeToString())) for p in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(self._open(p.data)) if _is_sealed(p) else p for p in payloads]

    def _seal(self, data: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE)
        mixed = self._mix(nonce, data)
        return nonce + self._tag(nonce + mixed) + mixed

    def _open(self, data: bytes) -> bytes:
        nonce, tag, mixed = data[:NONCE], data[NONCE : NONCE + TAG], data[NONCE + TAG :]
        if not hmac.compare_digest(tag, self._tag(nonce + mixed)):
            raise ValueError("the payload was sealed with another key")
        return self._mix(nonce, mixed)

    def _mix(self, nonce: bytes, data: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + nonce).digest(len(data))
        return bytes(a ^ b for a, b in zip(data, stream, strict=True))

    def _tag(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")


def _is_sealed(payload: Payload) -> bool:
    return payload.metadata.get("encoding") == ENCODING
