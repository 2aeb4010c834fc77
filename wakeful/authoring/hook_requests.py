"""What hooks and tools request, and how the requests of several hooks are merged.

The hooks of one phase run one after another, in the order of the agent's plugins:

- state: each hook reads what earlier hooks wrote
- context messages: the last request for a key wins, whether it adds or removes the message
- permission rules, events: all of them, in order
- inference overrides: field by field, the last one wins
- tools: those that any hook includes (all, if none does), minus those that any hook excludes
- messages, an answer's text, a finished call's result: each hook sees what the previous one made of it
- verdicts on a call: block over suspend over a result, and the first of equals
- stop, block, finish, retry: the first of each
- pending work: the last request for a key wins, whether it holds or releases
- handoff: the last
"""

import json
from dataclasses import dataclass, field
from typing import Any, overload

from pydantic_core import to_jsonable_python

from wakeful.authoring.gate import stronger
from wakeful.contract.context import ContextMessage, ContextTarget, ContextTargetName
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import EmittedEvent, FinalAnswer, Hold, RequestChanges
from wakeful.contract.limits import cut
from wakeful.contract.messages import Message, TextBlock
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import CODE_LENGTH, StopDetail
from wakeful.contract.tools import ToolResult
from wakeful.permissions.rules import rule_problems


@dataclass
class HookRequests:
    """The requests of one hook or tool, or of several merged; state is not part of them."""

    context: tuple[ContextMessage, ...] = ()
    forget: tuple[str, ...] = ()
    forget_prefixes: tuple[str, ...] = ()
    permissions: tuple[Rule, ...] = ()
    events: tuple[EmittedEvent, ...] = ()
    hold: tuple[Hold, ...] = ()
    release: tuple[str, ...] = ()
    handoff: str | None = None
    stop: StopDetail | None = None
    block: str | None = None
    finish: FinalAnswer | None = None
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
        return self.stop is not None or self.block is not None or self.finish is not None

    @property
    def request_changes(self) -> RequestChanges | None:
        """What is requested for the agent's next request; None if nothing."""
        changes = RequestChanges(
            overrides=None if self.overrides == InferenceOverrides() else self.overrides,
            excluded=tuple(sorted(self.excluded)),
            included=None if self.included is None else tuple(sorted(self.included)),
        )
        return None if changes == RequestChanges() else changes

    def add_context(self, message: ContextMessage) -> None:
        self.context = (*(other for other in self.context if other.key != message.key), message)
        self.forget = tuple(key for key in self.forget if key != message.key)

    def remove_context(self, key: str) -> None:
        self.context = tuple(message for message in self.context if message.key != key)
        self.forget = (*(other for other in self.forget if other != key), key)

    def remove_context_prefix(self, prefix: str) -> None:
        self.context = tuple(message for message in self.context if not message.key.startswith(prefix))
        self.forget_prefixes = (*(other for other in self.forget_prefixes if other != prefix), prefix)

    def forgets(self, key: str) -> bool:
        """Whether the message with this key, as it was before these requests, is removed."""
        return key in self.forget or key.startswith(self.forget_prefixes)

    def hold_open(self, hold: Hold) -> None:
        self.hold = (*(other for other in self.hold if other.key != hold.key), hold)
        self.release = tuple(key for key in self.release if key != hold.key)

    def release_hold(self, key: str) -> None:
        self.hold = tuple(hold for hold in self.hold if hold.key != key)
        self.release = (*(other for other in self.release if other != key), key)

    def override(self, overrides: InferenceOverrides) -> None:
        self.overrides = overrides.over(self.overrides)

    def include_only(self, tools: frozenset[str]) -> None:
        self.included = tools if self.included is None else self.included | tools

    def change_request(self, changes: RequestChanges) -> None:
        """Add what was requested for this request before it."""
        self.override(changes.overrides or InferenceOverrides())
        self.excluded |= frozenset(changes.excluded)
        if changes.included is not None:
            self.include_only(frozenset(changes.included))

    def add_verdict(self, verdict: Verdict) -> None:
        self.verdict = stronger(self.verdict, verdict)

    def shows(self, tool_id: str) -> bool:
        """Whether the request includes this tool."""
        return tool_id not in self.excluded and (self.included is None or tool_id in self.included)

    def merge(self, other: "HookRequests") -> None:
        """Add the next hook's requests. Verdicts and results concern a single call and are not merged here."""
        for key in other.forget:
            self.remove_context(key)
        for prefix in other.forget_prefixes:
            self.remove_context_prefix(prefix)
        for message in other.context:
            self.add_context(message)
        for key in other.release:
            self.release_hold(key)
        for hold in other.hold:
            self.hold_open(hold)
        self.permissions += other.permissions
        self.events += other.events
        self.override(other.overrides)
        self.excluded |= other.excluded
        if other.included is not None:
            self.include_only(other.included)
        self.stop = self.stop or other.stop
        self.block = self.block if self.block is not None else other.block
        self.finish = self.finish or other.finish
        self.retry = self.retry if self.retry is not None else other.retry
        self.handoff = other.handoff or self.handoff
        self.messages = self.messages if other.messages is None else other.messages


@dataclass(frozen=True, kw_only=True)
class Requesting:
    """What every hook and every tool can request. The loop applies the requests together with the call's result."""

    requests: HookRequests = field(default_factory=HookRequests, repr=False)
    """The requests that were made so far."""

    @overload
    def add_context(self, message: ContextMessage, /) -> None: ...
    @overload
    def add_context(
        self,
        key: str,
        text: str,
        /,
        *,
        target: ContextTarget | ContextTargetName = ...,
        cooldown_turns: int = ...,
        persistent: bool = ...,
    ) -> None: ...
    def add_context(
        self,
        message: ContextMessage | str,
        text: str | None = None,
        /,
        *,
        target: ContextTarget | ContextTargetName = ContextTarget.SYSTEM,
        cooldown_turns: int = 0,
        persistent: bool = False,
    ) -> None:
        """Add a message to a request, beside the conversation; it never becomes part of the transcript.

        In `step_start` and `before_inference` it goes into this step's request, otherwise into the next one.
        A later message with the same key replaces an earlier one.

        Args:
            target: where in the request the message goes: see `ContextTarget`.
            cooldown_turns: send the same text again only after this many steps.
            persistent: send it with every request until you remove it.
        """
        if isinstance(message, str):
            message = ContextMessage(
                key=message,
                content=(TextBlock(text=text or ""),),
                target=target,
                cooldown_turns=cooldown_turns,
                persistent=persistent,
            )
        self.requests.add_context(message)

    def remove_context(self, key: str) -> None:
        """Stop sending the context message with this key."""
        self.requests.remove_context(key)

    def remove_context_prefix(self, prefix: str) -> None:
        """Stop sending the context messages whose keys start with `prefix`."""
        self.requests.remove_context_prefix(prefix)

    def clear_context(self) -> None:
        """Stop sending all context messages; the agent's own are sent again from its next run on."""
        self.requests.remove_context_prefix("")

    def override(self, overrides: InferenceOverrides) -> None:
        """Use other settings, or another model of the same provider, for one request.

        In `step_start` and `before_inference` that is this step's request, otherwise the agent's next one in this run.
        `exclude_tools` and `include_only_tools` concern the same request.
        """
        self.requests.override(overrides)

    def exclude_tools(self, *ids: str) -> None:
        """Leave these tools out of one request."""
        self.requests.excluded |= frozenset(ids)

    def include_only_tools(self, *ids: str) -> None:
        """Include only these tools in one request, plus those that others include."""
        self.requests.include_only(frozenset(ids))

    def add_permissions(self, *rules: Rule) -> None:
        """Add permission rules for the rest of the run: they allow, deny or ask about tool calls.

        Raises:
            ValueError: a rule's pattern is malformed.
        """
        if problems := rule_problems(rules):
            raise ValueError("; ".join(problems))
        self.requests.permissions += rules

    def hold(self, key: str, reason: str = "") -> None:
        """Keep the run open for pending work: it does not come to its natural end until you release the key.

        When the model is done, the run waits for a message and reads it. A stop, a cancel or a deadline ends the run.

        Args:
            key: names the work, in this run.
            reason: what the run waits for, for people.
        """
        self.requests.hold_open(Hold(key=key, reason=reason))

    def release(self, key: str) -> None:
        """The pending work with this key is done."""
        self.requests.release_hold(key)

    def stop(self, code: str, detail: str | None = None) -> None:
        """End the run as stopped, with a code for programs and a detail for people.

        Raises:
            ValueError: the code has more than 100 characters.
        """
        if len(code) > CODE_LENGTH:
            problem = f"the code of a stop has {len(code):,} characters, and at most {CODE_LENGTH} are allowed"
            raise ValueError(f"{problem}: {cut(code, CODE_LENGTH)!r}. Put the text into `detail`")
        self.requests.stop = self.requests.stop or StopDetail(code=code, detail=detail)

    def finish(self, answer: Any = "") -> None:
        """End the run as completed (`behavior_requested`), with this answer instead of one of the model.

        The answer becomes part of the conversation, unless it is empty.

        Args:
            answer: a text; or, for an agent with an output type, a value of that type.
        """
        if self.requests.finish is None:
            self.requests.finish = _final_answer(answer)

    def handoff(self, agent_id: str) -> None:
        """Hand the run off to another agent, which takes over from the next step. The last handoff counts."""
        self.requests.handoff = agent_id


def _final_answer(answer: Any) -> FinalAnswer:
    if isinstance(answer, str):
        return FinalAnswer(text=answer)
    output = to_jsonable_python(answer)
    return FinalAnswer(text=json.dumps(output, ensure_ascii=False), output=output)
