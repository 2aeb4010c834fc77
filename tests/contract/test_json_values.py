"""The values of a JSON text are counted while it arrives."""

import json
import time

import pytest
from pydantic import JsonValue

from wakeful.contract.json_values import ValueCount


def count(text: bytes, *, chunk: int = 1_000_000) -> int:
    counted = ValueCount()
    for start in range(0, len(text), chunk):
        counted.add(text[start : start + chunk])
    return counted.values


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (5, 1),
        ("a, [b] {c}", 1),
        ('quoted: ",[{" \\', 1),
        ("\\", 1),
        ([1, 2, 3], 4),
        ({"a,b": [], "c": "\\\\,"}, 4),
        ([[[]], {"\\": '",'}], 6),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_values_are_counted_and_not_what_is_in_strings(value: JsonValue, values: int, chunk: int) -> None:
    assert count(json.dumps(value).encode(), chunk=chunk) == values


def test_in_another_encoding_at_least_the_values_are_counted() -> None:
    # In UTF-16, this character has the byte of a quote, and the next one that of a backslash.
    text = json.dumps(["∢尢", *range(100)], ensure_ascii=False)
    for encoding in ("utf-16", "utf-16-be", "utf-32"):
        assert count(text.encode(encoding)) >= 101


@pytest.mark.parametrize("text", [b'"', b'\\"', b'",', b"[", b"\\", b'\\\\"', b'"\\'])
def test_no_text_takes_long_to_count(text: bytes) -> None:
    began = time.process_time()
    count(text * 2_000_000)
    assert time.process_time() - began < 2
