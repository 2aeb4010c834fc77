"""The one seam between Wakeful and a model: implement `complete`, raise `ProviderError` when it fails."""

from typing import Protocol, runtime_checkable

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse

__all__ = ["ModelRequest", "ModelResponse", "Provider", "ProviderError", "ProviderErrorKind"]


@runtime_checkable
class Provider(Protocol):
    """A source of model answers. It runs in an activity, so it may do I/O; cancelling the run cancels the call."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer `request`.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        ...
