"""What hooks request, and how the requests of several hooks are merged.

The hooks of one phase run one after another, in the order of the agent's plugins:

- state: each hook reads what earlier hooks wrote
- context messages: the last request for a key wins, whether it adds or removes the message
- permission rules, events: all of them, in order
- inference overrides: field by field, the last one wins
- tools: those that any hook includes (all, if none does), minus those that any hook excludes
- messages, an answer's text, a finished call's result: each hook sees what the previous one made of it
- verdicts on a call: block over suspend over a result, and the first of equals
- stop, block, retry: the first of each
- handoff: the last
"""

from dataclasses import dataclass

from wakeful.authoring.gate import stronger
from wakeful.contract.context import ContextMessage
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import EmittedEvent
from wakeful.contract.messages import Message
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import StopDetail
from wakeful.contract.tools import ToolResult


@dataclass
class HookRequests:
    """The requests of one hook, or of several merged; state is not part of them."""

    context: tuple[ContextMessage, ...] = ()
    forget: tuple[str, ...] = ()
    permissions: tuple[Rule, ...] = ()
    events: tuple[EmittedEvent, ...] = ()
    handoff: str | None = None
    stop: StopDetail | None = None
    block: str | None = None
    retry: str | None = None
    overrides: InferenceOverrides = InferenceOverrides()
    excluded: frozenset[str] = frozenset()
    included: frozenset[str] | None = None
    messages: tuple[Message, ...] | None = None
    text: str | None = None
    verdict: Verdict | None = None
    result: ToolResult | None = None

    @property
    def ends_run(self) -> bool:
        return self.stop is not None or self.block is not None

    def add_context(self, message: ContextMessage) -> None:
        self.context = (*(other for other in self.context if other.key != message.key), message)
        self.forget = tuple(key for key in self.forget if key != message.key)

    def remove_context(self, key: str) -> None:
        self.context = tuple(message for message in self.context if message.key != key)
        self.forget = (*(other for other in self.forget if other != key), key)

    def override(self, overrides: InferenceOverrides) -> None:
        self.overrides = overrides.over(self.overrides)

    def include_only(self, tools: frozenset[str]) -> None:
        self.included = tools if self.included is None else self.included | tools

    def add_verdict(self, verdict: Verdict) -> None:
        self.verdict = stronger(self.verdict, verdict)

    def shows(self, tool_id: str) -> bool:
        """Whether the request includes this tool."""
        return tool_id not in self.excluded and (self.included is None or tool_id in self.included)

    def merge(self, other: "HookRequests") -> None:
        """Add the next hook's requests. Verdicts and results concern a single call and are not merged here."""
        for key in other.forget:
            self.remove_context(key)
        for message in other.context:
            self.add_context(message)
        self.permissions += other.permissions
        self.events += other.events
        self.override(other.overrides)
        self.excluded |= other.excluded
        if other.included is not None:
            self.include_only(other.included)
        self.stop = self.stop or other.stop
        self.block = self.block if self.block is not None else other.block
        self.retry = self.retry if self.retry is not None else other.retry
        self.handoff = other.handoff or self.handoff
        self.messages = self.messages if other.messages is None else other.messages
        self.text = self.text if other.text is None else other.text
