"""`ScriptedModel`: a model that follows a script, for tests and for trying things out offline.

It is stateless, like a real model: it derives the next turn from the conversation in the request, so a script continues
correctly after a crash and on another worker. It only remembers, for assertions, what it was asked in this process.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, JsonValue, TypeAdapter

from wakeful.authoring.scripted_calls import call_problem
from wakeful.authoring.unexpected_call import UnexpectedModelCall, shown_conversation
from wakeful.contract.errors import ConfigurationError, ProviderError
from wakeful.contract.field_problems import shown
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.limits import cut
from wakeful.contract.messages import Message, Role, ToolCall, Visibility
from wakeful.contract.runs import Usage

Check = Callable[[ModelRequest], object]
"""Asserts something about a request, or returns False if it is not as expected."""

REMEMBERED = 1_000
"""How many requests a script remembers: a worker may serve it for weeks."""


@dataclass(frozen=True)
class Turn:
    """One answer of the model: text, tool calls, or both."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, JsonValue]], ...] = ()
    checks: tuple[Check, ...] = ()
    is_checked: bool = field(default=True, kw_only=True)
    """Whether a strict script fails if a call is not of a tool in the request, or its arguments do not fit."""
    is_json: bool = field(default=False, kw_only=True)
    """The text is JSON: what takes the place of `{result}` and `{input}` is escaped."""

    def __and__(self, other: "Turn") -> "Turn":
        """Both turns in one answer; if the calls of one are unchecked, all are."""
        return Turn(
            self.text + other.text,
            self.calls + other.calls,
            self.checks + other.checks,
            is_checked=self.is_checked and other.is_checked,
            is_json=self.is_json or other.is_json,
        )

    def unchecked(self) -> "Turn":
        """The same turn as a model makes it that calls tools it does not have, or with arguments that do not fit."""
        return replace(self, is_checked=False)

    def expecting(self, check: Check | str) -> "Turn":
        """The same turn, which fails the run unless the request is as you expect.

        Args:
            check: a function of the request that asserts, or returns False; or a regular expression that the newest
                message of the conversation has to match.
        """
        return replace(self, checks=(*self.checks, _matches(check) if isinstance(check, str) else check))

    def __str__(self) -> str:
        said = [f"say({self.text!r})"] if self.text or not self.calls else []
        return " & ".join([*said, *(_call_text(tool, arguments) for tool, arguments in self.calls)])


TurnFunction = Callable[[ModelRequest], Turn]
"""Makes a turn from the request, such as a call whose arguments depend on an earlier result."""


def say(answer: BaseModel | JsonValue) -> Turn:
    """Answer with text, or with a pydantic model or another JSON value for an agent with an output type.

    In texts, `{result}` stands for the latest tool result, `{input}` for the user's message.

    Raises:
        ConfigurationError: the answer is something else, which has no JSON.
    """
    return Turn(text=answer) if isinstance(answer, str) else Turn(text=_json(answer), is_json=True)


def call(tool: str, /, **arguments: JsonValue) -> Turn:
    """Call a tool."""
    return Turn(calls=((tool, arguments),))


Script = Sequence[Turn | TurnFunction]


@dataclass(frozen=True)
class ScriptedModel:
    """Answers each user message with `turns`, one turn per model call.

    A model call that the script does not expect fails its run, and is not retried: one after the last turn, one whose
    request does not pass the checks of its turn, or one whose turn calls a tool that is not in the request, or with
    arguments that do not fit its schema. `wakeful.testing.runtime` raises it as `UnexpectedModelCall`.

    Args:
        turns: turns, or functions that make one from the `ModelRequest`.
        when: the first regular expression that matches the user's message selects its turns instead. Messages that only
            the model sees, such as events of background tasks, do not restart the script unless a pattern matches them.
        strict: whether a model call after the last turn, or a call of a tool that the request does not offer like this,
            fails; if not, the model makes the call, and answers after the last turn that the script has ended.
    """

    turns: Script = ()
    when: Mapping[str, Script] = field(default_factory=dict)
    strict: bool = field(default=True, kw_only=True)
    _journal: "_Journal" = field(default_factory=lambda: _Journal(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for turns in (self.turns, *self.when.values()):
            each = [turns] if isinstance(turns, str) else turns
            wrong = [turn for turn in each if not (isinstance(turn, Turn) or callable(turn))]
            if wrong:
                raise ConfigurationError([f"a ScriptedModel takes a list of say(…) and call(…), not {shown(wrong[0])}"])

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self.answer(request)

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """What the model was sent in this process, the newest last; the oldest of many are forgotten."""
        return tuple(self._journal.requests)

    @property
    def unexpected(self) -> tuple[UnexpectedModelCall, ...]:
        """The model calls that have failed in this process."""
        return tuple(self._journal.unexpected)

    def assert_used_up(self) -> None:
        """Check that model calls of this process have reached every turn.

        Raises:
            AssertionError: it names the turns that none has reached.
        """
        scripts: list[tuple[str | None, Script]] = [(None, self.turns), *self.when.items()]
        unused = [
            f"{_place(pattern, index)}: {turn if isinstance(turn, Turn) else 'a function'}"
            for pattern, turns in scripts
            for index, turn in enumerate(turns)
            if (pattern, index) not in self._journal.used
        ]
        if unused:
            calls = len(self._journal.requests)
            raise AssertionError("\n  ".join([f"in {calls} model calls, none has reached these turns:", *unused]))

    def answer(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request.

        Raises:
            UnexpectedModelCall: the script does not expect the call.
        """
        self._journal.requests.append(request)
        try:
            return self._answer(request)
        except UnexpectedModelCall as error:
            self._journal.unexpected.append(error)
            raise

    def _answer(self, request: ModelRequest) -> ModelResponse:
        start = max((i for i, message in enumerate(request.messages) if self._starts_script(message)), default=-1)
        input = request.messages[start].text if start >= 0 else ""
        since = request.messages[start + 1 :]
        pattern = self._matching(input)
        turns = self.turns if pattern is None else self.when[pattern]
        index = sum(1 for message in since if message.role is Role.ASSISTANT)
        if index >= len(turns) and self.strict:
            raise _exhausted(request, input, turns, pattern, index)
        turn = self._taken(turns[index], request, _place(pattern, index)) if index < len(turns) else say(_NO_MORE)
        self._journal.used.add((pattern, index))
        text = _filled_in(turn, input=input, result=_latest_result(since))
        calls = tuple(
            ToolCall(id=f"call_{len(request.messages) + 1}_{n}", name=name, arguments=dict(arguments))
            for n, (name, arguments) in enumerate(turn.calls, start=1)
        )
        usage = _usage(request, text)
        stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
        return ModelResponse(model=request.model, text=text, tool_calls=calls, stop_reason=stop, usage=usage)

    def _taken(self, turn: Turn | TurnFunction, request: ModelRequest, place: str) -> Turn:
        taken = _taken(turn, request, place)
        if self.strict and taken.is_checked:
            for tool, arguments in taken.calls:
                if problem := call_problem(request, tool, arguments):
                    raise _does_not_fit(place, request, problem)
        return taken

    def _starts_script(self, message: Message) -> bool:
        if message.role is not Role.USER:
            return False
        return message.visibility is not Visibility.INTERNAL or self._matching(message.text) is not None

    def _matching(self, text: str) -> str | None:
        """The pattern that selects the turns for a message; None if none does."""
        return next((pattern for pattern in self.when if re.search(pattern, text, re.IGNORECASE)), None)


_NO_MORE = "The script has no more turns."


class _Journal:
    """What a scripted model was asked in this process."""

    def __init__(self) -> None:
        self.requests: deque[ModelRequest] = deque(maxlen=REMEMBERED)
        self.unexpected: deque[UnexpectedModelCall] = deque(maxlen=REMEMBERED)
        self.used: set[tuple[str | None, int]] = set()


def _taken(turn: Turn | TurnFunction, request: ModelRequest, place: str) -> Turn:
    """The turn, if the request passes its checks."""
    try:
        taken = turn if isinstance(turn, Turn) else turn(request)
        if not isinstance(taken, Turn):
            raise TypeError(f"the function must return a Turn, such as say(…) or call(…), not {taken!r}")
        for check in taken.checks:
            if check(request) is False:
                raise AssertionError(f"{getattr(check, '__name__', check)} returned False")
    except ProviderError:  # a function that plays a failing provider
        raise
    except Exception as error:  # whatever a test's function raises, a retry would raise it again
        raise _does_not_fit(place, request, f"{type(error).__name__}: {error}") from error
    return taken


def _does_not_fit(place: str, request: ModelRequest, why: str) -> UnexpectedModelCall:
    return UnexpectedModelCall(f"{place} of the script does not fit the request: {why}\n{shown_conversation(request)}")


def _exhausted(
    request: ModelRequest, input: str, turns: Script, pattern: str | None, index: int
) -> UnexpectedModelCall:
    script = "the script" if pattern is None else f"the script for {pattern!r}"
    has = "1 turn" if len(turns) == 1 else f"{len(turns)} turns"
    return UnexpectedModelCall(
        f"{script} has {has}, but this is model call {index + 1} since the message {cut(input, 100)!r}: add a turn, or "
        f"find out why the agent calls the model again\n{shown_conversation(request)}"
    )


def _matches(pattern: str) -> Check:
    def newest_message(request: ModelRequest) -> None:
        newest = request.messages[-1].text if request.messages else ""
        if not re.search(pattern, newest):
            raise AssertionError(f"the newest message does not match {pattern!r}: {newest!r}")

    return newest_message


def _call_text(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    return f"call({', '.join([repr(tool), *(f'{name}={value!r}' for name, value in arguments.items())])})"


def _place(pattern: str | None, index: int) -> str:
    return f"turn {index + 1}" if pattern is None else f"turn {index + 1} for {pattern!r}"


_JSON_VALUE: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def _json(answer: BaseModel | JsonValue) -> str:
    try:
        value = answer.model_dump(mode="json", by_alias=True) if isinstance(answer, BaseModel) else answer
        return json.dumps(_JSON_VALUE.validate_python(value), ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # of which pydantic's errors are a kind
        problem = f"say(…) takes a text, a pydantic model or a JSON value, not {shown(answer)}"
        raise ConfigurationError([problem]) from error


def _filled_in(turn: Turn, **values: str) -> str:
    """The text with each value in the place of its `{name}`."""
    text = turn.text
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", json.dumps(value, ensure_ascii=False)[1:-1] if turn.is_json else value)
    return text


def _latest_result(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role is Role.TOOL), "")


def _usage(request: ModelRequest, answer: str) -> Usage:
    """Counts words as tokens, so that usage and budgets have plausible numbers."""
    prompt = len(request.instructions.split()) + sum(len(message.text.split()) for message in request.messages)
    completion = len(answer.split())
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
