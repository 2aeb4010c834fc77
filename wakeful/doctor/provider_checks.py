"""Model providers: is each reachable, is its key accepted, and does it know the models? No model is called."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Protocol, runtime_checkable

from wakeful.authoring.provider import is_factory
from wakeful.client.diagnosis.wording import clause, listed
from wakeful.contract.agents import ModelBinding
from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.doctor.report import SetupCheck, SetupProblem, error, skipped, warning
from wakeful.registry.content import BUILT_IN_PROVIDERS
from wakeful.registry.registry import Registry, default_model
from wakeful.telemetry.log_causes import cause_of
from wakeful_activities.providers.built_in import built_in_class

TIMEOUT_SECONDS = 20.0
"""How long a provider may take to say which models it knows."""


@runtime_checkable
class CheckedProvider(Protocol):
    """A provider that can say which models it knows, without calling one."""

    async def unknown_models(self, names: Sequence[str]) -> tuple[str, ...] | None: ...


async def check_providers(registry: Registry | None, environ: Mapping[str, str]) -> list[SetupCheck]:
    """A check of each provider of the registry's models; without a registry, of the one that the environment has."""
    models = _models(registry, environ)
    if not models:
        return [skipped("provider", "no API key is set, and no registry is given with --app")]
    return list(await asyncio.gather(*(_check(name, models[name], registry, environ) for name in sorted(models))))


def _models(registry: Registry | None, environ: Mapping[str, str]) -> Mapping[str, list[ModelBinding]]:
    """The models, by the name of their provider."""
    if registry is None:
        source = default_model(environ=environ)
        if not isinstance(source, str):
            return {}
        provider, _, name = source.partition("/")
        return {provider: [ModelBinding(id=name, provider=provider, name=name)]}
    by_provider = defaultdict[str, list[ModelBinding]](list)
    for model_id in registry.models:
        binding = registry.binding(model_id)
        by_provider[binding.provider].append(binding)
    return by_provider


async def _check(
    name: str, models: Sequence[ModelBinding], registry: Registry | None, environ: Mapping[str, str]
) -> SetupCheck:
    title = f"provider {name}"
    source = registry.provider(models[0]) if registry is not None else None
    if source is not None and is_factory(source):
        return skipped(title, "the registry's lifespan makes it, which only a worker enters")
    names = sorted({model.name for model in models})
    if source is not None:
        if not isinstance(source, CheckedProvider):
            return skipped(title, "a provider of your own, without a method unknown_models")
        return await _ask(title, source, names, shown="it")  # its `repr` may have its key
    if name not in BUILT_IN_PROVIDERS:
        known = ", ".join(sorted({*BUILT_IN_PROVIDERS, *(registry.providers if registry else ())}))
        problem = error(
            f"Model {names[0]!r} needs provider {name!r}, which no worker with this registry has.",
            f"Register it, or use one of: {known}.",
            name,
        )
        return SetupCheck(name=title, problems=(problem,))
    try:
        provider = built_in_class(name).from_env(environ)
    except ConfigurationError as wrong:
        problem = error(f"Provider {name!r} cannot be used: {clause(str(wrong))}.", "Correct its variables.", name)
        return SetupCheck(name=title, problems=(problem,))
    async with aclosing(provider):
        if not isinstance(provider, CheckedProvider):
            return skipped(title, f"it cannot list models; they are called first by a run: {listed(names)}")
        return await _ask(title, provider, names, shown=repr(provider))


async def _ask(title: str, provider: CheckedProvider, models: Sequence[str], *, shown: str) -> SetupCheck:
    name = title.partition(" ")[2]
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            unknown = await provider.unknown_models(models)
    except ProviderError as failure:
        return SetupCheck(name=title, problems=(_problem(name, failure),))
    except TimeoutError:
        late = ProviderError(ProviderErrorKind.TIMEOUT, f"no answer within {TIMEOUT_SECONDS:g} s")
        return SetupCheck(name=title, problems=(_problem(name, late),))
    except Exception as failure:  # a bug in a provider of the user's own must not end the report
        what = f"Provider {name!r} raised an error when it was asked for its models: {cause_of(failure)}."
        next = "Its method unknown_models has to raise ProviderError; its calls may fail in the same way."
        return SetupCheck(name=title, problems=(error(what, next, name),))
    if unknown is None:
        return SetupCheck(name=title, summary=f"{shown} answers, and does not list its models")
    problems = [
        error(
            f"Provider {name!r} does not know model {model!r}: its runs end with `model_not_found`.",
            "Correct the model's name in the registry, or the base URL; the key may lack access to the model.",
            model,
        )
        for model in unknown
    ]
    return SetupCheck(name=title, summary=f"{shown} knows {listed(list(models))}", problems=tuple(problems))


def _problem(name: str, failure: ProviderError) -> SetupProblem:
    reason = clause(str(failure))
    match failure.kind:
        case ProviderErrorKind.UNAUTHORIZED:
            what = f"Provider {name!r} does not accept the API key: {reason}."
            return error(what, "Set the key where the workers run, and restart them.", name)
        case ProviderErrorKind.RATE_LIMITED | ProviderErrorKind.OVERLOADED:
            return warning(
                f"Provider {name!r} is reachable, and refuses calls: {reason}.", "Wait, or ask for more.", name
            )
        case _:
            what = f"Provider {name!r} cannot be reached from here: {reason}."
            return error(what, "Check the base URL, DNS, proxy and firewall of this machine and of the workers.", name)
