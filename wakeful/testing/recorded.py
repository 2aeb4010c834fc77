"""`RecordedModel`: replays a real model's answers from a file, and records them on request."""

import json
import os
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from wakeful.authoring.provider import AnyProvider, streams
from wakeful.authoring.scripted import REMEMBERED
from wakeful.authoring.unexpected_call import UnexpectedModelCall, shown_conversation
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful.testing.comparable_request import comparable, difference
from wakeful.testing.recordings import Recording, Recordings
from wakeful.testing.redaction import Redaction

VARIABLE = "WAKEFUL_RECORD"
"""Set it to record the answers that a file does not have."""


class RecordedModel:
    """Answers as a real model has answered the same request before, part by part.

    Two requests are the same if the model would read the same: ids of messages and calls do not count. A request that
    is not in the file fails its run, and is not retried, unless answers are being recorded.

    Args:
        path: the file, which is readable JSON; commit it with your tests.
        live: the provider that is recorded, such as `OpenAIResponses(api_key=os.environ.get("OPENAI_API_KEY"))`.
        record: call `live` for requests that are not in the file, and add its answers; by default, if the environment
            variable `WAKEFUL_RECORD` is set. Delete the file to record everything again.
        secrets: texts that must not reach the file, in addition to the values of environment variables whose names
            contain KEY, TOKEN, SECRET or PASSWORD.

    Raises:
        ConfigurationError: answers are to be recorded, and `live` is missing; or the file cannot be read.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        live: AnyProvider | None = None,
        record: bool | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        is_recording = bool(os.environ.get(VARIABLE)) if record is None else record
        if is_recording and live is None:
            raise ConfigurationError([f"{str(path)!r} cannot be recorded: pass `live`, the provider to record"])
        self._live = live if is_recording else None
        self._recordings = Recordings(Path(path))
        self._redaction = Redaction.of(os.environ, secrets)
        self._requests: deque[ModelRequest] = deque(maxlen=REMEMBERED)
        self._unexpected: deque[UnexpectedModelCall] = deque(maxlen=REMEMBERED)

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """What the model was sent in this process, the newest last; the oldest of many are forgotten."""
        return tuple(self._requests)

    @property
    def unexpected(self) -> tuple[UnexpectedModelCall, ...]:
        """The requests of this process that are not in the file."""
        return tuple(self._unexpected)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """Replay or record an answer.

        Raises:
            UnexpectedModelCall: the file does not have it.
            ProviderError: the provider that is recorded failed.
        """
        self._requests.append(request)
        asked = self._redaction.json(comparable(request))
        recording = self._recordings.find(asked)
        if recording is not None:
            for part in recording.answer:
                yield part
        elif self._live is not None:
            answer: list[StreamPart] = []
            async for part in _parts(self._live, request):
                answer.append(part)
                yield part
            self._recordings.add(Recording.of(asked, self._redaction.parts(answer)))
        else:
            error = UnexpectedModelCall(f"{self._missing(asked)}\n{shown_conversation(request)}")
            self._unexpected.append(error)
            raise error

    def _missing(self, asked: dict[str, object]) -> str:
        head = (
            f"{str(self._recordings.path)!r} has no answer to this request: record it with {VARIABLE}=1, or delete the "
            "file and record everything again"
        )
        nearest = self._recordings.nearest(asked)
        return f"{head}\nthe file has no recordings" if nearest is None else f"{head}\n{difference(nearest, asked)}"


async def _parts(provider: AnyProvider, request: ModelRequest) -> AsyncIterator[StreamPart]:
    if streams(provider):
        async for part in provider.stream(request):
            yield part
    else:
        for part in _as_parts(await provider.complete(request)):
            yield part


def _as_parts(response: ModelResponse) -> list[StreamPart]:
    """A whole answer as a stream."""
    parts: list[StreamPart] = [StartPart(response.model, response.request_id)]
    parts += [ReasoningPart(block.thinking, block.signature) for block in response.thinking]
    parts += [ReasoningPart(response.reasoning)] if response.reasoning else []
    parts += [TextPart(response.text)] if response.text else []
    for index, call in enumerate(response.tool_calls):
        arguments = "" if call.arguments is None else json.dumps(call.arguments, ensure_ascii=False)
        parts += [CallStartPart(index, call.id, call.name), CallArgumentsPart(index, arguments), CallEndPart(index)]
    return [*parts, UsagePart(response.usage), StopPart(response.stop_reason)]
