"""A conversation that is built from events alone, as a chat page builds it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.events import (
    AgentEvent,
    AnswerGiven,
    MailArrived,
    MessageEdited,
    MessageReceived,
    MessagesRead,
    MessagesWithdrawn,
    NoteAdded,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
)
from wakeful.contract.messages import Message, Role
from wakeful.contract.names import TOOL_INTERRUPTED

Entry = tuple[Role, str, str]
"""A role, a text, and the id of the message, or, of a tool's result, of its call."""


@dataclass
class _Answer:
    id: str
    text: str = ""
    results: dict[str, str | None] = field(default_factory=dict)
    """By call id; None until there is one."""
    has_ended: bool = False


@dataclass
class Conversation:
    """Takes events, in order."""

    entries: list[Entry] = field(default_factory=list)
    received: dict[str, tuple[Role, str]] = field(default_factory=dict)
    run_id: str = ""
    run_starts_at: int = 0
    answer: _Answer | None = None
    result_ids: dict[str, str] = field(default_factory=dict)
    """The ids of the messages that have, or will have, the results of calls; by call id."""

    def add(self, event: AgentEvent) -> None:
        match event:
            case MessageReceived(message=message) | MessageEdited(message=message):
                self.received[message.id] = message.role, message.text
            case MessagesWithdrawn(message_ids=ids):
                for id in ids:
                    del self.received[id]
            case MailArrived(message_id=id, text=text):
                self.received[id] = Role.USER, text
            case RunStart(run_id=run_id, message_ids=ids):
                if run_id != self.run_id:
                    self.run_id, self.run_starts_at = run_id, len(self.entries)
                self._read(ids)
            case MessagesRead(message_ids=ids):
                self._read(ids)
            case NoteAdded(message_id=id, text=text):
                self.entries.append((Role.USER, text, id))
            case AnswerGiven(message_id=id, text=text):
                self.entries.append((Role.ASSISTANT, text, id))
            case RunFinish(rolled_back=True):
                del self.entries[self.run_starts_at :]
            case StepStart(message_id=id):
                self.answer = _Answer(id)
            case _ if self.answer is not None:
                self._add_to(self.answer, event)
            case _:
                pass

    def _read(self, ids: tuple[str, ...]) -> None:
        self.entries += [(*self.received[id], id) for id in ids]

    def _add_to(self, answer: _Answer, event: AgentEvent) -> None:
        match event:
            case StreamReset():
                answer.text = ""
            case TextDelta(delta=text):
                answer.text += text
            case ToolCallReady(id=id):
                answer.results[id] = None
            case ToolCallDone(id=id, message_id=message_id, result=result, outcome=outcome):
                self.result_ids[id] = message_id
                if outcome is not ToolCallOutcome.SUSPENDED:
                    answer.results[id] = result.text
            case ToolCallResumed(target_id=id, result=payload, text=text):
                answer.results[id] = _text_of(payload) if text is None else text
            case ToolCallCancel(id=id) if id in answer.results:
                answer.results[id] = TOOL_INTERRUPTED
            case StepEnd(discarded=True):
                self.answer = None
                return
            case StepEnd():
                answer.has_ended = True
            case _:
                return
        results = [(Role.TOOL, text, id) for id, text in answer.results.items() if text is not None]
        if answer.has_ended and len(results) == len(answer.results):
            self.entries += [(Role.ASSISTANT, answer.text, answer.id), *results]
            self.answer = None


def _text_of(payload: JsonValue) -> str:
    if isinstance(payload, str):
        return payload
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)


def conversation_of(events: Sequence[AgentEvent]) -> list[Entry]:
    """What a watcher of these events knows of the conversation."""
    conversation = Conversation()
    for event in events:
        conversation.add(event)
    return conversation.entries


def entries_of(messages: Sequence[Message]) -> list[Entry]:
    """The same of a transcript."""
    return [(message.role, message.text, message.tool_call_id or message.id) for message in messages]
