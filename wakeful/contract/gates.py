"""The verdicts of gates on tool calls that have not run yet."""

from typing import Annotated, Literal

from pydantic import Field

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.decisions import SuspensionTicket
from wakeful.contract.tools import ToolResult


class Block(Wire):
    """Forbid the call: it gets an error result, the calls after it are interrupted, and the run ends as blocked."""

    verdict: Literal["block"] = "block"
    reason: str
    result: Maybe[ToolResult] = None
    """What `after_tool_execute` hooks made of the error result."""
    rule: Few[str] = ""
    """The permission rule that denies the call, or the policy's default; empty if a gate or a hook blocks it."""


class Suspend(Wire):
    """Wait for a decision; the other calls of the step continue."""

    verdict: Literal["suspend"] = "suspend"
    ticket: SuspensionTicket


class SetResult(Wire):
    """Use this result instead of running the call."""

    verdict: Literal["set_result"] = "set_result"
    result: ToolResult


Verdict = Annotated[Block | Suspend | SetResult, Field(discriminator="verdict")]
"""If several gates give one: block wins over suspend, suspend over set_result, and the first of equals wins."""
