"""The transcript: append-only, identified by a chain of digests, with the source of each new entry.

After continue-as-new only the newest entries are here; `before` is the position of the first one, so that the chain of
digests continues unbroken.
"""

from dataclasses import dataclass, field

from wakeful.contract.base import json_bytes, replace
from wakeful.contract.inference import Rewind, Source, TranscriptRef, TranscriptTail
from wakeful.contract.messages import Message, Role
from wakeful.contract.transcript import EMPTY_DIGEST, chained


@dataclass(frozen=True)
class TranscriptPosition:
    """A position in a transcript: how many entries precede it, and their digest."""

    length: int = 0
    digest: str = EMPTY_DIGEST


@dataclass(frozen=True)
class Transcript:
    """`unsent` has the sources of the entries that no inference has been given yet.

    `sent_last` has those that the newest inference was given, in case it is never scheduled.
    """

    messages: tuple[Message, ...] = ()
    digest: str = EMPTY_DIGEST
    unsent: tuple[Source, ...] = ()
    sent_last: tuple[Source, ...] = field(default=(), compare=False)
    before: TranscriptPosition = field(default_factory=TranscriptPosition)

    @property
    def length(self) -> int:
        return self.before.length + len(self.messages)

    @property
    def ref(self) -> TranscriptRef:
        return TranscriptRef(length=self.length, digest=self.digest)

    @property
    def position(self) -> TranscriptPosition:
        """The end."""
        return TranscriptPosition(self.length, self.digest)

    def position_at(self, length: int) -> TranscriptPosition | None:
        """The position after this many entries; None if an earlier execution has it, or there are fewer entries."""
        if not self.before.length <= length <= self.length:
            return None
        digest = self.before.digest
        for message in self.messages[: length - self.before.length]:
            digest = chained(digest, message)
        return TranscriptPosition(length, digest)

    def appending(self, message: Message, source: Source) -> "Transcript":
        return replace(
            self,
            messages=(*self.messages, message),
            digest=chained(self.digest, message),
            unsent=(*self.unsent, source),
        )

    def sent(self) -> "Transcript":
        return replace(self, unsent=(), sent_last=self.unsent)

    def not_sent(self) -> "Transcript":
        """The newest inference was never scheduled: the next one is given its entries, too."""
        return replace(self, unsent=(*self.sent_last, *self.unsent), sent_last=())

    def rewound(self, position: TranscriptPosition) -> "Transcript":
        """Without the entries after `position`; the next inference input records the rewind."""
        if position.length == self.length:
            return self
        kept = self.messages[: max(0, position.length - self.before.length)]
        before = min(self.before, position, key=lambda place: place.length)
        unsent = (*self.unsent, Rewind(rewind=position.length))
        return Transcript(messages=kept, digest=position.digest, unsent=unsent, before=before)

    def tail(self, budget: int, *, at_least: int = 0) -> "Transcript":
        """The newest entries that fit `budget` bytes, never separating a tool call from its result.

        Entries that no inference has been given yet are kept whatever their size: nothing else records their source.
        """
        at_least = max(at_least, len(self.unsent))
        total, start, size = len(self.messages), len(self.messages), 0
        for place in reversed(range(total)):
            size += json_bytes(self.messages[place])
            if size > budget and total - start >= at_least:
                break
            if self.messages[place].role is not Role.TOOL:
                start = place
        # Results may come first, if the message with their calls is archived; after a rollback, there are more sources
        # than entries.
        start = max(0, min(start, total - at_least))
        before = self.position_at(self.before.length + start)
        assert before is not None  # it is one of its own positions
        return Transcript(messages=self.messages[start:], digest=self.digest, before=before)


def transcript_of(tail: TranscriptTail) -> Transcript:
    """A transcript that continues what was read back."""
    transcript = Transcript(digest=tail.digest, before=TranscriptPosition(tail.length, tail.digest))
    for message in tail.messages:
        transcript = transcript.appending(message, message.id)
    return replace(transcript, unsent=())
