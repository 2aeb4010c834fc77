from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

class EncryptionCodec(PayloadCodec):
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]: ...
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]: ...
