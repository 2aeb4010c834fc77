"""How much mail a carryover keeps."""

from tests.loop.children import agent_message
from wakeful.contract.carryover import CARRYOVER_BYTES, UNDELIVERED_BYTES, Carryover, json_bytes, newest_undelivered
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import Message, Role, TextBlock


def undelivered_message(id: str, length: int) -> UndeliveredMessage:
    return UndeliveredMessage(message=agent_message(id, "x" * length), error="recipient_not_found")


def mail(id: str, length: int) -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text="x" * length),))


def ids(carryover: Carryover) -> tuple[list[str], list[str]]:
    return [each.message.message_id for each in carryover.undelivered], [message.id for message in carryover.mail]


def test_mail_that_fits_is_kept_whole() -> None:
    carryover = Carryover(
        undelivered=(undelivered_message("d1", 100_000), undelivered_message("d2", 100_000)),
        mail=(mail("m1", 300_000), mail("m2", 300_000)),
    )
    assert carryover.fitting() == carryover


def test_the_newest_undelivered_messages_and_the_oldest_mail_are_kept() -> None:
    undelivered = tuple(undelivered_message(f"d{number}", 120_000) for number in range(4))
    messages = tuple(mail(f"m{number}", 250_000) for number in range(4))
    kept = Carryover(undelivered=undelivered, mail=messages).fitting()
    assert ids(kept) == (["d2", "d3"], ["m0", "m1"])
    assert json_bytes(kept) < CARRYOVER_BYTES + 1_000


def test_mail_that_does_not_fit_is_skipped_for_mail_that_does() -> None:
    kept = Carryover(mail=(mail("m0", 100), mail("m1", CARRYOVER_BYTES), mail("m2", 100))).fitting()
    assert ids(kept) == ([], ["m0", "m2"])


def test_the_newest_undelivered_message_is_kept_before_all_others() -> None:
    undelivered = (undelivered_message("d0", 100), undelivered_message("d1", 2 * UNDELIVERED_BYTES))
    kept = Carryover(
        undelivered=undelivered, mail=(mail("m0", CARRYOVER_BYTES - 2 * UNDELIVERED_BYTES), mail("m1", 100))
    ).fitting()
    assert ids(kept) == (["d1"], ["m1"])


def test_an_undelivered_message_that_is_too_large_for_a_carryover_is_dropped() -> None:
    assert newest_undelivered((undelivered_message("d0", 100), undelivered_message("d1", CARRYOVER_BYTES))) == ()
