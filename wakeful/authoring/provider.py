"""The one seam between Wakeful and a model: implement `complete` or `stream`, raise `ProviderError` when it fails."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.streaming import (
    CallArguments,
    CallClosed,
    CallOpened,
    Opened,
    Reasoning,
    Stop,
    StreamPart,
    Text,
    Used,
)

__all__ = [
    "AnyProvider",
    "CallArguments",
    "CallClosed",
    "CallOpened",
    "ModelRequest",
    "ModelResponse",
    "Opened",
    "Provider",
    "ProviderError",
    "ProviderErrorKind",
    "Reasoning",
    "Stop",
    "StopReason",
    "StreamPart",
    "StreamingProvider",
    "Text",
    "Used",
]


@runtime_checkable
class Provider(Protocol):
    """A source of whole answers. It runs in an activity, so it may do I/O; cancelling the run cancels the call."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer `request`.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        ...


@runtime_checkable
class StreamingProvider(Protocol):
    """A source of answers that come in parts: they can be watched, and gone on with after the worker was lost."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """Answer `request` part by part, ending with `Stop`. Leaving the iterator closes the connection.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again, and goes on from what came.
        """
        ...


AnyProvider = Provider | StreamingProvider
