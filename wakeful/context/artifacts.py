"""Long tool results, as a request shows them: the beginning, and a note on what is missing. History keeps the whole."""

from wakeful.contract.messages import ContentBlock, Message, Role, TextBlock

MAX_CHARS = 1600
MAX_LINES = 24

_CHARS_PER_TOKEN = 4
_LONG_TOKENS = 2048


def shown(message: Message) -> Message:
    """The message as a request shows it; the very same object unless it is a tool's result with a long text."""
    if message.role is not Role.TOOL or not any(map(_is_long, message.content)):
        return message
    return message.model_copy(update={"content": tuple(map(_cut, message.content))})


def _cut(block: ContentBlock) -> ContentBlock:
    if not isinstance(block, TextBlock) or not _is_long(block):
        return block
    preview = "\n".join(block.text[:MAX_CHARS].split("\n")[:MAX_LINES])
    tokens = len(block.text) // _CHARS_PER_TOKEN
    note = f"[Content compacted: original ~{tokens} tokens, showing first {len(preview)} chars]"
    return TextBlock(text=f"{preview}\n\n{note}")


def _is_long(block: ContentBlock) -> bool:
    return isinstance(block, TextBlock) and len(block.text) // _CHARS_PER_TOKEN >= _LONG_TOKENS
