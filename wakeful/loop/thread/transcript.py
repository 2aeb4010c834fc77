"""The conversation as the loop keeps it: append-only, named by a chain of digests, with the place of each new entry.

After a thread has continued as new, only the newest entries are here; `before` says how much stands in earlier
executions and what its digest is, so that the chain goes on unbroken.
"""

from dataclasses import dataclass, field

from wakeful.contract.inference import Rewind, Source, TranscriptRef, TranscriptTail
from wakeful.contract.messages import Message, Role
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.loop.machine.replace import replace


@dataclass(frozen=True)
class Mark:
    """A place in a transcript: how many entries stand before it, and what their digest is."""

    length: int = 0
    digest: str = EMPTY_DIGEST


@dataclass(frozen=True)
class Transcript:
    """`unsent` says where the entries stand that no inference has been told of yet."""

    messages: tuple[Message, ...] = ()
    digest: str = EMPTY_DIGEST
    unsent: tuple[Source, ...] = ()
    before: Mark = field(default_factory=Mark)

    @property
    def length(self) -> int:
        return self.before.length + len(self.messages)

    @property
    def ref(self) -> TranscriptRef:
        return TranscriptRef(length=self.length, digest=self.digest)

    @property
    def mark(self) -> Mark:
        return Mark(self.length, self.digest)

    def mark_at(self, length: int) -> Mark | None:
        """The place after so many entries, unless it stands in an earlier execution or is still to come."""
        if not self.before.length <= length <= self.length:
            return None
        digest = self.before.digest
        for message in self.messages[: length - self.before.length]:
            digest = chained(digest, message)
        return Mark(length, digest)

    def appending(self, message: Message, source: Source) -> "Transcript":
        return replace(
            self,
            messages=(*self.messages, message),
            digest=chained(self.digest, message),
            unsent=(*self.unsent, source),
        )

    def sent(self) -> "Transcript":
        return replace(self, unsent=())

    def rewound(self, mark: Mark) -> "Transcript":
        """Without the entries after `mark`; the next inference is told so."""
        if mark.length == self.length:
            return self
        kept = self.messages[: max(0, mark.length - self.before.length)]
        before = min(self.before, mark, key=lambda place: place.length)
        unsent = (*self.unsent, Rewind(rewind=mark.length))
        return Transcript(messages=kept, digest=mark.digest, unsent=unsent, before=before)

    def tail(self, budget: int, *, at_least: int = 0) -> "Transcript":
        """The newest entries that fit `budget` bytes, from a place where no call is parted from its result.

        What no inference was told of yet stays whatever its size: nothing else says where it stands.
        """
        at_least = max(at_least, len(self.unsent))
        total, start, size = len(self.messages), len(self.messages), 0
        for place in reversed(range(total)):
            size += len(self.messages[place].model_dump_json())
            if size > budget and total - start >= at_least:
                break
            if self.messages[place].role is not Role.TOOL:
                start = place
        before = self.mark_at(self.before.length + start)
        assert before is not None  # it is one of its own places
        return Transcript(messages=self.messages[start:], digest=self.digest, before=before)


def transcript_of(tail: TranscriptTail) -> Transcript:
    """A transcript that goes on from what was read back."""
    transcript = Transcript(digest=tail.digest, before=Mark(tail.length, tail.digest))
    for message in tail.messages:
        transcript = transcript.appending(message, message.id)
    return transcript.sent()
