"""How a thread is cut into archived segments."""

import pytest

from wakeful.contract.base import json_bytes
from wakeful.contract.carryover import Carryover, Counters
from wakeful.contract.events import EventRecord, TextDelta
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.history.archive import SEGMENT_BYTES, segments_of

CARRYOVER = Carryover(counters=Counters(runs=3))


def messages(*lengths: int) -> list[Message]:
    return [
        Message(id=f"m{number}", role=Role.USER, content=(TextBlock(text="x" * length),))
        for number, length in enumerate(lengths)
    ]


def events(*lengths: int) -> list[EventRecord]:
    return [
        EventRecord(seq=number, at=1, run_id="r", agent_id="a", event=TextDelta(delta="y" * length))
        for number, length in enumerate(lengths, start=1)
    ]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ((), ()),
        ((10,), ()),
        ((), (10, 20)),
        ((200_000,) * 20, (200_000,) * 20),
        ((900_000, 10, 900_000, 900_000), (10,) * 50),
        ((10,), (1_200_000, 10, 1_200_000)),
        ((400_000,) * 3, (10,)),
    ],
)
def test_segments_have_everything_once_and_in_order_and_fit(said: tuple[int, ...], shown: tuple[int, ...]) -> None:
    parts = segments_of(messages(*said), events(*shown), CARRYOVER)
    assert [message for part in parts for message in part.messages] == messages(*said)
    assert [record for part in parts for record in part.events] == events(*shown)
    assert [part.carryover for part in parts] == [None] * (len(parts) - 1) + [CARRYOVER]
    for part in parts:
        assert json_bytes(part) < SEGMENT_BYTES + 1_000 or len(part.messages) + len(part.events) == 1


def test_a_segment_has_the_events_of_its_messages() -> None:
    first, *_, last = segments_of(messages(*(200_000,) * 20), events(*(200_000,) * 20), None)
    assert (first.messages[0].id, first.events[0].seq) == ("m0", 1)
    assert (last.messages[-1].id, last.events[-1].seq) == ("m19", 20)
