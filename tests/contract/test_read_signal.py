"""The workflow and every reader of its history read signals by one function: what is malformed is so for both."""

import json

import pytest
from pydantic import TypeAdapter

from wakeful.contract.errors import CallerError
from wakeful.contract.requests import parse_cancel, parse_submission, read_signal


def failing(payload: str) -> object:
    """A converter that wraps what it raises, as Temporal's does."""
    raise RuntimeError("the payload could not be converted") from ValueError(f"{payload} is not JSON")


def raising(error: Exception) -> object:
    raise error


def test_a_signal_has_one_payload_or_none() -> None:
    assert read_signal(['{"input": "hello"}'], json.loads, parse_submission).input == "hello"
    assert read_signal([], json.loads, parse_cancel).reason is None
    with pytest.raises(CallerError, match="it takes one JSON value, got 2"):
        read_signal(["1", "2"], json.loads, parse_submission)


def test_what_is_malformed_says_what_is_wrong_with_its_fields() -> None:
    with pytest.raises(CallerError, match=r"input: Field required\. For example"):
        read_signal(["{}"], json.loads, parse_submission)


def test_what_cannot_be_decoded_names_its_first_cause() -> None:
    with pytest.raises(CallerError, match="its payload cannot be read: half is not JSON"):
        read_signal(["half"], failing, parse_submission)


def test_what_is_not_valid_json_says_where() -> None:
    with pytest.raises(CallerError, match="its payload cannot be read: Invalid JSON: recursion limit exceeded"):
        read_signal(["[" * 300], TypeAdapter(object).validate_json, parse_submission)


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    with pytest.raises(CallerError, match="its payload cannot be read: RecursionError"):
        read_signal([RecursionError()], raising, parse_submission)
