"""What a gate may say of a tool call that has not run yet."""

from typing import Annotated, Literal

from pydantic import Field

from wakeful.contract.base import Wire
from wakeful.contract.decisions import SuspensionTicket
from wakeful.contract.tools import ToolResult


class Block(Wire):
    """The call may not be made: it gets an error, the calls after it are interrupted, and the run ends as blocked."""

    verdict: Literal["block"] = "block"
    reason: str


class Suspend(Wire):
    """Somebody has to decide first; the other calls of the step go on."""

    verdict: Literal["suspend"] = "suspend"
    ticket: SuspensionTicket


class SetResult(Wire):
    """The call need not be made: this is its result."""

    verdict: Literal["set_result"] = "set_result"
    result: ToolResult


Verdict = Annotated[Block | Suspend | SetResult, Field(discriminator="verdict")]
"""Several gates may speak: block goes before suspend, suspend before set_result, and then the first one counts."""
