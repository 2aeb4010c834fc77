"""Messages between agents: send one, and keep those that could not be delivered."""

import hashlib
from collections.abc import Mapping

from pydantic import JsonValue

from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.mail import LETTER_ID, LETTER_LIMIT, DeadLetter, Letter, Relation, Sender
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import RECIPIENT_NOT_FOUND, RECIPIENT_UNAVAILABLE, SIGNAL_DELIVER
from wakeful.contract.tasks import TaskType
from wakeful.contract.tools import ToolResult
from wakeful.loop.calls.batch import NewCall, ResumingCall, RunningCall
from wakeful.loop.calls.commit import answer, move
from wakeful.loop.machine.commands import Command, Deliver, Tell
from wakeful.loop.machine.facts import Told, WorkFact, WorkFailed
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import Advance, RunState, letter_id
from wakeful.loop.thread.carryover import newest_letters

KEPT_LETTERS = 100
"""Dead letters that a thread keeps, if they are not too long; of more the oldest are forgotten."""

Starting = NewCall | ResumingCall


def send(state: RunState, call: Starting, asked: ToolCall) -> Advance:
    """Send a message; the answer is a receipt, and comes when it has been delivered or cannot be."""
    to, text = _addressed(asked)
    match to["relation"]:
        case "child":
            return _send_to_child(state, call, str(to["name"]), text)
        case "parent":
            parent = state.identity.parent_thread_id
            if parent is None:
                return _refused(state, call, RECIPIENT_UNAVAILABLE)
            return _sending(state, call, _letter(state, call.call, "parent", parent, text))
        case _:
            thread_id, agent_id = str(to["thread_id"]), to.get("agent_id")
            if not thread_id:
                return _refused(state, call, RECIPIENT_NOT_FOUND)
            letter = _letter(state, call.call, "agent", thread_id, text)
            is_named = isinstance(agent_id, str) and agent_id
            named = letter.model_copy(update={"recipient_agent_id": agent_id if is_named else None})
            return _sending(state, call, named)


def _addressed(call: ToolCall) -> tuple[Mapping[str, JsonValue], str]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    to, text = arguments.get("to"), arguments.get("message")
    if not isinstance(to, dict):
        raise _wrong("missing 'to'")
    relation = to.get("relation")
    if not isinstance(relation, str):
        raise _wrong("missing 'to.relation'")
    if relation not in _NEEDS:
        raise _wrong(f"unknown relation '{relation}'")
    needed = _NEEDS[relation]
    if needed is not None and not isinstance(to.get(needed), str):
        raise _wrong(f"{relation} requires '{needed}'")
    if not isinstance(text, str):
        raise _wrong("missing 'message'")
    if len(text) > LETTER_LIMIT:
        raise _wrong(f"the message has {len(text):,} characters, and at most {LETTER_LIMIT:,} fit")
    return to, text


_NEEDS = {"parent": None, "child": "name", "agent": "thread_id"}


def _wrong(what: str) -> ToolError:
    return ToolError(what, kind=ToolErrorKind.INVALID_ARGUMENTS)


def _send_to_child(state: RunState, call: Starting, name: str, text: str) -> Advance:
    task = state.find_task(name)
    if task is None:
        return _refused(state, call, RECIPIENT_NOT_FOUND)
    if task.task_type is not TaskType.SUB_AGENT or task.thread_id is None:
        return _refused(state, call, RECIPIENT_UNAVAILABLE)
    letter = _letter(state, call.call, "child", task.thread_id, text)
    return _sending(state, call, letter.model_copy(update={"task_id": task.task_id}))


def _letter(state: RunState, call: ToolCall, relation: Relation, thread_id: str, text: str) -> Letter:
    """A letter with an id that this call alone has, and has again if history is replayed or reset."""
    identity = state.identity
    id = hashlib.sha256(f"{identity.thread_id}\n{identity.run_id}\n{call.id}".encode()).hexdigest()[:24]
    return Letter(
        message_id=f"{LETTER_ID}{id}",
        sender=_sender(state, relation),
        content=text,
        relation=relation,
        recipient_thread_id=thread_id,
    )


def _sender(state: RunState, relation: Relation) -> Sender:
    """Who writes; a background task tells its owner which one it is."""
    identity, task = state.identity, state.identity.task
    sender = Sender(agent_id=state.agent.agent_id, thread_id=identity.thread_id)
    if relation != "parent" or task is None or not identity.is_task:
        return sender
    return sender.model_copy(update={"task_id": task.task_id, "name": task.name})


def _sending(state: RunState, call: Starting, letter: Letter) -> Advance:
    grants = call.grants if isinstance(call, ResumingCall) else 0
    running = RunningCall(call.call, f"send-{call.call.id}", grants=grants, by="runtime", letter=letter)
    return replace(move(state, running), commands=(send_command(running.id, letter),))


def send_command(id: str, letter: Letter) -> Command:
    """A child is awake and is told; others are reached awake or not."""
    if letter.relation == "child":
        return Tell(id, letter.recipient_thread_id, SIGNAL_DELIVER, letter)
    return Deliver(id, letter)


def sent(state: RunState, call: RunningCall, fact: WorkFact, *, now: int) -> Advance:
    """The letter of a call was delivered, or cannot be; one that was to last is kept among the dead letters."""
    letter = call.letter
    assert letter is not None  # only calls that send have come here
    if isinstance(fact, Told):
        receipt: JsonValue = {"message_id": letter.message_id, "status": "accepted"}
        return answer(state, call, ToolResult.success(call.call.name, receipt))
    error = fact.error if isinstance(fact, WorkFailed) else RECIPIENT_UNAVAILABLE
    if letter.relation != "child":
        state = burying(state, letter, error, now=now)
    return _refused(state, call, error)


def _refused(state: RunState, call: Starting | RunningCall, error: str) -> Advance:
    receipt: JsonValue = {"message_id": "", "status": "failed", "error": error}
    return answer(state, call, ToolResult.success(call.call.name, receipt))


def burying(state: RunState, letter: Letter, error: str, *, now: int) -> RunState:
    """The state with one more dead letter, once."""
    others = tuple(dead for dead in state.letters if dead.letter.message_id != letter.message_id)
    letters = (*others, DeadLetter(letter=letter, error=error, at=now))[-KEPT_LETTERS:]
    return replace(state, letters=newest_letters(letters))


def recover(state: RunState, call: Starting, asked: ToolCall) -> Advance:
    """What the model may do with the messages that could not be delivered."""
    arguments = asked.arguments if isinstance(asked.arguments, dict) else {}
    action = arguments.get("action") or "list"
    count = len(state.letters)
    match action:
        case "list":
            messages: JsonValue = [_told(dead) for dead in state.letters]
            listed: JsonValue = {"action": action, "count": count, "messages": messages}
            return answer(state, call, ToolResult.success(call.call.name, listed))
        case "replay":
            moved = replay(state)
        case "clear":
            moved = clear(state)
        case _:
            raise _wrong(f"unknown action '{action}'")
    return moved.then(answer, call, ToolResult.success(call.call.name, {"action": action, "count": count}))


def _told(dead: DeadLetter) -> JsonValue:
    return {
        "message_id": dead.letter.message_id,
        "recipient_thread_id": dead.letter.recipient_thread_id,
        "recipient_agent_id": dead.letter.recipient_agent_id,
        "error": dead.error,
    }


def replay(state: RunState) -> Advance:
    """Send every dead letter again, one after another, under the ids they have."""
    is_sending = bool(state.outbox)
    state = replace(state, outbox=(*state.outbox, *(dead.letter for dead in state.letters)), letters=())
    return Advance(state, () if is_sending else first_letter(state))


def clear(state: RunState) -> Advance:
    return Advance(replace(state, letters=()))


def first_letter(state: RunState) -> tuple[Command, ...]:
    return tuple(send_command(letter_id(letter), letter) for letter in state.outbox[:1])


def replayed(state: RunState, fact: WorkFact, *, now: int) -> Advance:
    """The first letter of those that are sent again has arrived, or is dead again; the next one goes."""
    letter, rest = state.outbox[0], state.outbox[1:]
    state = replace(state, outbox=rest)
    if not isinstance(fact, Told):
        error = fact.error if isinstance(fact, WorkFailed) else "it was stopped"
        state = burying(state, letter, error, now=now)
    return Advance(state, first_letter(state))
