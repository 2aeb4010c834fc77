"""The conversation as the loop keeps it: append-only, named by a chain of digests, with the place of each new entry."""

from dataclasses import dataclass

from wakeful.contract.inference import Source, TranscriptRef
from wakeful.contract.messages import Message
from wakeful.contract.transcript import EMPTY_DIGEST, chained


@dataclass(frozen=True, slots=True)
class Transcript:
    """`unsent` says where the entries stand that no inference has been told of yet."""

    messages: tuple[Message, ...] = ()
    digest: str = EMPTY_DIGEST
    unsent: tuple[Source, ...] = ()

    @property
    def ref(self) -> TranscriptRef:
        return TranscriptRef(length=len(self.messages), digest=self.digest)

    def appending(self, message: Message, source: Source) -> "Transcript":
        return Transcript(
            messages=(*self.messages, message),
            digest=chained(self.digest, message),
            unsent=(*self.unsent, source),
        )

    def sent(self) -> "Transcript":
        return Transcript(messages=self.messages, digest=self.digest)
