"""Construct the providers that come with Wakeful. `wakeful.registry.content.BUILT_IN_PROVIDERS` lists them."""

import importlib
from collections.abc import Mapping
from typing import Protocol, Self

from wakeful.authoring.provider import StreamingProvider
from wakeful.registry.content import BUILT_IN_PROVIDERS


class BuiltInProvider(StreamingProvider, Protocol):
    """A provider that a worker configures from its environment and closes when it stops."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self: ...

    async def aclose(self) -> None: ...


def built_in_class(name: str) -> type[BuiltInProvider]:
    """The class of a built-in provider."""
    module, _, attribute = BUILT_IN_PROVIDERS[name].partition(":")
    provider: type[BuiltInProvider] = getattr(importlib.import_module(module), attribute)
    return provider


def built_in_providers(environ: Mapping[str, str]) -> dict[str, BuiltInProvider]:
    """Every built-in provider, configured by environment variables."""
    return {name: built_in_class(name).from_env(environ) for name in BUILT_IN_PROVIDERS}
