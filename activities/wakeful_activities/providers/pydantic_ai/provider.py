"""Models of pydantic-ai as providers: `PydanticAIModel` for one, and the built-in `pydantic-ai/…` for all by name.

pydantic-ai is an extra. This module imports it only when a model is called, so that apps without it pay nothing. The
modules beside this one import it at their top: `requests` writes what a model is sent, `answers` reads what it streams,
`failures` translates its errors, and `calls` joins them.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Self

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest
from wakeful.contract.streaming import StreamPart

if TYPE_CHECKING:
    from pydantic_ai.models import Model

EXTRA = "wakeful[pydantic-ai]"


class PydanticAIModel:
    """A model of pydantic-ai.

    Answers are streamed, and interrupted ones continued. The model's own settings apply, unless the agent or the run
    sets the same. Its client does not retry: Temporal does.

    Args:
        model: the model, or pydantic-ai's name for it: `"google:gemini-2.5-pro"`.
        needs_finish_reason: a stream that ends without a finish reason was cut off. Set it to False only for a server
            that never sends one: its answers then count as complete wherever they end.
    """

    def __init__(self, model: "Model | str", *, needs_finish_reason: bool = True) -> None:
        self._source = model
        self._model: Model | None = None if isinstance(model, str) else model
        self._needs_finish_reason = needs_finish_reason

    @property
    def detects_truncation(self) -> bool:
        """Whether an answer that was cut off is recognised, and therefore continued."""
        return self._needs_finish_reason

    def __repr__(self) -> str:
        name = self._source if isinstance(self._source, str) else self._source.model_name
        return f"{type(self).__name__}({name!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` part by part. Leaving the iterator closes the connection.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        if self._model is None:
            self._model = _inferred(str(self._source))
        from wakeful_activities.providers.pydantic_ai.calls import answer_parts

        parts = answer_parts(self._model, request, needs_finish_reason=self._needs_finish_reason)
        async with contextlib.aclosing(parts):
            async for part in parts:
                yield part

    async def aclose(self) -> None:
        """Close the connections of a model that was made from its name."""
        if isinstance(self._source, str) and self._model is not None:
            async with self._model:  # leaving it closes the client that its provider has made
                pass


class PydanticAIModels:
    """All models of pydantic-ai, by its names for them. Their API keys are where pydantic-ai expects them."""

    def __init__(self) -> None:
        self._models: dict[str, PydanticAIModel] = {}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:  # noqa: ARG003  # its providers read their own variables
        return cls()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """Answer `request` with the model that it names.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        model = self._models.setdefault(request.model, PydanticAIModel(request.model))
        return model.stream(request)

    async def aclose(self) -> None:
        for model in self._models.values():
            await model.aclose()


def _inferred(name: str) -> "Model":
    """The model with this name.

    Raises:
        ProviderError: the extra, a package of the model's provider or its API key is missing, or the name is unknown.
    """
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model, parse_model_id
    except ModuleNotFoundError as error:
        problem = f"model {name!r} needs the package {error.name!r}; install it with: pip install '{EXTRA}'"
        raise ProviderError(ProviderErrorKind.MODEL_NOT_FOUND, problem) from None
    provider, _ = parse_model_id(name)
    if provider is None and name != "test":
        problem = f"model {name!r} names no provider of pydantic-ai; write it like 'google:gemini-2.5-pro'"
        raise ProviderError(ProviderErrorKind.MODEL_NOT_FOUND, problem)
    try:
        return infer_model(name)
    except UserError as error:
        kind = ProviderErrorKind.MODEL_NOT_FOUND if "Unknown" in str(error) else ProviderErrorKind.UNAUTHORIZED
        raise ProviderError(kind, f"pydantic-ai cannot make model {name!r}: {error}") from None
    except ImportError as error:
        problem = f"pydantic-ai cannot make model {name!r} on this worker: {error}"
        raise ProviderError(ProviderErrorKind.MODEL_NOT_FOUND, problem) from None
