"""People and programs outside: they send messages, decide, cancel, read, and make mistakes."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue
from temporalio.api.update.v1 import Request

from tests.simulation.authority import settings_of
from tests.simulation.execution import Execution
from tests.simulation.instances import updates_of
from tests.simulation.service import CONVERTER, Network, SimulatedService, client_of
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.workload import INTRUDING, MISSING_AGENT, ROOT_AGENTS, TENANT, decision_result
from wakeful.client.changes import Changed
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.budgets import Spent
from wakeful.contract.errors import ThreadNotFound
from wakeful.contract.events import EventRecord
from wakeful.contract.mail import AgentMessage, ReturnedMessage, Sender, TaskEvent
from wakeful.contract.runs import OnBusy, ThreadMode
from wakeful.contract.settings import RunSettings
from wakeful.contract.subagents import BudgetGrant, BudgetRequest, ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful.loop.machine.stages import AwaitingTasks, Cancelling
from wakeful.loop.machine.state import Thread
from wakeful_workflows import AgentRun

if TYPE_CHECKING:
    from tests.simulation.world import World

THREADS = ("t1", "t2")

WATCHED = 0.15
"""The share of schedules in which watchers follow the threads."""

UPDATES = tuple(updates_of(AgentRun))
"""The updates that the workflow has: a client may use any."""

READS = ("status", "transcript", "events", "state", "queued", "permissions")
DECISIONS = ("resume", "resume", "cancel", "edit", "confirm", "confirm", "always", "repeat", "stale")
VERBS = frozenset(
    {"send", "ask-for", "resend", "withdraw", "edit", "revoke", "submit", "junk", "stray", "decide", "update"}
    | {"look-at", "cancel", "close", "undelivered", "temporal-cancel", "stop", "terminate", "fork", "rewind"}
)

AIMED_AT, AT_CHILD = 0.6, 0.2
"""How often people act on the thread that a schedule aims at, and how often on a sub-agent."""

JUNK: tuple[tuple[str, object], ...] = (
    (names.SIGNAL_DECIDE, {"no": 1}),
    (names.SIGNAL_DECIDE, []),
    (names.SIGNAL_SUBMIT, {"input": ""}),
    (names.SIGNAL_SUBMIT, 7),
    (names.SIGNAL_CANCEL, "now"),
    (names.SIGNAL_EDIT, {"message": {"content": "which?"}}),
    (names.SIGNAL_WITHDRAW, []),
    (names.SIGNAL_REVOKE, None),
    (names.SIGNAL_CHILD_SETTLED, {"work_id": "delegate-9-9"}),
    (names.SIGNAL_DELIVER, None),
    (names.SIGNAL_BUDGET_GRANT, {"work_id": "x"}),
    ("misspelt", {"input": "hello"}),
)

_FOREIGN = AgentMessage(
    message_id="",
    sender=Sender(agent_id="foreign", thread_id="elsewhere", tenant=TENANT),
    content="hello from elsewhere",
    relation="agent",
    recipient_thread_id="",
)

STRAYS = (
    "mail",
    "mail-returned",
    "budget-request",
    "budget-request-of-t1",
    "budget-grant",
    "child-settled",
    "task-event",
)
"""Signals that are well-formed, but come from threads which this one does not know, or no longer."""


@dataclass
class Sent:
    """A message that a client sent, and whether the server has accepted it."""

    thread_id: str
    message_id: str
    text: str
    on_busy: str
    task: "asyncio.Task[Any] | None" = None
    number: int = 0

    @property
    def tenant(self) -> str | None:
        """Of the sender: now and then another one, whose messages are refused; and some senders have none."""
        return "beta" if _is_intruder(self.number) else TENANT if self.number % 2 else None

    @property
    def user(self) -> str | None:
        """Of the sender: often none, or the one who started the thread; now and then another one."""
        return (None, self.thread_id, None, self.thread_id, f"u{self.number}")[self.number % 5]

    @property
    def is_accepted(self) -> bool:
        return self.task is None or (self.task.done() and not self.task.cancelled() and self.task.exception() is None)


@dataclass
class Change:
    """A message that a client asked to withdraw, or to replace by this text, and what it was told."""

    sent: Sent
    text: str | None
    task: "asyncio.Task[Changed | None]"

    @property
    def is_applied(self) -> bool:
        """Whether the thread has confirmed it."""
        task = self.task
        return task.done() and not task.cancelled() and task.exception() is None and task.result() is not None


@dataclass
class Asked:
    """A call of a client verb, and its task."""

    key: str
    task: "asyncio.Task[Any]"


@dataclass
class People:
    seed: str
    network: Network
    loop: VirtualLoop
    world: "World"
    sent: list[Sent] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    known_calls: list[tuple[str, str]] = field(default_factory=list)
    """Thread and call of every suspension that a person has seen."""
    disturbed: set[str] = field(default_factory=set)
    """Threads that were terminated or rewound: what they had not read may be lost."""
    number: int = 0
    target: str = ""
    """The thread that the schedule aims at, once it is in the stage."""
    watched: dict[str, list[EventRecord]] = field(default_factory=dict)
    """What watchers have seen of each thread from its beginning; empty in a schedule without watchers."""
    watching: list["asyncio.Task[None]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.service = SimulatedService(self.network, "person")
        self.client = Client(client_of(self.service))
        random = Random(f"{self.seed}/people")
        for thread in THREADS:
            agent = self.world.options.agent if thread == THREADS[0] else ""
            agent = agent or random.choice(ROOT_AGENTS)
            mode = random.choice([ThreadMode.THREAD, ThreadMode.THREAD, ThreadMode.RUN])
            mode = self.world.options.mode or mode
            given = _for_user(thread) | dict(self.settings(thread))
            start = self.client.start(agent, f"hello {thread}", thread_id=thread, mode=mode, tenant=TENANT, **given)
            self._call(f"start {thread}", start)

        if random.random() < WATCHED:
            self.watched = {thread: [] for thread in THREADS}
            self.watching = [self.loop.create_task(self._watch(thread)) for thread in THREADS]

    async def _watch(self, thread: str) -> None:
        try:
            async for record in self.client.watch(thread):
                self.watched[thread].append(record)
        except ThreadNotFound:
            pass  # its start has not reached the server yet

    def has_stopped(self, thread: str) -> bool:
        """Whether the watcher of a thread has seen its end; a thread that is woken later has more events."""
        return self.watching[THREADS.index(thread)].done()

    def likely_actions(self, random: Random) -> list[str]:
        """A few things that people could do now, chosen at random, as the keys of moves."""
        self.number += 1
        thread, on_busy = self._someone(random), random.choice(list(OnBusy)).value
        questions = self.questions()
        actions = [
            f"send {thread} {on_busy} {self.number}",
            f"submit {thread} {on_busy} {self.number}",
            f"junk {thread} {random.randrange(len(JUNK))}",
            f"stray {thread} {random.choice(STRAYS)} {self.number}",
            f"read-{random.choice(READS)} {thread}",
            f"look-at {thread}",
            f"decide {thread} {random.randint(1, 6)}-{random.randint(1, 3)} early",
            f"revoke {thread} {self.number}",
        ]
        cold = [execution.workflow_id for execution in self.network.server.open if self.world.is_in_no_cache(execution)]
        actions += [f"look-at {thread_id}" for thread_id in cold] * 2
        for thread_id, call_id in [known for known in self.known_calls if known[0] in cold]:
            actions += [f"update {thread_id} {call_id} {name} {self.number}" for name in UPDATES] * 2
        if self.sent:
            actions.append(f"resend {random.randrange(len(self.sent))}")
            recent = random.randrange(max(0, len(self.sent) - 4), len(self.sent))
            actions += [f"withdraw {recent} {self.number}", f"edit {recent} {self.number}"]
        for thread_id, call_id, topic in questions:
            how = random.choice(DECISIONS) if topic or random.random() < 0.5 else "always"
            actions += [f"decide {thread_id} {call_id} {how}"] * 2
            actions += [f"update {thread_id} {call_id} {name} {self.number}" for name in UPDATES] * 2
        if self.known_calls:
            thread_id, call_id = random.choice(self.known_calls)
            actions.append(f"decide {thread_id} {call_id} late")
        closed = [thread_id for thread_id in self.disturbed if not self._is_open(thread_id)]
        for thread_id in sorted(closed):
            children = [child.workflow_id for child in self._children() if child.workflow_id.startswith(thread_id)]
            actions += [f"send {thread_id} enqueue {self.number}", *(f"terminate {child}" for child in children)]
        return actions

    def _someone(self, random: Random) -> str:
        """The thread that people act on."""
        roll = random.random()
        if self.target and roll < AIMED_AT:
            return self.target
        children = [child.workflow_id for child in self._children() if child.workflow_type == names.WORKFLOW]
        if children and roll > 1 - AT_CHILD:
            return random.choice(children)
        return random.choice(THREADS)

    def _children(self) -> list[Execution]:
        return [execution for execution in self.network.server.open if execution.parent is not None]

    def _is_open(self, thread_id: str) -> bool:
        execution = self.network.server.current.get(thread_id)
        return execution is not None and execution.is_open

    def drastic_actions(self, random: Random) -> list[str]:
        """What people do rarely."""
        thread, number = self._someone(random), self.number
        children = [child.workflow_id for child in self._children()]
        actions = [
            f"cancel {thread}",
            f"close {thread}",
            f"temporal-cancel {thread}",
            f"stop {thread}",
            f"terminate {thread}",
            f"undelivered {thread}",
            f"ask-for {MISSING_AGENT} {thread} {number}",
        ]
        if thread in THREADS:  # a sub-agent's history is not rewound
            actions += [f"fork {thread} {number}", f"rewind {thread} {number % 4}"]
        return [*actions, f"terminate {random.choice(children)}"] if children else actions

    def perform(self, key: str) -> bool:
        """Do what a key says; False if it is not about people."""
        kind, *args = key.split(" ")
        if kind.startswith("read-"):
            self._read(args[0], kind.removeprefix("read-"))
            return True
        verb = getattr(self, f"_{kind.replace('-', '_')}", None)
        if verb is None or kind not in VERBS:
            return False
        verb(*args)
        return True

    def questions(self) -> list[tuple[str, str, JsonValue]]:
        """The suspended calls that a decision can resume: thread, call and topic."""
        found = list[tuple[str, str, JsonValue]]()
        for execution in self.network.server.open:
            thread = self.thread_of(execution)
            if thread is None or thread.batch is None or isinstance(thread.stage, Cancelling):
                continue  # a run that is being cancelled refuses decisions
            for call in thread.batch.suspended:
                arguments = call.ticket.pending.arguments
                topic = arguments.get("topic") if isinstance(arguments, dict) else None
                found.append((execution.workflow_id, call.call.id, topic))
                if (execution.workflow_id, call.call.id) not in self.known_calls:
                    self.known_calls.append((execution.workflow_id, call.call.id))
        return found

    def held_open(self) -> list[str]:
        """The threads whose run waits for a message, because work is pending."""
        threads = ((execution.workflow_id, self.thread_of(execution)) for execution in self.network.server.open)
        return [id for id, thread in threads if thread is not None and _is_held(thread)]

    def stage_of(self, execution: Execution) -> str:
        """The stage of a thread in a cache, or of the snapshot that an execution will start with; empty if unknown.

        What a worker makes of a workflow task counts when the server has it.
        """
        if execution.workflow_type != names.WORKFLOW or (execution.task is not None and execution.task.is_started):
            return ""
        if execution.previous_started:
            thread = self.thread_of(execution)
            return "" if thread is None else thread.stage.kind
        started = execution.history[0].workflow_execution_started_event_attributes
        given = json.loads(started.input.payloads[0].data)
        return given[names.SNAPSHOT]["thread"]["stage"]["kind"] if names.SNAPSHOT in given else ""

    def thread_of(self, execution: Execution, *, is_current: bool = False) -> Thread | None:
        """The newest state of a thread in the cache of a worker, if there is one; or only if it is the thread's own."""
        cores = [core for worker in self.world.alive if (core := worker.runs.get(execution.run_id)) is not None]
        if is_current:  # a worker that lost the run keeps an older state
            cores = [core for core in cores if core.last_started == execution.previous_started]
        for core in sorted(cores, key=lambda core: core.last_started, reverse=True):
            thread = getattr(core.workflow, "_thread", None)
            if isinstance(thread, Thread):
                return thread
        return None

    # -- verbs -----------------------------------------------------------------------------------------------------

    def _call(self, key: str, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = self.loop.create_task(coroutine)
        self.asked.append(Asked(key, task))
        return task

    def _send(self, thread: str, on_busy: str, number: str) -> None:
        sent = Sent(thread, f"m{number}", _text(f"message {number}", int(number)), on_busy, number=int(number))
        sent.task = self._call(f"send {thread} {number}", self._sending(sent))
        self.sent.append(sent)

    def settings(self, name: str) -> RunSettings:
        """What a message, or the request of a thread, sets for its run."""
        return settings_of(self.seed, name) if self.world.options.governed else RunSettings()

    def given(self, name: str) -> RunSettings:
        """The same, as far as it was sent: not with messages that steer, nor by plain clients, who name no id."""
        sent = [sent.on_busy for sent in self.sent if sent.message_id == name]
        has_settings = name in THREADS or (sent and OnBusy.STEER not in sent)
        return self.settings(name) if has_settings else RunSettings()

    def _sending(self, sent: Sent) -> Coroutine[Any, Any, Any]:
        settings = RunSettings() if sent.on_busy == OnBusy.STEER else self.settings(sent.message_id)
        return self.client.send(
            sent.thread_id,
            sent.text,
            on_busy=OnBusy(sent.on_busy),
            message_id=sent.message_id,
            tenant=sent.tenant,
            **_for_user(sent.user),
            **dict(settings),
        )

    def _ask_for(self, agent: str, thread: str, number: str) -> None:
        """A message for an agent; if there is none with this id, the run cannot start."""
        sent = Sent(thread, f"m{number}", f"message {number}", OnBusy.INTERRUPT)
        send = self.client.send(thread, sent.text, agent_id=agent, on_busy=OnBusy.INTERRUPT, message_id=sent.message_id)
        sent.task = self._call(f"send {thread} {number}", send)
        self.sent.append(sent)

    def _resend(self, index: str) -> None:
        """The same message again, as a client does that got no answer."""
        if int(index) >= len(self.sent):
            return
        sent = self.sent[int(index)]
        if sent.message_id:
            send = self._sending(sent)
            self._call(f"resend {sent.message_id}", send)

    def _withdraw(self, index: str, number: str) -> None:
        """Withdraw a message; a client without the library sends the signal alone."""
        sent, id = self._sent_or_unknown(index), f"withdraw{number}"
        if not sent.message_id or int(number) % 2:
            named = {"message_ids": [sent.message_id or "submit:1:0"], "request_id": id}
            self._signal(sent.thread_id, names.SIGNAL_WITHDRAW, named)
            return
        change = self.client.withdraw(sent.thread_id, [sent.message_id], request_id=id, confirm=True)
        self.changes.append(Change(sent, None, self._call(f"withdraw {sent.message_id}", change)))

    def _edit(self, index: str, number: str) -> None:
        """Replace a message; some of the texts are too long to be spelled out in an inference input."""
        sent, text = self._sent_or_unknown(index), f"edited {number} " + "x" * (2_500 * (int(number) % 3 == 0))
        if not sent.message_id or int(number) % 2:
            message = {"id": sent.message_id or "submit:1:0", "content": text}
            self._signal(sent.thread_id, names.SIGNAL_EDIT, {"message": message})
            return
        change = self.client.edit(sent.thread_id, sent.message_id, text, request_id=f"edit{number}", confirm=True)
        self.changes.append(Change(sent, text, self._call(f"edit {sent.message_id}", change)))

    def _revoke(self, thread: str, number: str) -> None:
        """Revoke the rules that the thread has; else one that it does not have."""
        execution = self.network.server.current.get(thread)
        state = self.thread_of(execution) if execution is not None else None
        tools = [rule.tool for rule in state.permissions] if state is not None else []
        self._signal(thread, names.SIGNAL_REVOKE, {"tools": tools or ["pay"], "request_id": f"revoke{number}"})

    def _sent_or_unknown(self, index: str) -> Sent:
        place = int(index)
        return self.sent[place] if place < len(self.sent) else Sent(THREADS[0], "", "never sent", OnBusy.ENQUEUE)

    def _submit(self, thread: str, on_busy: str, number: str) -> None:
        """A plain Temporal client gives its message no id."""
        sent = Sent(thread, "", _text(f"plain message {number}", int(number)), on_busy, number=int(number))
        payload = {"input": sent.text, "on_busy": on_busy, "tenant": sent.tenant}
        if self._signal(thread, names.SIGNAL_SUBMIT, payload):
            self.sent.append(sent)

    def _junk(self, thread: str, index: str) -> None:
        signal, payload = JUNK[int(index)]
        self._signal(thread, signal, payload)

    def _stray(self, thread: str, kind: str, number: str) -> None:
        message = _FOREIGN.model_copy(update={"message_id": f"stray{number}", "recipient_thread_id": thread})
        if _is_intruder(int(number)):
            sender = message.sender.model_copy(update={"tenant": "beta"})
            message = message.model_copy(update={"sender": sender, "content": INTRUDING})
        sent = message.model_copy(update={"recipient_thread_id": "t3", "recipient_agent_id": "leaf"})
        lost = message.model_copy(update={"recipient_thread_id": "missing"})
        asks = BudgetRequest(work_id=f"delegate-{number}", thread_id="elsewhere", spent=Spent())
        signal, payload = {
            "mail": (names.SIGNAL_DELIVER, message),
            "mail-returned": (names.SIGNAL_MAIL_RETURNED, ReturnedMessage(message=sent, error="it has ended")),
            "mail-to-nowhere": (names.SIGNAL_MAIL_RETURNED, ReturnedMessage(message=lost, error="it is missing")),
            "budget-request": (names.SIGNAL_BUDGET_REQUEST, asks),
            "budget-request-of-t1": (names.SIGNAL_BUDGET_REQUEST, asks.model_copy(update={"thread_id": THREADS[0]})),
            "budget-grant": (names.SIGNAL_BUDGET_GRANT, BudgetGrant(refused="turns")),
            "child-settled": (names.SIGNAL_CHILD_SETTLED, _settled(f"bg_{number}")),
            "task-event": (names.SIGNAL_DELIVER, TaskEvent(message_id=f"e{number}", task_id="bg_9", event_type="late")),
        }[kind]
        self._signal(thread, signal, payload.model_dump(mode="json"))

    def _decide(self, thread: str, call_id: str, how: str) -> None:
        topic = next((topic for where, id, topic in self.questions() if (where, id) == (thread, call_id)), None)
        decision: dict[str, Any] = {"call_id": call_id, "action": "resume", "decision_id": f"{thread} {call_id} {how}"}
        decision["result"] = decision_result(topic)
        match how:
            case "cancel":
                decision["action"] = "cancel"
            case "edit":
                decision["arguments"] = {"topic": "edited"} if topic else {"number": 1}
            case "always":
                decision["always"] = True
            case "stale":
                decision["arguments_digest"] = "0" * 16
            case "repeat":
                self._signal(thread, names.SIGNAL_DECIDE, decision)
            case "confirm":
                id, result = decision["decision_id"], decision["result"]
                decide = self.client.decide(thread, call_id, "resume", result=result, decision_id=id, confirm=True)
                self._call(f"decide {thread} {call_id}", decide)
                return
            case _:
                pass
        self._signal(thread, names.SIGNAL_DECIDE, decision)

    def _update(self, thread: str, call_id: str, name: str, number: str) -> None:
        """Decide by an update, as clients of a workflow do that has one."""
        if (execution := self.network.server.current.get(thread)) is None or not execution.is_open:
            return
        topic = next((topic for where, id, topic in self.questions() if (where, id) == (thread, call_id)), None)
        decision = {"call_id": call_id, "action": "resume", "decision_id": f"{thread} {call_id} update{number}"}
        request = Request()
        request.meta.update_id, request.input.name = f"update{number}", name
        given = [decision | {"result": decision_result(topic)}]
        request.input.args.payloads.extend(CONVERTER.payload_converter.to_payloads(given))
        self.network.server.update(execution, request)

    def _read(self, thread: str, what: str) -> None:
        self._call(f"{what} {thread}", getattr(self.client, what)(thread))

    def _look_at(self, thread: str) -> None:
        """Temporal UI queries the metadata by itself."""
        handle = self.client.temporal.get_workflow_handle(thread)
        self._call(f"look at {thread}", handle.query("__temporal_workflow_metadata"))

    def _cancel(self, thread: str) -> None:
        self._signal(thread, names.SIGNAL_CANCEL, {"reason": "enough"})

    def _stop(self, thread: str) -> None:
        """As `client.cancel` does: by Temporal's own cancel, or by a signal."""
        self._call(f"stop {thread}", self.client.cancel(thread, reason="enough"))

    def _close(self, thread: str) -> None:
        self._signal(thread, names.SIGNAL_CLOSE, None)

    def _undelivered(self, thread: str) -> None:
        self._signal(thread, names.SIGNAL_UNDELIVERED, {"action": "replay"})

    def _temporal_cancel(self, thread: str) -> None:
        if (execution := self.network.server.current.get(thread)) is not None:
            self.network.server.request_cancel(execution, "from the UI")

    def _terminate(self, thread: str) -> None:
        if (execution := self.network.server.current.get(thread)) is not None:
            self.disturbed.add(thread)
            self.network.server.terminate(execution, "by hand")

    def _fork(self, thread: str, number: str) -> None:
        fork = self.client.fork(thread, at=1, message=f"instead {number}", new_thread_id=f"fork{number}")
        self._call(f"fork {thread}", fork)

    def _rewind(self, thread: str, to: str) -> None:
        self.disturbed.add(thread)
        self._call(f"rewind {thread}", self.client.rewind(thread, to=int(to)))

    def _signal(self, thread: str, name: str, payload: object) -> bool:
        execution = self.network.server.current.get(thread)
        if execution is None:
            return False
        payloads = CONVERTER.payload_converter.to_payloads([] if payload is None else [payload])
        return self.network.server.signal(execution, name, payloads)


def _is_intruder(number: int) -> bool:
    return number % 10 == 9


def _text(text: str, number: int) -> str:
    return f"{INTRUDING} {text}" if _is_intruder(number) else text


def _for_user(user: str | None) -> dict[str, Any]:
    """The user of a message, and metadata that say it again."""
    return {} if user is None else {"user": user, "metadata": {"user": user}}


def _is_held(thread: Thread) -> bool:
    return isinstance(thread.stage, AwaitingTasks) and not thread.children.running


def _settled(work_id: str) -> ChildResult:
    return ChildResult(work_id=work_id, thread_id="elsewhere", status=TaskStatus.COMPLETED)
