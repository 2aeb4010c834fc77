"""Replies that depend on the request, for `will` and `always`."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.script import Answer

INTERRUPTED = "Your last response was interrupted by a connection failure. Continue exactly where it ended."


def continuing(answer: Answer) -> Callable[[Asked], Answer]:
    """A model that writes its text once: asked to continue, it streams only the rest.

    Raises:
        ValueError: the partial text in the request is not how the model's text begins.
    """

    def reply(asked: Asked) -> Answer:
        partial = partial_text(asked)
        if not answer.text.startswith(partial):
            raise ValueError(f"the model never wrote {partial!r}")
        return replace(answer, text=answer.text[len(partial) :])

    return reply


def partial_text(asked: Asked) -> str:
    """The text that a request asks the model to continue; empty if it asks for a new answer."""
    match asked.turns:
        case (*_, before, last) if last.role == "user" and INTERRUPTED in last.text and before.role == "assistant":
            return before.text
        case _:
            return ""
