"""How much a thread keeps besides its conversation: what an execution can hand on in one piece, in any script.

Sizes are those of the JSON in bytes. Temporal refuses a query's answer and an activity's result of over two megabytes,
and a thread with more than that could not be woken.
"""

from wakeful.contract.base import Wire
from wakeful.contract.mail import DeadLetter
from wakeful.contract.subagents import Keeps

LETTERS_BYTES = 300_000
"""Of all dead letters together."""

KEPT_BYTES = 900_000
"""Of dead letters and mail together. The largest letter fits alone, also where each of its characters is four bytes."""


def json_bytes(value: Wire) -> int:
    return len(value.model_dump_json().encode())


def newest_letters(letters: tuple[DeadLetter, ...]) -> tuple[DeadLetter, ...]:
    """The newest that fit, in their order; the very newest may take more room than all are meant to."""
    size, start = 0, len(letters)
    for place in reversed(range(len(letters))):
        size += json_bytes(letters[place])
        if size > (KEPT_BYTES if start == len(letters) else LETTERS_BYTES):
            break
        start = place
    return letters[start:]


def fitting(keeps: Keeps) -> Keeps:
    """The newest dead letters, and of the mail as much as fits beside them, the oldest first."""
    letters, mail = newest_letters(keeps.letters), []
    room = KEPT_BYTES - sum(map(json_bytes, letters))
    for message in keeps.mail:
        if (size := json_bytes(message)) <= room:
            mail.append(message)
            room -= size
    return keeps.model_copy(update={"letters": letters, "mail": tuple(mail)})
