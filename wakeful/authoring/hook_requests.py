"""What hooks ask for, and what comes of it when several do.

Hooks of one phase run one after another, in the order of the agent's plugins, so the rules are simple:

- state: each hook sees what those before it wrote
- context messages: the last word on a key counts, be it a message or that it is forgotten
- permission rules, events: all of them, in order
- overrides of the inference: field by field, the last one
- tools: those that any hook includes, less those that any hook excludes; without an include, all but the excluded
- messages, an answer's text, a tool's result after it ran: each hook sees what the one before it made of them
- a verdict on a call: block before suspend before a result, and then the first one
- stop, block and retry: the first one of each
- handoff: the last one
"""

from dataclasses import dataclass

from wakeful.authoring.gate import stronger
from wakeful.contract.context import ContextMessage
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import EmittedEvent
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.messages import Message
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import StopDetail
from wakeful.contract.tools import ToolResult


@dataclass
class HookRequests:
    """What one hook has asked for so far, or several; state is not among it."""

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

    def tell(self, message: ContextMessage) -> None:
        self.context = (*(other for other in self.context if other.key != message.key), message)
        self.forget = tuple(key for key in self.forget if key != message.key)

    def forget_key(self, key: str) -> None:
        self.context = tuple(message for message in self.context if message.key != key)
        self.forget = (*(other for other in self.forget if other != key), key)

    def override(self, overrides: InferenceOverrides) -> None:
        self.overrides = overrides.over(self.overrides)

    def include_only(self, tools: frozenset[str]) -> None:
        self.included = tools if self.included is None else self.included | tools

    def judge(self, verdict: Verdict) -> None:
        self.verdict = stronger(self.verdict, verdict)

    def shows(self, tool_id: str) -> bool:
        """Whether the model is shown this tool."""
        return tool_id not in self.excluded and (self.included is None or tool_id in self.included)

    def take(self, other: "HookRequests") -> None:
        """Add what the next hook asked for. Verdicts and results are about one call, and not added up here."""
        for key in other.forget:
            self.forget_key(key)
        for message in other.context:
            self.tell(message)
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
