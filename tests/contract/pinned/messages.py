"""Pins of `wakeful.contract.messages`."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    ImageBlock,
    InputMessage,
    Message,
    MessageMetadata,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    VideoBlock,
    Visibility,
)

FILE = UrlSource(url="https://example.com/a")
BYTES = Base64Source(media_type="image/png", data="aGk=")
CALL = ToolCall(id="c1", name="look", arguments={"at": "Paris"})
METADATA = MessageMetadata(run_id="r1", step_index=1)
ASKED = Message(id="r1:1", role=Role.USER, content=(TextBlock(text="Hello"),))

PINS = (
    Pin(BYTES, '{"type":"base64","media_type":"image/png","data":"aGk="}'),
    Pin(FILE, '{"type":"url","url":"https://example.com/a"}'),
    Pin(TextBlock(text="Hello"), '{"type":"text","text":"Hello"}'),
    Pin(ImageBlock(source=BYTES), '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}'),
    Pin(
        DocumentBlock(source=FILE, title="Report"),
        '{"type":"document","source":{"type":"url","url":"https://example.com/a"},"title":"Report"}',
    ),
    Pin(DocumentBlock(source=FILE), '{"type":"document","source":{"type":"url","url":"https://example.com/a"}}'),
    Pin(AudioBlock(source=FILE), '{"type":"audio","source":{"type":"url","url":"https://example.com/a"}}'),
    Pin(VideoBlock(source=FILE), '{"type":"video","source":{"type":"url","url":"https://example.com/a"}}'),
    Pin(
        ToolUseBlock(id="c1", name="look", input={"at": "Paris"}),
        '{"type":"tool_use","id":"c1","name":"look","input":{"at":"Paris"}}',
    ),
    Pin(
        ToolResultBlock(tool_use_id="c1", content="sunny"),
        '{"type":"tool_result","tool_use_id":"c1","content":"sunny"}',
    ),
    Pin(
        ToolResultBlock(tool_use_id="c1", content="no such city", is_error=True),
        '{"type":"tool_result","tool_use_id":"c1","content":"no such city","is_error":true}',
    ),
    Pin(ThinkingBlock(thinking="Hm", signature="s"), '{"type":"thinking","thinking":"Hm","signature":"s"}'),
    Pin(ThinkingBlock(thinking="Hm"), '{"type":"thinking","thinking":"Hm"}'),
    Pin(CALL, '{"id":"c1","name":"look","arguments":{"at":"Paris"}}'),
    Pin(ToolCall(id="c1", name="look"), '{"id":"c1","name":"look","arguments":null}'),
    Pin(METADATA, '{"run_id":"r1","step_index":1}'),
    Pin(ASKED, '{"id":"r1:1","role":"user","content":[{"type":"text","text":"Hello"}],"visibility":"all"}'),
    Pin(
        Message(id="r1:2", role=Role.ASSISTANT, tool_calls=(CALL,), metadata=METADATA),
        '{"id":"r1:2","role":"assistant","content":[],"tool_calls":[{"id":"c1","name":"look",'
        '"arguments":{"at":"Paris"}}],"visibility":"all","metadata":{"run_id":"r1","step_index":1}}',
    ),
    Pin(
        Message(id="r1:3", role=Role.TOOL, content=(TextBlock(text="sunny"),), tool_call_id="c1", metadata=METADATA),
        '{"id":"r1:3","role":"tool","content":[{"type":"text","text":"sunny"}],"tool_call_id":"c1",'
        '"visibility":"all","metadata":{"run_id":"r1","step_index":1}}',
    ),
    Pin(
        Message(id="s1", role=Role.SYSTEM, visibility=Visibility.INTERNAL),
        '{"id":"s1","role":"system","content":[],"visibility":"internal"}',
    ),
    Pin(InputMessage(content="Hello"), '{"content":"Hello","role":"user","visibility":"all"}'),
    Pin(
        InputMessage(content=(TextBlock(text="Hi"),), role=Role.SYSTEM, id="m1", visibility=Visibility.INTERNAL),
        '{"content":[{"type":"text","text":"Hi"}],"role":"system","id":"m1","visibility":"internal"}',
    ),
)
