"""The models that a worker can call: their providers, prices and circuit breakers."""

from collections.abc import Mapping

from wakeful.authoring.provider import AnyProvider
from wakeful.contract.agents import ModelBinding, RetryPolicy
from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.registry.dependencies import Dependencies
from wakeful.registry.registry import Registry
from wakeful.telemetry import instruments, names
from wakeful.telemetry.log_fields import add_fields
from wakeful.telemetry.metrics import Metrics
from wakeful_activities.heartbeats import Heartbeats
from wakeful_activities.inference.answer import priced, with_estimate
from wakeful_activities.inference.attempt import Stream, call_provider
from wakeful_activities.inference.breakers import CircuitBreakers, LastFailure
from wakeful_activities.inference.chat_telemetry import provider_name
from wakeful_activities.inference.model_choice import model_key
from wakeful_activities.other_workers import Lacking


class ProviderMissing(Exception):
    """This worker does not have the provider of a model."""

    def __init__(self, lacking: Lacking) -> None:
        super().__init__(lacking.problem)
        self.lacking = lacking


class Models:
    """Models of the registry's providers and of the built-in ones."""

    def __init__(
        self,
        registry: Registry,
        built_in: Mapping[str, AnyProvider],
        breakers: CircuitBreakers | None = None,
        dependencies: Dependencies | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._metrics = metrics
        self._registry = registry
        self._built_in = built_in
        self._breakers = breakers or CircuitBreakers()
        self._dependencies = dependencies or Dependencies()

    async def call(
        self, model: ModelBinding, request: ModelRequest, policy: RetryPolicy, stream: Stream, beats: Heartbeats
    ) -> ModelResponse:
        """Call one model, report the outcome to its circuit breaker, and add the price.

        Raises:
            ProviderError: the call failed or was interrupted; `stream` has what arrived.
            ProviderMissing: this worker cannot call it.
        """
        provider, key = self._provider(model), model_key(model)
        stream.model = model
        add_fields(model=model.name)
        self._breakers.begin(key)
        try:
            return await self._called(provider, model, request, policy, stream, beats)
        finally:
            self._show_breaker(model)

    async def _called(
        self,
        provider: AnyProvider,
        model: ModelBinding,
        request: ModelRequest,
        policy: RetryPolicy,
        stream: Stream,
        beats: Heartbeats,
    ) -> ModelResponse:
        key = model_key(model)
        try:
            response = await call_provider(provider, model, request, policy, stream, beats)
        except ProviderError as error:
            if error.kind.transient:
                self._breakers.failed(key, error)
            else:
                self._breakers.released(key)
            raise
        except BaseException:
            self._breakers.released(key)
            raise
        self._breakers.succeeded(key)
        return self.priced(with_estimate(response, request), model)

    def _show_breaker(self, model: ModelBinding) -> None:
        if self._metrics is not None:
            labels = {names.PROVIDER: provider_name(model), names.REQUEST_MODEL: model.name}
            self._metrics.record(instruments.BREAKER, int(self._breakers.is_open(model_key(model))), labels)

    def check(self, model: ModelBinding) -> None:
        """Raise `ProviderMissing` if this worker cannot call the model."""
        self._provider(model)

    def wait(self, model: ModelBinding) -> float:
        """Seconds until the model's circuit breaker lets a call through."""
        return self._breakers.wait(model_key(model))

    def last_failure(self, model: ModelBinding) -> LastFailure | None:
        """How the model has failed on this worker, in any run, since it last answered."""
        return self._breakers.last_failure(model_key(model))

    def priced(self, response: ModelResponse, model: ModelBinding | None) -> ModelResponse:
        """The answer with its cost, over all attempts."""
        price = self._registry.price(model) if model is not None else None
        return response.model_copy(update={"usage": priced(response.usage, price)})

    def _provider(self, model: ModelBinding) -> AnyProvider:
        source = self._registry.provider(model) or self._built_in.get(model.provider)
        if source is None:
            known = ", ".join(sorted({*self._registry.providers, *self._built_in})) or "none"
            needed = f"model {model.id!r} needs provider {model.provider!r}, which this worker does not have"
            raise ProviderMissing(Lacking(f"provider {model.provider!r}", f"{needed}; known: {known}"))
        return self._dependencies.provider(source)
