"""What reading an answer has in common, whichever API gives it. Pure: events go in, stream parts come out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from wakeful.contract.base import Wire
from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import StopReason
from wakeful.contract.streaming import StartPart, StopPart, StreamPart
from wakeful_activities.providers.shared.failures import Callee, cut_short, garbage, malformed
from wakeful_activities.providers.shared.sse import Event


class Read(Wire):
    """Something an API says. Hidden in errors: they are chained to ours, and what they would quote may hold the key."""

    model_config = ConfigDict(hide_input_in_errors=True)


R = TypeVar("R", bound=Read)


class Reader(ABC):
    """Reads one answer."""

    def __init__(self, callee: Callee, request_id: str | None) -> None:
        self._callee = callee
        self._request_id = request_id
        self._is_open = False
        self.stop: StopReason | None = None
        """Why the model stopped. Once it has said so the answer is whole, whatever becomes of its connection."""
        self.is_done = False
        """The last event has come; whatever else does is not part of the answer."""

    @abstractmethod
    def event(self, event: Event) -> Iterator[StreamPart]:
        """What one event of a stream adds."""

    @abstractmethod
    def whole(self, body: str) -> Iterator[StreamPart]:
        """The answer of a server that was asked to stream it and sent all of it at once."""

    def end(self) -> Iterator[StreamPart]:
        """The last part, when nothing more comes."""
        if self.stop is None:
            raise cut_short(self._callee)
        yield StopPart(self.stop)

    def _opened(self, model: str | None) -> Iterator[StreamPart]:
        if not self._is_open:
            self._is_open = True
            yield StartPart(model or self._callee.model, self._request_id)

    def _event(self, shape: type[R], data: str) -> R:
        return self._read(shape, data, malformed)

    def _body(self, shape: type[R], body: str) -> R:
        return self._read(shape, body, garbage)

    def _read(self, shape: type[R], text: str, failure: Callable[[Callee, str, str], ProviderError]) -> R:
        try:
            return shape.model_validate_json(text)
        except ValidationError as error:
            raise failure(self._callee, _problem(error), text) from error


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
