"""Fail an activity without the text of an error in the message, which Temporal keeps in the clear."""

from datetime import timedelta

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.contract.error_text import ErrorText

TEXT_BYTES = 1_500
"""Of a text in a detail, which a codec may make longer: Temporal keeps only failures of less than 4,000 bytes."""

MAX_MESSAGE_BYTES = 2_000
"""Temporal replaces the failure of a pending activity by a note if it has more than about 4,000 bytes."""


def failure_of(
    what: str,
    text: str,
    *,
    type: str,
    non_retryable: bool = False,
    category: ApplicationErrorCategory = ApplicationErrorCategory.UNSPECIFIED,
    next_retry_delay: timedelta | None = None,
) -> ApplicationError:
    """A failure whose message says what has failed. The workflow and `why` read the text, which is in its detail.

    Raise it `from None`: Temporal keeps the message of a cause in the clear, too.
    """
    detail = ErrorText(error_text=shortened(text, TEXT_BYTES))
    message = f"{what}; the detail of this failure has its text"
    return ApplicationError(
        shortened(message),
        detail,
        type=type,
        non_retryable=non_retryable,
        category=category,
        next_retry_delay=next_retry_delay,
    )


def shortened(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """The text; if it is longer than Temporal keeps, its beginning."""
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= limit else f"{encoded[:limit].decode(errors='ignore')}…"
