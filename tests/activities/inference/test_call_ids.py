"""Tool-call ids are made unique in their thread where they enter, since providers repeat them or leave them out."""

import pytest

from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful_activities.inference.activity import with_unique_call_ids


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["", ""], ["call_2", "call_3"]),
        (["old", "old_2"], ["old_2", "old_2_2"]),
        ([], []),
    ],
)
def test_no_id_is_used_twice_in_a_thread(given: list[str], made: list[str]) -> None:
    response = ModelResponse(model="m", tool_calls=tuple(ToolCall(id=id, name="t") for id in given))
    assert [call.id for call in with_unique_call_ids(response, {"old"}).tool_calls] == made
