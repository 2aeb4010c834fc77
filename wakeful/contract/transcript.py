"""The chain of digests that identifies a transcript, so that a worker can prove that a rebuilt one is complete."""

import hashlib

from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ContentBlock, Message, MessageMetadata, Role, TextBlock, ThinkingBlock
from wakeful.contract.tools import ToolResult

EMPTY_DIGEST = ""
_SEEN_BY_THE_MODEL = {"role", "content", "tool_calls", "tool_call_id"}


def chained(digest: str, message: Message) -> str:
    """The digest of a transcript after `message` is appended; it covers only what the model sees."""
    seen = message.model_dump_json(include=_SEEN_BY_THE_MODEL)
    return hashlib.sha256(f"{digest}\n{seen}".encode()).hexdigest()[:32]


def tool_message(
    call_id: str,
    result: ToolResult,
    *,
    id: str = "",
    metadata: MessageMetadata | None = None,
    decisions: tuple[AppliedDecision, ...] = (),
) -> Message:
    """The transcript entry of a tool result."""
    content = (TextBlock(text=result.text), *result.media)
    return Message(id=id, role=Role.TOOL, content=content, tool_call_id=call_id, metadata=metadata, decisions=decisions)


def assistant_message(response: ModelResponse, *, id: str = "", metadata: MessageMetadata | None = None) -> Message:
    """The transcript entry of a model's answer."""
    blocks: list[ContentBlock] = [*response.thinking]
    if response.reasoning:
        blocks.append(ThinkingBlock(thinking=response.reasoning))
    if response.text:
        blocks.append(TextBlock(text=response.text))
    return Message(
        id=id,
        role=Role.ASSISTANT,
        content=(*blocks, *response.media),
        tool_calls=response.tool_calls,
        metadata=metadata,
        left_out=response.left_out,
        remote=response.remote,
    )
