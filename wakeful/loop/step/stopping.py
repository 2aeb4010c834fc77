"""When a run ends although its model would go on: the agent's stop conditions, checked against every answer.

What they count is in the state, so it holds across executions and waits. How a run ends is `ending`'s business.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import StopDetail, ToolCallStatus
from wakeful.contract.stopping import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from wakeful.loop.calls.batch import Call
from wakeful.loop.machine.state import RunState
from wakeful.permissions.texts import TEXT_LIMIT, Kind, PatternError, Text

INVALID_REGEX = "content_match_invalid_regex"

MAX_WINDOW = 100
"""The most answers in a row that loop detection can ask for; the state holds a digest of each."""

MAX_PATTERN = 500
"""Characters of a pattern, with its counted repetitions written out."""

MAX_SEARCH = 5_000_000
"""Characters of a pattern times characters of an answer: in the worst case half a second of a workflow's turn.

The engine never backtracks, yet a pattern of thirty characters that repeats others a thousand times can take minutes.
"""


def stopping(state: RunState, response: ModelResponse, *, now: int) -> StopDetail | None:
    """The first condition of the agent that this answer meets; the state has its usage and its words counted."""
    for condition in state.agent.stop_conditions:
        met = _met(condition, state, response, now)
        if met is not None:
            return met
    return None


def said_after(state: RunState, response: ModelResponse) -> tuple[str, ...]:
    """Digests of the newest answers, as long as all of them say the same; an answer without words says nothing."""
    windows = [asked.window for asked in state.agent.stop_conditions if isinstance(asked, LoopDetection)]
    if not windows or not response.text:
        return ()
    digest = hashlib.sha256(response.text.encode(errors="surrogatepass")).hexdigest()[:16]
    before = state.said if digest in state.said else ()
    return (*before, digest)[-min(MAX_WINDOW, max(windows)) :]


def failed_rounds_after(state: RunState, calls: Sequence[Call]) -> int:
    """Rounds in a row in which every call failed, with this one; without calls, none of it could be read.

    A call that a person cancelled has not failed.
    """
    failed = all(call.status is ToolCallStatus.FAILED for call in calls)
    return state.failed_rounds + 1 if failed else 0


def stop_problems(conditions: Sequence[StopCondition]) -> list[str]:
    """What is wrong with an agent's conditions, for whoever builds its registry."""
    problems = []
    for condition in conditions:
        match condition:
            case ContentMatch(pattern=pattern):
                try:
                    _search(pattern)
                except PatternError as error:
                    problems.append(f"content_match: {error}")
            case LoopDetection(window=window) if window > MAX_WINDOW:
                problems.append(f"loop_detection: the window is {window}; at most {MAX_WINDOW} answers are compared")
            case _:
                pass
    return problems


def _met(condition: StopCondition, state: RunState, response: ModelResponse, now: int) -> StopDetail | None:
    match condition:
        case ContentMatch(pattern=pattern):
            return _content(pattern, response.text)
        case MaxRounds(rounds=rounds):
            asks = response.tool_calls or response.incomplete_calls
            detail = f"{rounds} rounds of tool calls were made" if asks and state.rounds >= rounds else None
        case Timeout(seconds=seconds):
            detail = f"{seconds:g} seconds have passed" if _has_passed(state, seconds, now) else None
        case TokenBudget(max_total=most):
            spent = _tokens(state)
            detail = f"{spent} tokens were used, and {most} are allowed" if spent > most else None
        case ConsecutiveErrors(max=most):
            count = state.failed_rounds
            detail = f"every tool call failed, {count} rounds in a row" if count >= most else None
        case StopOnTool(tool_name=name):
            # A call nobody can read does not count: the model is asked for it again.
            named = any(call.name == name for call in response.tool_calls)
            detail = f"the model asked for {name!r}" if named else None
        case LoopDetection(window=window):
            detail = f"the model said the same {window} times in a row" if len(state.said) >= window else None
        case _:
            assert_never(condition)
    return None if detail is None else StopDetail(code=condition.type, detail=detail)


def _has_passed(state: RunState, seconds: float, now: int) -> bool:
    """A run that began before runs were timed has no limit, rather than one that has long passed."""
    return bool(state.began_at) and now - state.began_at > seconds * 1000


def _tokens(state: RunState) -> int:
    """Prompt and completion; a provider that does not tell them apart reports only the total."""
    usage = state.usage
    return (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) or usage.total_tokens or 0


def _content(pattern: str, text: str) -> StopDetail | None:
    try:
        search = _search(pattern)
    except PatternError as error:
        return StopDetail(code=INVALID_REGEX, detail=str(error))
    if not search.finds(text):
        return None
    return StopDetail(code="content_match", detail=f"the answer matches {pattern!r}")


@dataclass(frozen=True)
class _Search:
    """A regular expression, and how much of a text it may be looked for in."""

    text: Text
    reach: int

    def finds(self, said: str) -> bool:
        """Whether the text matches; of a text beyond the reach it is the end that is searched: marks come last."""
        return bool(self.text.matches(said[-self.reach :]))


@lru_cache(maxsize=256)
def _search(pattern: str) -> _Search:
    """The pattern, ready to be searched for.

    Raises:
        PatternError: it is no regular expression, or one that could hold a workflow up.
    """
    text = Text(Kind.REGEX, pattern)
    size = _written_out(pattern)
    if size > MAX_PATTERN:
        raise PatternError(f"{pattern!r} has {size} characters with its repetitions written out; {MAX_PATTERN} may be")
    return _Search(text, min(TEXT_LIMIT, MAX_SEARCH // size))


_PART = re.compile(
    r"""
    \\[pPxuU]\{[^}]*\} | \\.                              # an escape
    | \[\^?\]?(?:\[:\^?\w+:\] | \\. | [^\]\\])*\]         # a class
    | \{\s*(?P<least>\d*)\s*(?:,\s*(?P<most>\d*)\s*)?\}   # a counted repetition
    | .                                                   # a character, or a bracket of a group
    """,
    re.VERBOSE | re.DOTALL,
)


def _written_out(pattern: str) -> int:
    """How long the pattern is, about, with every counted repetition written out as the engine does."""
    groups, last = [0], 0
    for part in _PART.finditer(pattern):
        if part["least"] is not None:
            times = max(1, int(part["least"] or 0), int(part["most"] or 0))
            groups[-1] += last * (times - 1)
            last *= times
        elif part[0] == "(":
            groups.append(0)
        elif part[0] == ")" and len(groups) > 1:
            last = groups.pop() + 1
            groups[-1] += last
        else:
            # After `a*` a count still repeats the `a`.
            last = last if part[0] in "*+?" else 1
            groups[-1] += 1
    return sum(groups)
