"""Server-sent events are decoded from bytes in any pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful_activities.providers.shared.sse import Event, SseDecoder, SseError


def decoded(*chunks: bytes, limit: int = 1_000) -> list[Event]:
    decoder = SseDecoder(limit)
    return [*(event for chunk in chunks for event in decoder.feed(chunk)), *decoder.end()]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("data: a\n\n", [Event("", "a")]),
        ("event: e\ndata: a\n\ndata: b\n\n", [Event("e", "a"), Event("", "b")]),
        ("data: a\ndata: b\n\n", [Event("", "a\nb")]),
        ("data:a\r\rdata:b\r\n\r\n", [Event("", "a"), Event("", "b")]),
        ("\ufeffdata: a\n\n", [Event("", "a")]),
        ("data: \ufeffa\n\n", [Event("", "\ufeffa")]),
        (": ping\n\n:\ndata: a\n: more\n\n", [Event("", "a")]),
        ("data:  a: b\n\n", [Event("", " a: b")]),
        ("data\n\n", [Event("", "")]),
        ("event: e\n\ndata: a\n\n", [Event("", "a")]),
        ("id: 7\nretry: 1\n<<< what >>>\ndata: a\n\n", [Event("", "a")]),
        ("data: a\u2028b\x0bc\n\n", [Event("", "a\u2028b\x0bc")]),
        ("data: a\n\ndata: [DONE]\n", [Event("", "a"), Event("", "[DONE]")]),
        ("data: a\n\ndata: hal", [Event("", "a")]),
        ("", []),
    ],
)
def test_events_are_decoded_as_the_standard_says(written: str, expected: list[Event]) -> None:
    assert decoded(written.encode()) == expected
    assert decoded(*(bytes([byte]) for byte in written.encode())) == expected


LINES = st.sampled_from(["data: 🦊", "data:ü", "event: e", ": c", "", "", "data", "nonsense", "\ufeffdata: x"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(LINES, ENDS)), st.lists(st.integers(0, 200)))
def test_where_the_bytes_are_split_does_not_matter(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    written = "".join(line + end for line, end in lines).encode()
    bounds = sorted({0, len(written), *(cut for cut in cuts if cut < len(written))})
    chunks = [written[start:end] for start, end in pairwise(bounds)]
    assert decoded(*chunks, b"", limit=100_000) == decoded(written, limit=100_000)


def test_an_event_is_decoded_with_its_last_byte() -> None:
    decoder = SseDecoder()
    assert [*decoder.feed(b"data: a\r\n\r")] == [Event("", "a")]
    assert [*decoder.feed(b"\ndata: b\n")] == []
    assert [*decoder.feed(b"\n")] == [Event("", "b")]


def test_events_before_a_malformed_line_are_not_lost() -> None:
    events = SseDecoder().feed(b"data: a\n\ndata: \xf0\x9f\n\n")
    assert next(events) == Event("", "a")
    with pytest.raises(SseError, match="a line is not UTF-8: unexpected end of data at byte 6"):
        next(events)


@pytest.mark.parametrize("chunk", [b"x", b"data: xxxxxxxx\n"])
def test_an_endless_event_is_rejected_before_it_fills_the_memory(chunk: bytes) -> None:
    with pytest.raises(SseError, match="one event has more than 1,000 bytes"):
        decoded(*[chunk] * 1_001)


def test_comments_may_arrive_forever() -> None:
    assert decoded(*[b": ping\n"] * 1_000, b"data: a\n\n") == [Event("", "a")]
