"""Pins of `wakeful.contract.streaming`: a heartbeat outlives the worker that sent it."""

from tests.contract.pinned.inference import DROPPED
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import USAGE
from wakeful.contract.messages import ThinkingBlock
from wakeful.contract.streaming import PartialCall, StreamCheckpoint

CALL = PartialCall(id="c1", name="look", arguments='{"at":')

PINS = (
    Pin(CALL, '{"id":"c1","name":"look","arguments":"{\\"at\\":"}'),
    Pin(PartialCall(id="c1", name="look", closed=True), '{"id":"c1","name":"look","arguments":"","closed":true}'),
    Pin(StreamCheckpoint(attempt=1, model="model-1"), '{"attempt":1,"model":"model-1","usage":{}}'),
    Pin(
        StreamCheckpoint(
            attempt=2,
            model="model-1",
            text="Hel",
            reasoning="Hm",
            thinking=(ThinkingBlock(thinking="Hm", signature="s1"),),
            calls=(CALL,),
            usage=USAGE,
            interruptions=(DROPPED,),
            broken="goaway",
        ),
        '{"attempt":2,"model":"model-1","text":"Hel","reasoning":"Hm","thinking":[{"type":"thinking","thinking":"Hm",'
        '"signature":"s1"}],"calls":[{"id":"c1","name":"look","arguments":"{\\"at\\":"}],"usage":{"prompt_tokens":10,'
        '"completion_tokens":2},"interruptions":[{"cause":"connection reset","plan":"synthesize_tool_use",'
        '"call_id":"c2","call_name":"look"}],"broken":"goaway"}',
    ),
)
