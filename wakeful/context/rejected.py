"""Content that a provider rejects: requests leave it out, with a note to the model. The conversation keeps it.

One rejected picture or message would otherwise end every later run of its thread. Which content it is, is found out by
requests that leave out more and more; the answer that comes then records what it had to do without.
"""

from collections.abc import Iterator, Mapping, Sequence

from wakeful.contract.messages import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    LeftOut,
    Message,
    Role,
    TextBlock,
    VideoBlock,
)
from wakeful.contract.transcript import EMPTY_DIGEST, chained

MESSAGE_NOTE = (
    "[The content of this message was left out: the provider rejected it. If it matters, say that you cannot read it.]"
)
_MEDIA = (ImageBlock, DocumentBlock, AudioBlock, VideoBlock)


def block_note(block: ContentBlock, problem: str) -> str:
    """What the model reads in place of a block."""
    kind = block.type.replace("_", " ")
    return f"[A block of type {kind!r} was left out: {problem}. If it matters, say so, and ask for it as text.]"


def without_rejected(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages without what their answers had to do without."""
    return without(messages, [each for message in messages for each in message.left_out])


def without(messages: Sequence[Message], left: Sequence[LeftOut]) -> tuple[Message, ...]:
    """The messages without this content, and with notes in its place."""
    by_content = {each.content: each for each in left}
    return tuple(_without(message, by_content) for message in messages) if left else tuple(messages)


def reductions(messages: Sequence[Message]) -> Iterator[tuple[LeftOut, ...]]:
    """What to leave out of a request that the provider has rejected: new media, all media, then also new messages.

    Every message before the newest answer has been accepted once, though perhaps by another model. After it, what the
    user has said last is always sent: without it there is nothing to answer.
    """
    answered = max((at for at, message in enumerate(messages) if message.role is Role.ASSISTANT), default=-1)
    new, media = _media(messages[answered + 1 :]), _media(messages)
    if new:
        yield new
    if media != new:
        yield media
    suspects = [message for message in messages[answered + 1 :] if message.role in (Role.USER, Role.TOOL)]
    newest = max((at for at, message in enumerate(suspects) if message.role is Role.USER), default=-1)
    whole = tuple(LeftOut(content=_key(message)) for at, message in enumerate(suspects) if at != newest)
    if whole:
        yield (*media, *whole)


def _media(messages: Sequence[Message]) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(content=_key(message), media_only=True)
        for message in messages
        if any(isinstance(block, _MEDIA) for block in message.content)
    )


def _without(message: Message, left: Mapping[str, LeftOut]) -> Message:
    found = left.get(_key(message))
    if found is None:
        return message
    if not found.media_only:
        return message.model_copy(update={"content": (TextBlock(text=MESSAGE_NOTE),)})
    content = tuple(
        TextBlock(text=block_note(block, "the provider rejected it")) if isinstance(block, _MEDIA) else block
        for block in message.content
    )
    return message.model_copy(update={"content": content})


def _key(message: Message) -> str:
    """What identifies a message: history does not record every message's id."""
    return message.tool_call_id or chained(EMPTY_DIGEST, message)
