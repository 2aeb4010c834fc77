"""Stop conditions: checked against every answer. What they count is in the state, so it survives continue-as-new.

The limit of rounds is not among them: `next_step` checks it before the model is called, so that no answer is paid for
only to be discarded.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import StopDetail
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
from wakeful.loop.machine.state import Run
from wakeful.permissions.text_matcher import TEXT_LIMIT, Kind, PatternError, TextMatcher

INVALID_REGEX = "content_match_invalid_regex"

MAX_WINDOW = 100
"""The most answers that loop detection can compare; the state holds a digest of each."""

MAX_PATTERN = 500
"""Characters of a pattern, with its counted repetitions expanded."""

MAX_SEARCH = 5_000_000
"""Characters of a pattern times characters of an answer: at worst half a second of a workflow task.

The engine never backtracks, yet a pattern of thirty characters with nested repetition counts can take minutes.
"""


def first_met(run: Run, response: ModelResponse) -> StopDetail | None:
    """The agent's first condition that this answer meets; the run has already counted the answer."""
    for condition in run.agent.stop_conditions:
        met = _met(condition, run, response)
        if met is not None:
            return met
    return None


def recent_answers_after(run: Run, response: ModelResponse) -> tuple[str, ...]:
    """Digests of the newest answers, as long as all of them are the same; an answer without text resets them."""
    windows = [condition.window for condition in run.agent.stop_conditions if isinstance(condition, LoopDetection)]
    if not windows or not response.text:
        return ()
    digest = hashlib.sha256(response.text.encode(errors="surrogatepass")).hexdigest()[:16]
    before = run.step.recent_answers if digest in run.step.recent_answers else ()
    return (*before, digest)[-min(MAX_WINDOW, max(windows)) :]


def stop_problems(conditions: Sequence[StopCondition]) -> list[str]:
    """What is wrong with an agent's conditions; the registry reports it."""
    problems = []
    for condition in conditions:
        match condition:
            case ContentMatch(pattern=pattern):
                try:
                    _search(pattern)
                except PatternError as error:
                    problems.append(f"content_match: {error}")
            case LoopDetection(window=window) if window > MAX_WINDOW:
                problems.append(f"loop_detection: the window is {window}; at most {MAX_WINDOW} answers can be compared")
            case _:
                pass
    return problems


def _met(condition: StopCondition, run: Run, response: ModelResponse) -> StopDetail | None:
    match condition:
        case ContentMatch(pattern=pattern):
            return _content(pattern, response.text)
        case MaxRounds():
            return None  # the registry records it as `max_rounds`, which `next_step` checks
        case Timeout(seconds=seconds):
            # By the alarm, not by the clock: a replay may read another time there.
            has_passed = run.alarmed_at >= run.timeout_at(condition)
            detail = f"{seconds:g} seconds have passed" if has_passed else None
        case TokenBudget(max_total=most):
            used = run.usage.tokens
            detail = f"{used} tokens were used; {most} are allowed" if used > most else None
        case ConsecutiveErrors(max=most):
            count = run.step.failed_rounds
            detail = f"every tool call failed, {count} rounds in a row" if count >= most else None
        case StopOnTool(tool_name=name):
            # A malformed call does not count: the model is asked to repeat it.
            named = any(call.name == name for call in response.tool_calls)
            detail = f"the model asked for {name!r}" if named else None
        case LoopDetection(window=window):
            same = len(run.step.recent_answers) >= window
            detail = f"the model gave the same answer {window} times in a row" if same else None
        case _:
            assert_never(condition)
    return None if detail is None else StopDetail(code=condition.type, detail=detail)


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
    """A regular expression, and how much of a text it is searched in."""

    text: TextMatcher
    reach: int

    def finds(self, text: str) -> bool:
        """Whether the pattern matches. Of a long text only the end is searched: agents write stop markers there."""
        return bool(self.text.matches(text[-self.reach :]))


@lru_cache(maxsize=256)
def _search(pattern: str) -> _Search:
    """The compiled pattern.

    Raises:
        PatternError: it is not a regular expression, or it could block a workflow task.
    """
    text = TextMatcher(Kind.REGEX, pattern)
    size = _expanded_length(pattern)
    if size > MAX_PATTERN:
        raise PatternError(
            f"{pattern!r} has {size} characters with repetitions expanded; at most {MAX_PATTERN} are allowed"
        )
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


def _expanded_length(pattern: str) -> int:
    """The approximate length of the pattern with every counted repetition expanded, as the engine does."""
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
