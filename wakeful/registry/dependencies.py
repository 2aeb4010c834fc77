"""The value of the registry's lifespan in one worker process, and the providers that are made from it."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from wakeful.authoring.lifespan import Lifespan, first_parameter, fits, type_name
from wakeful.authoring.provider import AnyProvider, ProviderFactory, is_factory
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry


class Dependencies:
    """What the code of users receives in one worker. Without a lifespan, the value is None."""

    def __init__(self, lifespan: Lifespan | None = None) -> None:
        self._lifespan = lifespan
        self._providers: dict[int, tuple[ProviderFactory, AnyProvider]] = {}
        self.value: Any = None

    @contextlib.asynccontextmanager
    async def running(self, registry: Registry) -> AsyncIterator[None]:
        """Enter the lifespan, check its value against what the registry's code asks for, and exit it afterwards.

        Raises:
            ConfigurationError: the lifespan raised, its value has another type, or a provider could not be made.
        """
        async with contextlib.AsyncExitStack() as stack:
            if self._lifespan is not None:
                self.value = await self._enter(stack, self._lifespan)
            if problems := [*self._type_problems(registry), *self._provider_problems(registry)]:
                raise ConfigurationError(problems)
            yield

    def provider(self, source: AnyProvider | ProviderFactory) -> AnyProvider:
        """The provider, or the one that this factory makes: once per worker."""
        if not is_factory(source):
            return source
        if id(source) not in self._providers:
            # With the factory itself, so that no later one gets the same `id()`.
            self._providers[id(source)] = source, source(self.value)
        return self._providers[id(source)][1]

    async def _enter(self, stack: contextlib.AsyncExitStack, lifespan: Lifespan) -> Any:
        name = getattr(lifespan, "__name__", None) or repr(lifespan)
        try:
            context = lifespan()
            if not isinstance(context, AbstractAsyncContextManager):
                problem = f"it returned a {type(context).__name__}, which is no async context manager"
                raise TypeError(f"{problem}: decorate the function with @contextlib.asynccontextmanager")
            return await stack.enter_async_context(context)
        except Exception as error:
            problem = f"the lifespan {name!r} of the registry raised {type(error).__name__}: {error}"
            raise ConfigurationError([f"{problem}. The worker does not start without its value"]) from error

    def _type_problems(self, registry: Registry) -> Iterator[str]:
        for what, asked in registry.asked_types():
            if not fits(self.value, asked):
                yield (
                    f"{what} takes a {type_name(asked)}, and the lifespan yields a {type(self.value).__name__}: change "
                    "one of them"
                )

    def _provider_problems(self, registry: Registry) -> Iterator[str]:
        for name, source in registry.provider_factories():
            asked = first_parameter(source)
            if asked not in (None, Any, object) and not fits(self.value, asked):
                problem = f"takes a {type_name(asked)}, and the lifespan yields a {type(self.value).__name__}"
                yield f"the provider of {name!r} {problem}: change one of them"
                continue
            try:
                self.provider(source)
            except Exception as error:
                yield f"the provider of {name!r} could not be made: {type(error).__name__}: {error}"
