"""The interface between Wakeful and a model: implement `complete` or `stream`, and raise `ProviderError` on failure."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, runtime_checkable

from typing_extensions import TypeIs

from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.streaming import StreamPart


@runtime_checkable
class Provider(Protocol):
    """A provider that returns whole answers. It runs in an activity; cancelling the run cancels the call."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer `request`.

        Raises:
            ProviderError: the call failed; its kind determines whether Temporal retries it.
        """
        ...


@runtime_checkable
class StreamingProvider(Protocol):
    """A provider that streams answers. Clients can watch them live, and a retry continues an interrupted one."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """Answer `request` part by part, ending with `StopPart`. Closing the iterator closes the connection.

        Raises:
            ProviderError: the call failed; its kind determines whether Temporal retries it. The retry continues from
                the parts that have arrived.
        """
        ...


AnyProvider = Provider | StreamingProvider

ProviderFactory = Callable[[Any], AnyProvider]
"""Makes a provider from the value of the registry's lifespan, once per worker: a function, or the provider's class."""


def is_factory(source: AnyProvider | ProviderFactory) -> TypeIs[ProviderFactory]:
    """Whether this makes a provider, and is none itself."""
    return isinstance(source, type) or not (streams(source) or callable(getattr(source, "complete", None)))


def streams(source: object) -> TypeIs[StreamingProvider]:
    """Whether this is a provider that streams. Every model call asks, and `isinstance` of a protocol is slow."""
    return not isinstance(source, type) and callable(getattr(source, "stream", None))
