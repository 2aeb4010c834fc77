"""The text of an error apart from the message of a failure: a codec encodes the details of failures, but no message."""

from collections.abc import Sequence

from pydantic import ValidationError

from wakeful.contract.base import Wire


class ErrorText(Wire):
    """A detail of an activity's failure, whose message names only the kind of the error."""

    error_text: str


def error_text(details: Sequence[object]) -> str | None:
    """The text in the details of a failure; None if its message has it, or another program has made them."""
    try:
        return ErrorText.model_validate(details[0]).error_text if details else None
    except ValidationError:
        return None
