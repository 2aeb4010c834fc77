"""Checks of a text: functions, or rules with a regular expression, asked in order, with one ruling in the end.

A check that says nothing lets the next one speak. `Allow` ends the checks, `Block` too, and after a `Rewrite` the rest
of them read the new text.
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


@dataclass(frozen=True)
class Allow:
    """It is fine; no more checks."""


@dataclass(frozen=True)
class Block:
    """It must not pass."""

    reason: str


@dataclass(frozen=True)
class Rewrite:
    """It may pass as this."""

    text: str


Ruling = Allow | Block | Rewrite
Check = Callable[[str], Ruling | Awaitable[Ruling | None] | None]
"""A function of the text, sync or async; None says nothing."""


class GuardRule(BaseModel):
    """A regular expression that is looked for in the text, and what is done if it is found.

    It runs on an engine that no text can make hang, so it has no look-around and no backreferences. A rewrite needs
    Python's own engine for the replacement: nested repetition, as in `(a+)+`, can make that one hang.
    """

    model_config = ConfigDict(frozen=True)

    pattern: str
    verdict: Literal["allow", "block", "rewrite"] = "block"
    reason: str = ""
    """Why it is blocked; the pattern itself is not told."""
    replacement: str = "[redacted]"
    """What a rewrite puts in the place of what was found; `\\1` is the first group."""

    @model_validator(mode="after")
    def _can_be_read(self) -> "GuardRule":
        _ = self._matcher
        try:
            if self.verdict == "rewrite":
                with warnings.catch_warnings():
                    # Python warns of what other engines read otherwise, as [[:alpha:]]: it would replace nothing.
                    warnings.simplefilter("error", FutureWarning)
                    re.compile(self.pattern).sub(self.replacement, "")
        except (re.error, FutureWarning) as error:
            raise ValueError(f"{self.pattern!r} cannot be used to rewrite: {error}") from error
        return self

    def __call__(self, text: str) -> Ruling | None:
        # A text too long to be searched is taken to have what must not pass, and not to have what may.
        unsure = self.verdict != "allow"
        if not self._matcher.matches(_TOOL, {"text": text}, when_unsure=unsure):
            return None
        match self.verdict:
            case "allow":
                return Allow()
            case "block":
                return self._block
            case "rewrite":
                new, count = re.subn(self.pattern, self.replacement, text)
                if count:
                    return Rewrite(new)
                # The engines do not agree: what one has found and the other cannot replace must not pass.
                return self._block if self._matcher.matches(_TOOL, {"text": text}, when_unsure=False) else None

    @property
    def _block(self) -> Block:
        return Block(self.reason or "a guardrail forbids it")

    @property
    def _matcher(self) -> ToolPattern:
        quoted = self.pattern.replace("\\", "\\\\").replace('"', '\\"')
        return parse_pattern(f'{_TOOL}(text =~ "{quoted}")')


_TOOL = "guarded"
"""Regular expressions are part of a pattern, and a pattern names a tool: this stands for it."""


async def judge(text: str, checks: Sequence[Check]) -> Ruling:
    """What the checks come to."""
    read = text
    for check in checks:
        match await _said(check, read):
            case None:
                continue
            case Allow():
                break
            case Block() as block:
                return block
            case Rewrite(text=new):
                read = new
            case other:
                named = getattr(check, "__name__", type(check).__name__)
                raise TypeError(f"check {named!r} returned a {type(other).__name__}; return a ruling or None")
    return Allow() if read == text else Rewrite(read)


async def _said(check: Check, text: str) -> Ruling | None:
    if isinstance(check, GuardRule):
        return check(text)
    if inspect.iscoroutinefunction(check):
        said: Ruling | Awaitable[Ruling | None] | None = check(text)
    else:
        said = await asyncio.to_thread(check, text)  # it may wait for something
    return await said if inspect.isawaitable(said) else said
