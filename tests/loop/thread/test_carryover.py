"""How much a thread keeps besides its conversation."""

from tests.loop.children import a_letter
from wakeful.contract.mail import DeadLetter
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.subagents import Keeps
from wakeful.loop.thread.carryover import KEPT_BYTES, LETTERS_BYTES, fitting, json_bytes, newest_letters


def dead(id: str, length: int) -> DeadLetter:
    return DeadLetter(letter=a_letter(id, "x" * length), error="recipient_not_found")


def mail(id: str, length: int) -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text="x" * length),))


def ids(keeps: Keeps) -> tuple[list[str], list[str]]:
    return [each.letter.message_id for each in keeps.letters], [message.id for message in keeps.mail]


def test_what_fits_is_kept_whole() -> None:
    keeps = Keeps(letters=(dead("d1", 100_000), dead("d2", 100_000)), mail=(mail("m1", 300_000), mail("m2", 300_000)))
    assert fitting(keeps) == keeps


def test_of_letters_the_newest_are_kept_and_of_mail_the_oldest() -> None:
    letters = tuple(dead(f"d{number}", 120_000) for number in range(4))
    messages = tuple(mail(f"m{number}", 250_000) for number in range(4))
    kept = fitting(Keeps(letters=letters, mail=messages))
    assert ids(kept) == (["d2", "d3"], ["m0", "m1"])
    assert json_bytes(kept) < KEPT_BYTES + 1_000


def test_mail_that_does_not_fit_makes_room_for_what_does() -> None:
    kept = fitting(Keeps(mail=(mail("m0", 100), mail("m1", KEPT_BYTES), mail("m2", 100))))
    assert ids(kept) == ([], ["m0", "m2"])


def test_the_newest_letter_is_kept_at_the_cost_of_others_and_of_mail() -> None:
    letters = (dead("d0", 100), dead("d1", 2 * LETTERS_BYTES))
    kept = fitting(Keeps(letters=letters, mail=(mail("m0", KEPT_BYTES - 2 * LETTERS_BYTES), mail("m1", 100))))
    assert ids(kept) == (["d1"], ["m1"])


def test_a_letter_that_nobody_could_hand_on_is_not_kept() -> None:
    assert newest_letters((dead("d0", 100), dead("d1", KEPT_BYTES))) == ()
