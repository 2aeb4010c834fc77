"""What cannot be decoded must not block a thread: any client can signal it with any bytes.

A payload codec decodes what a worker is given before the workflow runs, so an error of the codec fails the workflow
task, again and again. `tolerant` wraps the codec: what it can never decode reaches the workflow marked as such, and the
workflow refuses the signal. Activity results are not tolerated: a worker with the right codec will decode them.

`is_permanent` draws the line. A codec that could succeed later (a key service that does not answer) must fail the task,
because a replay would decode what was refused, and do something else.
"""

import binascii
import dataclasses
import re
import struct
import traceback
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecution
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from wakeful.contract import names
from wakeful.contract.errors import CannotDecode

ENCODING = b"wakeful/undecodable"
"""The encoding of a payload that can never be decoded; its data is the reason. Never in history."""

_PERMANENT = (ValueError, TypeError, LookupError, AssertionError, DecodeError, struct.error, zlib.error, binascii.Error)
_UNKNOWN = re.compile("Unknown payload encoding (?P<encoding>[^'\"]*)")
"""How the SDK's payload converter begins its error."""
_CRYPTOGRAPHY = frozenset({"cryptography", "nacl", "Crypto", "Cryptodome"})
"""Packages whose errors mean that data is not what the key fits."""


def tolerant(converter: DataConverter) -> DataConverter:
    """The same converter, for workflows: what its codec can never decode arrives marked."""
    codec = converter.payload_codec
    if codec is None or isinstance(codec, TolerantCodec):
        return converter
    return dataclasses.replace(converter, payload_codec=TolerantCodec(codec))


def tolerant_client(client: Client) -> Client:
    """The same client, for a worker."""
    return with_converter(client, tolerant(client.data_converter))


def with_converter(client: Client, converter: DataConverter) -> Client:
    """The same client, with another converter. Its plugins have configured it already, and still configure workers."""
    if converter is client.data_converter:
        return client
    config = client.config(active_config=True)
    config["data_converter"] = converter
    if plugins := list(client.config()["plugins"]):
        from wakeful.applied_plugin import worker_plugins  # it imports Temporal's whole worker

        config["plugins"] = worker_plugins(plugins)
    return Client(**config)


def check_decodable(converter: DataConverter, thread: WorkflowExecution) -> None:
    """Fail before a thread is read or written that this client cannot decode.

    Its memo tells: without the codec, history would look as if the thread had never started, and a message would be
    stored in the clear among encrypted ones.

    Raises:
        CannotDecode: the memo needs a codec, and the converter has none.
    """
    title = thread.raw_info.memo.fields.get(names.MEMO_TITLE)
    if title is None or converter.payload_codec is not None:  # a codec may be slow, and reading the thread uses it
        return
    with decoding(converter, f"thread {thread.id!r}"), suppress(RuntimeError):  # another program may have set it
        converter.payload_converter.from_payload(title)


async def check_codec(converter: DataConverter, thread: WorkflowExecution) -> None:
    """Fail before a thread is sent what its workers cannot decode, because this client has another key.

    Raises:
        CannotDecode: the codec can never decode the memo. One that does not answer now says nothing.
    """
    with suppress(OSError, RuntimeError), decoding(converter, f"thread {thread.id!r}"):
        await thread.memo_value(names.MEMO_TITLE, None)


@contextmanager
def decoding(converter: DataConverter, subject: str) -> Iterator[None]:
    """Decode in the body.

    Raises:
        CannotDecode: the converter does not know the encoding, or the codec could not decode it and never will.
    """
    try:
        yield
    except Exception as error:
        if (reason := decode_problem(converter, error)) is None:
            raise
        raise CannotDecode(subject, reason) from error


def decode_problem(converter: DataConverter, error: Exception) -> str | None:
    """Why a payload cannot be decoded, if that is what an error of the SDK or of the codec says."""
    if isinstance(error, KeyError) and (unknown := _UNKNOWN.search(str(error))) is not None:
        return f"its payloads have the encoding {unknown['encoding']!r}, for which this client has no codec"
    codec = converter.payload_codec
    codec = codec.codec if isinstance(codec, TolerantCodec) else codec
    if codec is None or not is_permanent(error) or not _is_raised_by(codec, error):
        return None
    return f"the payload codec {type(codec).__name__!r} raised {type(error).__name__}: {error}"


def _is_raised_by(codec: PayloadCodec, error: Exception) -> bool:
    """Whether a method of the codec, or of its copy for one workflow, was being called."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(isinstance(frame.f_locals.get("self"), type(codec)) for frame, _ in frames)


def is_permanent(error: BaseException) -> bool:
    """Whether decoding the same bytes again would fail again."""
    if any(isinstance(cause, OSError) for cause in _chain(error)):  # the network, a file, a timeout
        return False
    return isinstance(error, _PERMANENT) or type(error).__module__.partition(".")[0] in _CRYPTOGRAPHY


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


class TolerantCodec(PayloadCodec, WithSerializationContext):
    """A codec whose permanent failures mark the payload, of a workflow but not of an activity."""

    def __init__(self, codec: PayloadCodec, *, marks: bool = False) -> None:
        self.codec = codec
        self._marks = marks

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self.codec.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        try:
            return await self.codec.decode(payloads)
        except Exception as error:
            if not self._marks or not is_permanent(error):
                raise
            if len(payloads) == 1:
                # Without the message, which may differ from worker to worker.
                return [marked(f"the payload codec cannot decode it ({type(error).__name__})")]
        return [decoded for payload in payloads for decoded in await self.decode([payload])]

    def with_context(self, context: SerializationContext) -> "TolerantCodec":
        codec, marks = self.codec, isinstance(context, WorkflowSerializationContext)
        return TolerantCodec(
            codec.with_context(context) if isinstance(codec, WithSerializationContext) else codec, marks=marks
        )


def marked(reason: str) -> Payload:
    """What takes the place of a payload that can never be decoded, for the same reason on every worker."""
    return Payload(metadata={"encoding": ENCODING}, data=reason.encode())


class Undecodable(ValueError):
    """A payload cannot be decoded, now or later. The message says why."""


def checked(payload: Payload) -> Payload:
    """The payload, unless its codec could not decode it.

    Raises:
        Undecodable: it is marked.
    """
    if payload.metadata.get("encoding") == ENCODING:
        raise Undecodable(payload.data.decode())
    return payload
