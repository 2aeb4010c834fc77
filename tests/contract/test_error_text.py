"""The text of an error in the details of a failure."""

import pytest

from wakeful.contract.error_text import error_text


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ([{"error_text": "no such key"}, 7], "no such key"),
        ([], None),
        (["no such key"], None),
        ([{"run_id": "r1"}], None),
    ],
)
def test_only_a_detail_that_a_worker_has_made_is_the_text_of_an_error(details: list[object], text: str | None) -> None:
    assert error_text(details) == text
