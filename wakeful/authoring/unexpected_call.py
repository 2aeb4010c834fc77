"""`UnexpectedModelCall`: a test's model was called in a way that the test did not provide for."""

import json

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest
from wakeful.contract.limits import cut
from wakeful.contract.messages import Message

SHOWN_MESSAGES = 20
SHOWN_CHARACTERS = 300


class UnexpectedModelCall(ProviderError, AssertionError):
    """A scripted or recorded model has no answer to a request. The run ends with it, and no attempt is repeated."""

    def __init__(self, message: str) -> None:
        super().__init__(ProviderErrorKind.UNEXPECTED_CALL, message)

    @property
    def headline(self) -> str:
        """What is wrong, without the conversation."""
        return str(self).partition("\n")[0]


def shown_conversation(request: ModelRequest) -> str:
    """The conversation of a request as a person reads it, one line a message."""
    left_out = len(request.messages) - SHOWN_MESSAGES
    lines = [f"({left_out} earlier messages)"] if left_out > 0 else []
    lines += [_line(message) for message in request.messages[-SHOWN_MESSAGES:]]
    return "\n  ".join(["the conversation:", *(lines or ["(empty)"])])


def _line(message: Message) -> str:
    calls = [f"→ {call.name}({json.dumps(call.arguments, ensure_ascii=False)})" for call in message.tool_calls]
    return cut(" ".join([f"{message.role}:", *([message.text] if message.text else []), *calls]), SHOWN_CHARACTERS)
