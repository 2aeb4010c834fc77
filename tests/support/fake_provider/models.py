"""Models that answer what they are asked: steps for `will` and `always`."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.script import Answer

INTERRUPTED = "Your last response was interrupted by a connection failure. Continue exactly where it ended."


def continuing(answer: Answer) -> Callable[[Asked], Answer]:
    """A model that says its text once: asked to continue after a part of it, it streams only the rest.

    Raises:
        ValueError: What the request takes for the model's own words is not how its text begins.
    """

    def reply(asked: Asked) -> Answer:
        begun = said_before_interruption(asked)
        if not answer.text.startswith(begun):
            raise ValueError(f"the model never said {begun!r}")
        return replace(answer, text=answer.text[len(begun) :])

    return reply


def said_before_interruption(asked: Asked) -> str:
    """The words a request asks to continue; none if it asks for a new answer."""
    match asked.turns:
        case (*_, before, last) if last.role == "user" and INTERRUPTED in last.text and before.role == "assistant":
            return before.text
        case _:
            return ""
