"""What the readers of all APIs have in common. Pure: events go in, stream parts come out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from wakeful.contract.base import Wire
from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import StopReason
from wakeful.contract.streaming import StartPart, StopPart, StreamPart
from wakeful_activities.providers.shared.failures import Endpoint, ended_early, malformed_body, malformed_event
from wakeful_activities.providers.shared.sse import Event


class ApiModel(Wire):
    """A type of an API's JSON. Errors do not show the input: they are chained to ours, and it may contain the key."""

    model_config = ConfigDict(hide_input_in_errors=True)


R = TypeVar("R", bound=ApiModel)


class Reader(ABC):
    """Reads one answer."""

    def __init__(self, endpoint: Endpoint, request_id: str | None) -> None:
        self._endpoint = endpoint
        self._request_id = request_id
        self._is_open = False
        self.stop: StopReason | None = None
        """Why the model stopped. Once it is set, the answer is complete, even if the connection is lost."""
        self.is_done = False
        """The last event has arrived; what follows is not part of the answer."""

    @abstractmethod
    def read_event(self, event: Event) -> Iterator[StreamPart]:
        """The parts that one event of a stream adds."""

    @abstractmethod
    def read_body(self, body: str) -> Iterator[StreamPart]:
        """The parts of an answer that a server sent at once, although it was asked to stream."""

    def finish(self) -> Iterator[StreamPart]:
        """The last part, at the end of the stream."""
        if self.stop is None:
            raise ended_early(self._endpoint)
        yield StopPart(self.stop)

    def _opened(self, model: str | None) -> Iterator[StreamPart]:
        if not self._is_open:
            self._is_open = True
            yield StartPart(model or self._endpoint.model, self._request_id)

    def _parse_event(self, shape: type[R], data: str) -> R:
        return self._parse(shape, data, malformed_event)

    def _parse_body(self, shape: type[R], body: str) -> R:
        return self._parse(shape, body, malformed_body)

    def _parse(self, shape: type[R], text: str, failure: Callable[[Endpoint, str, str], ProviderError]) -> R:
        try:
            return shape.model_validate_json(text)
        except ValidationError as error:
            raise failure(self._endpoint, _problem(error), text) from error


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
