"""A decision about a tool call as a thread applied it: who decided what, when, why, and by which way it came.

Its event has the whole of it. Messages, statuses and outcomes have as much as fits them.
"""

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue
from pydantic_core import to_json

from wakeful.contract.base import Few, Maybe, Wire, json_bytes
from wakeful.contract.limits import cut


class DecisionAction(StrEnum):
    """What a decision does with a suspended call: `resume` runs it, `cancel` does not."""

    RESUME = "resume"
    CANCEL = "cancel"


DecisionActionName = Literal["resume", "cancel"]


class DecisionChannel(StrEnum):
    """The way by which a decision came."""

    CLI = "cli"
    CLIENT = "client"
    """A program that uses `Client`."""
    WORKFLOW = "workflow"
    """A workflow that runs the agent (`AgentHandle.decide`)."""
    SIGNAL = "signal"
    """A `decide` signal that names no channel: of Temporal's own tools, or of a client in another language."""
    A2A = "a2a"
    MCP = "mcp"
    DEADLINE = "deadline"
    """The call expired: no decision came in time."""
    RULE = "rule"
    """A rule that an earlier decision with `always` added allowed the call, which was not suspended."""

    @property
    def is_sent(self) -> bool:
        """Whether a client can name it. The runtime itself decides by the others."""
        return self not in (DecisionChannel.DEADLINE, DecisionChannel.RULE)


DecisionChannelName = Literal["cli", "client", "workflow", "signal", "a2a", "mcp", "deadline", "rule"]

ACTOR_LENGTH = 200
"""Characters of the name of who decided that are remembered."""

REASON_LENGTH = 300
"""Characters of a reason that are remembered."""

ARGUMENTS_BYTES = 2_000
ARGUMENTS_LENGTH = 500
"""Of edited arguments: bytes that are remembered whole, and characters of those that are cut."""


class AppliedDecision(Wire):
    """What was decided about a call, by whom and when."""

    action: DecisionAction
    actor: Maybe[str] = None
    """Who decided, as the sender stated it."""
    at: int
    """When the thread applied it, in milliseconds since 1970."""
    channel: Maybe[DecisionChannel] = None
    reason: Maybe[str] = None
    arguments: Maybe[JsonValue] = None
    """The arguments that the call runs with, if the decision has replaced them."""
    result: Maybe[JsonValue] = None
    """What was answered, for the tool to read. If it is the call's result, `tool_call_resumed` has it instead."""
    always: Few[bool] = False
    """Such calls are allowed on the thread from then on."""
    rule: Maybe[str] = None
    """With `always`, the rule that was added; of the channel `rule`, the rule that allowed the call."""
    decision_id: Few[str] = ""

    def of(self, call: str) -> str:
        """A sentence on the decision, without its time; `call` is what a client calls the call."""
        verb = "approved" if self.action is DecisionAction.RESUME else "denied"
        return f"call {call!r} was already {verb}" + ("" if self.actor is None else f" by {self.actor!r}")

    @property
    def as_remembered(self) -> "AppliedDecision":
        """Who decided what and when: a thread remembers many."""
        actor = None if self.actor is None else cut(self.actor, ACTOR_LENGTH)
        return AppliedDecision(action=self.action, actor=actor, at=self.at)

    @property
    def as_shown(self) -> "AppliedDecision":
        """As the result of the call shows it: what can be long is cut, and `{"cut": …}` is in place of arguments."""
        arguments = self.arguments
        if arguments is not None and json_bytes(arguments) > ARGUMENTS_BYTES:
            arguments = {"cut": cut(to_json(arguments).decode(), ARGUMENTS_LENGTH)}
        return self.model_copy(
            update={
                "actor": None if self.actor is None else cut(self.actor, ACTOR_LENGTH),
                "reason": None if self.reason is None else cut(self.reason, REASON_LENGTH),
                "arguments": arguments,
                "result": None,
                "rule": None if self.rule is None else cut(self.rule, REASON_LENGTH),
                "decision_id": "",
            }
        )
