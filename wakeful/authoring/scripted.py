"""A model without a network: it follows a script. For trying things offline, and for tests.

Stateless, as a model is: which turn comes next is read from the conversation it is given, so a script plays the same
after a crash, on another worker, and in a replay.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.messages import Message, Role, ToolCall, Visibility
from wakeful.contract.runs import Usage


@dataclass(frozen=True)
class Turn:
    """One answer: some text, some tool calls, or both."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, JsonValue]], ...] = ()

    def __and__(self, other: "Turn") -> "Turn":
        """Both in one answer."""
        return Turn(self.text + other.text, self.calls + other.calls)


def say(text: str) -> Turn:
    """Answer with a text; `{result}` stands for the newest tool result and `{input}` for what it answers."""
    return Turn(text=text)


def call(tool: str, /, **arguments: JsonValue) -> Turn:
    """Ask for a tool."""
    return Turn(calls=((tool, arguments),))


@dataclass(frozen=True)
class ScriptedModel:
    """Plays `turns` in answer to each user message, one turn a model call.

    With `when`, the first pattern found in the user's message chooses its turns instead. What only the model sees, as a
    background task's events and the runtime's notes, does not begin a script anew, unless a pattern is found in it.
    """

    turns: Sequence[Turn] = ()
    when: Mapping[str, Sequence[Turn]] = field(default_factory=dict)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self.answer(request)

    def answer(self, request: ModelRequest) -> ModelResponse:
        asked = max((i for i, message in enumerate(request.messages) if self._is_answered(message)), default=-1)
        said = request.messages[asked].text if asked >= 0 else ""
        since = request.messages[asked + 1 :]
        turns = self._chosen(said)
        turns = self.turns if turns is None else turns
        index = sum(1 for message in since if message.role is Role.ASSISTANT)
        turn = turns[index] if index < len(turns) else say("The script has no more turns.")
        text = turn.text.replace("{input}", said).replace("{result}", _newest_result(since))
        calls = tuple(
            ToolCall(id=f"call_{len(request.messages) + 1}_{n}", name=name, arguments=dict(arguments))
            for n, (name, arguments) in enumerate(turn.calls, start=1)
        )
        usage = _count(request, text)
        stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
        return ModelResponse(model=request.model, text=text, tool_calls=calls, stop_reason=stop, usage=usage)

    def _is_answered(self, message: Message) -> bool:
        """Whether a script begins with it."""
        if message.role is not Role.USER:
            return False
        return message.visibility is not Visibility.INTERNAL or self._chosen(message.text) is not None

    def _chosen(self, said: str) -> Sequence[Turn] | None:
        found = (turns for pattern, turns in self.when.items() if re.search(pattern, said, re.IGNORECASE))
        return next(found, None)


def _newest_result(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role is Role.TOOL), "")


def _count(request: ModelRequest, answer: str) -> Usage:
    """Words for tokens: good enough to see numbers move."""
    prompt = len(request.instructions.split()) + sum(len(message.text.split()) for message in request.messages)
    completion = len(answer.split())
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
