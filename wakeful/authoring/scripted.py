"""`ScriptedModel`: a model that follows a script, for tests and for trying things out offline.

It is stateless, like a real model: it derives the next turn from the conversation in the request, so a script continues
correctly after a crash and on another worker.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.field_problems import shown
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.messages import Message, Role, ToolCall, Visibility
from wakeful.contract.runs import Usage


@dataclass(frozen=True)
class Turn:
    """One answer of the model: text, tool calls, or both."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, JsonValue]], ...] = ()

    def __and__(self, other: "Turn") -> "Turn":
        """Both turns in one answer."""
        return Turn(self.text + other.text, self.calls + other.calls)


def say(text: str) -> Turn:
    """Answer with text. `{result}` stands for the latest tool result, `{input}` for the user's message."""
    return Turn(text=text)


def call(tool: str, /, **arguments: JsonValue) -> Turn:
    """Call a tool."""
    return Turn(calls=((tool, arguments),))


@dataclass(frozen=True)
class ScriptedModel:
    """Answers each user message with `turns`, one turn per model call.

    With `when`, the first regular expression that matches the user's message selects its turns instead. Messages that
    only the model sees, such as events of background tasks, do not restart the script unless a pattern matches them.
    """

    turns: Sequence[Turn] = ()
    when: Mapping[str, Sequence[Turn]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for turns in (self.turns, *self.when.values()):
            wrong = turns if isinstance(turns, str) else next((it for it in turns if not isinstance(it, Turn)), None)
            if wrong is not None:
                raise ConfigurationError([f"a ScriptedModel takes a list of say(…) and call(…), not {shown(wrong)}"])

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self.answer(request)

    def answer(self, request: ModelRequest) -> ModelResponse:
        start = max((i for i, message in enumerate(request.messages) if self._starts_script(message)), default=-1)
        input = request.messages[start].text if start >= 0 else ""
        since = request.messages[start + 1 :]
        matching = self._matching(input)
        turns = self.turns if matching is None else matching
        index = sum(1 for message in since if message.role is Role.ASSISTANT)
        turn = turns[index] if index < len(turns) else say("The script has no more turns.")
        text = turn.text.replace("{input}", input).replace("{result}", _latest_result(since))
        calls = tuple(
            ToolCall(id=f"call_{len(request.messages) + 1}_{n}", name=name, arguments=dict(arguments))
            for n, (name, arguments) in enumerate(turn.calls, start=1)
        )
        usage = _usage(request, text)
        stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
        return ModelResponse(model=request.model, text=text, tool_calls=calls, stop_reason=stop, usage=usage)

    def _starts_script(self, message: Message) -> bool:
        if message.role is not Role.USER:
            return False
        return message.visibility is not Visibility.INTERNAL or self._matching(message.text) is not None

    def _matching(self, text: str) -> Sequence[Turn] | None:
        found = (turns for pattern, turns in self.when.items() if re.search(pattern, text, re.IGNORECASE))
        return next(found, None)


def _latest_result(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role is Role.TOOL), "")


def _usage(request: ModelRequest, answer: str) -> Usage:
    """Counts words as tokens, so that usage and budgets have plausible numbers."""
    prompt = len(request.instructions.split()) + sum(len(message.text.split()) for message in request.messages)
    completion = len(answer.split())
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
