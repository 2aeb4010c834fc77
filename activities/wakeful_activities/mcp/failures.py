"""What can go wrong between a worker and an MCP server, told apart by what it means for a call.

    McpFailure
    ├── ServerAway      nothing was sent: the call can wait, or another worker can make it
    └── ConnectionLost  the call was sent, and no answer came: it may have taken effect

The SDK raises errors of its transports inside exception groups. `reason_of` finds the one that says what happened.
"""

from collections.abc import Iterator

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.limits import cut

REASON_LENGTH = 300


class McpFailure(Exception):
    """A failure of the connection, with its reason in a few words."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"MCP server {server!r}: {reason}")
        self.server = server
        self.reason = reason


class ServerAway(McpFailure):
    """The server cannot be reached; nothing was sent."""


class ConnectionLost(McpFailure):
    """The connection ended while the server worked on a call."""


def reason_of(error: BaseException) -> str:
    """Why it failed, in one short line: that of the first error in a group which is not a mere consequence."""
    leaves = list(_leaves(error))
    found = next((leaf for leaf in leaves if isinstance(leaf, Exception)), leaves[0])
    if isinstance(found, TimeoutError):
        return "it did not answer in time"
    if isinstance(found, ConfigurationError):
        return "; ".join(found.problems)
    if isinstance(found, OSError) and found.strerror:
        named = f" {found.filename!r}" if found.filename else ""
        return f"{found.strerror}{named}"
    text = " ".join(str(found).split())
    return cut(text or type(found).__name__, REASON_LENGTH)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
