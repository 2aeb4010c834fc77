"""Checks of a text: functions, or rules with a regular expression, run in order until one decides.

If a check returns None, the next one runs. `AllowText` and `BlockText` end the checks; after a `RewriteText` the next
checks get the new text.
"""

import asyncio
import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from wakeful import ToolPattern, parse_pattern
from wakeful.plugins.guardrails.rewriting import replaced


@dataclass(frozen=True)
class AllowText:
    """Accept the text; no more checks run."""


@dataclass(frozen=True)
class BlockText:
    """Reject the text."""

    reason: str


@dataclass(frozen=True)
class RewriteText:
    """Replace the text."""

    text: str


TextRuling = AllowText | BlockText | RewriteText
"""What a check decides about a text."""
TextCheck = Callable[[str], TextRuling | Awaitable[TextRuling | None] | None]
"""A function of the text, sync or async; None leaves the decision to the next check."""


class GuardRule(BaseModel):
    """A regular expression to search for in the text, and what to do if it matches.

    The search runs in linear time, so the expression has no look-around and no backreferences. A rewrite that takes
    longer than five seconds, as nested repetition such as `(a+)+` can, blocks the text.
    """

    model_config = ConfigDict(frozen=True)

    pattern: str
    verdict: Literal["allow", "block", "rewrite"] = "block"
    reason: str = ""
    """Why the text is blocked; the pattern itself is not disclosed."""
    replacement: str = "[redacted]"
    """What a rewrite replaces matches with; `\\1` is the first group."""

    @model_validator(mode="after")
    def _is_valid(self) -> "GuardRule":
        _ = self._matcher
        try:
            if self.verdict == "rewrite":
                with warnings.catch_warnings():
                    # Python warns about syntax that engines interpret differently, such as [[:alpha:]].
                    warnings.simplefilter("error", FutureWarning)
                    re.compile(self.pattern).sub(self.replacement, "")
        except (re.error, FutureWarning) as error:
            raise ValueError(f"{self.pattern!r} cannot be used for a rewrite: {error}") from error
        return self

    async def __call__(self, text: str) -> TextRuling | None:
        # Fail closed: a text that is too long to search matches rules that block or rewrite, not those that allow.
        unsure = self.verdict != "allow"
        if not self._matcher.matches(_TOOL, {"text": text}, when_unsure=unsure):
            return None
        match self.verdict:
            case "allow":
                return AllowText()
            case "block":
                return self._block
            case "rewrite":
                try:
                    new, count = await replaced(self.pattern, self.replacement, text)
                except TimeoutError:
                    return self._block
                if count:
                    return RewriteText(new)
                # The engines disagree: a match that cannot be replaced must not pass.
                return self._block if self._matcher.matches(_TOOL, {"text": text}, when_unsure=False) else None

    @property
    def _block(self) -> BlockText:
        return BlockText(self.reason or "a guardrail does not allow it")

    @property
    def _matcher(self) -> ToolPattern:
        quoted = self.pattern.replace("\\", "\\\\").replace('"', '\\"')
        return parse_pattern(f'{_TOOL}(text =~ "{quoted}")')


_TOOL = "guarded"
"""Patterns need a tool's name; this one is a placeholder."""


async def judge(text: str, checks: Sequence[TextCheck]) -> TextRuling:
    """The ruling of all checks together."""
    read = text
    for check in checks:
        match await _ruling(check, read):
            case None:
                continue
            case AllowText():
                break
            case BlockText() as block:
                return block
            case RewriteText(text=new):
                read = new
            case other:
                named = getattr(check, "__name__", type(check).__name__)
                raise TypeError(f"check {named!r} returned a {type(other).__name__}; return a TextRuling or None")
    return AllowText() if read == text else RewriteText(read)


async def _ruling(check: TextCheck, text: str) -> TextRuling | None:
    if isinstance(check, GuardRule) or inspect.iscoroutinefunction(check):
        returned: TextRuling | Awaitable[TextRuling | None] | None = check(text)
    else:
        returned = await asyncio.to_thread(check, text)  # it may block
    return await returned if inspect.isawaitable(returned) else returned
