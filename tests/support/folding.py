"""What a live reader ends with: deltas concatenated as `docs/watching.md` says."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from wakeful.contract.events import (
    EventRecord,
    InferenceComplete,
    ReasoningDelta,
    ReasoningEncryptedValue,
    StreamReset,
    TextDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
)


@dataclass(frozen=True)
class Answered:
    """One answer of a model, concatenated."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    """Ids, names and arguments."""
    signatures: tuple[str, ...] = ()


@dataclass
class Folding:
    """Folds the records of one thread, over any number of connections."""

    answers: list[Answered] = field(default_factory=list)
    after: int = 0
    resets: list[str] = field(default_factory=list)
    durable: list[EventRecord] = field(default_factory=list)
    _reasoning: list[tuple[str, bool]] = field(default_factory=list)
    _text: list[tuple[str, bool]] = field(default_factory=list)
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    _signatures: list[tuple[str, bool]] = field(default_factory=list)

    def take(self, record: EventRecord) -> None:
        self.after = record.seq
        if not record.provisional:
            self.durable.append(record)
        match record.event:
            case StreamReset(reason=reason):
                self.resets.append(reason)
                self._drop()
            case ReasoningDelta(delta=delta):
                self._reasoning.append((delta, record.provisional))
            case ReasoningEncryptedValue(encrypted_value=signature):
                self._signatures.append((signature, record.provisional))
            case TextDelta(delta=delta):
                self._text.append((delta, record.provisional))
            case ToolCallStart(id=id, name=name):
                self._calls[id] = (name, "")
            case ToolCallDelta(id=id, args_delta=delta):
                name, arguments = self._calls[id]
                self._calls[id] = (name, arguments + delta)
            case ToolCallReady():
                self._confirm()
            case InferenceComplete():
                calls = tuple((id, *call) for id, call in self._calls.items())
                signatures = tuple(signature for signature, _ in self._signatures)
                self.answers.append(Answered(_joined(self._reasoning), _joined(self._text), calls, signatures))
                self._drop()
            case _:
                pass

    def reconnecting(self) -> None:
        """Drop the provisional part of the streaming answer, which comes again from its start."""
        self._reasoning = [piece for piece in self._reasoning if not piece[1]]
        self._text = [piece for piece in self._text if not piece[1]]
        self._signatures = [piece for piece in self._signatures if not piece[1]]

    def _confirm(self) -> None:
        """A record that is not a delta says that history has the deltas before it."""
        self._reasoning = [(delta, False) for delta, _ in self._reasoning]
        self._text = [(delta, False) for delta, _ in self._text]
        self._signatures = [(signature, False) for signature, _ in self._signatures]

    def _drop(self) -> None:
        self._reasoning, self._text, self._calls, self._signatures = [], [], {}, []


def _joined(pieces: list[tuple[str, bool]]) -> str:
    return "".join(delta for delta, _ in pieces)


def folded(records: Iterable[EventRecord]) -> Folding:
    folding = Folding()
    for record in records:
        folding.take(record)
    return folding
