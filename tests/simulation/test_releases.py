"""A replay on a later release may add to the inputs of commands, and changes nothing that history has."""

import base64
import json
import zlib

import pytest

from tests.simulation.releases import is_same_input


def resolving(agent_id: str, revision: int) -> bytes:
    return f'{{"agent_id":"{agent_id}","revision":{revision}}}'.encode()


def continuing(format: int, before: object) -> bytes:
    compressed = base64.b64encode(zlib.compress(json.dumps(before).encode())).decode()
    return json.dumps({"snapshot": {"before": compressed, "format": format}}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("recorded", "issued", "is_same"),
    [
        (resolving("clerk", 1), resolving("clerk", 2), True),
        (resolving("clerk", 1), resolving("boss", 1), False),
        (b'{"id":"1","revision":1}', b'{"id":"1","revision":2}', False),
        (continuing(1, {"steps": [1]}), continuing(2, {"steps": [1], "added": None}), True),
        (continuing(1, {"steps": [1]}), continuing(2, {"steps": [2], "added": None}), False),
        (continuing(1, {"steps": [1]}), continuing(2, {"steps": [1, 2]}), False),
        (continuing(1, {"steps": [1]}), continuing(2, {}), False),
        (continuing(2, {"steps": [1]}), continuing(2, {"steps": [1], "added": None}), False),
    ],
)
def test_inputs_are_compared_across_releases(recorded: bytes, issued: bytes, is_same: bool) -> None:
    assert is_same_input(recorded, issued) is is_same
