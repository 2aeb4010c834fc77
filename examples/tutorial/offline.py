"""Answers instead of a model, as long as there is no API key."""

import re

from wakeful import ModelRequest, Role, ScriptedModel, call, say
from wakeful.testing import Turn


def order_number(request: ModelRequest) -> str | None:
    """The newest order number in the conversation."""
    said = " ".join(message.text for message in request.messages if message.role is Role.USER)
    return next(reversed(re.findall(r"\d{4}", said)), None)


def look_up(request: ModelRequest) -> Turn:
    number = order_number(request)
    return call("find_order", number=number) if number else say("Which order is it?")


def pay_back(request: ModelRequest) -> Turn:
    return call("refund", number=order_number(request), euros=249)


script = ScriptedModel(
    [look_up, say("It is {result}.")],  # to every message: first call the tool, then answer
    when={
        "it leaks": [say('{"order": "1042", "wants_refund": true, "urgent": false}')],
        "money back": [look_up, pay_back, say("Done: {result}.")],
    },
)
