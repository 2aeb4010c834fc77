"""Pins of `wakeful.contract.stopping`."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.stopping import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopOnTool,
    Timeout,
    TokenBudget,
)

PINS = (
    Pin(MaxRounds(rounds=3), '{"type":"max_rounds","rounds":3}'),
    Pin(Timeout(seconds=1.5), '{"type":"timeout","seconds":1.5}'),
    Pin(TokenBudget(max_total=10), '{"type":"token_budget","max_total":10}'),
    Pin(ConsecutiveErrors(max=2), '{"type":"consecutive_errors","max":2}'),
    Pin(StopOnTool(tool_name="pay"), '{"type":"stop_on_tool","tool_name":"pay"}'),
    Pin(ContentMatch(pattern="DONE$"), '{"type":"content_match","pattern":"DONE$"}'),
    Pin(LoopDetection(window=3), '{"type":"loop_detection","window":3}'),
)
