"""Sub-agents and tasks for driven runs: an agent with the runtime's tools, and the facts that its children cause."""

from collections.abc import Sequence

from pydantic import JsonValue

from tests.loop.driving import LOOK, PAY, THREAD, Driver, asks, call, make_agent, says, thread_id_of
from wakeful.contract.agents import ResolvedAgent, ToolMode
from wakeful.contract.budgets import Spent
from wakeful.contract.files import FileRef
from wakeful.contract.mail import AgentMessage, Relation, Sender, TaskEvent
from wakeful.contract.messages import MediaBlock, ToolCall
from wakeful.contract.runs import CancelReceipt, NaturalEnd, RunResult, Termination, status_reason
from wakeful.contract.subagents import ChildResult, child_result
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import ToolDescriptor
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import ChildSettled, Fact, InferenceReturned, MailReceived
from wakeful.registry.runtime_tools import (
    cancel_task_tool,
    delegate_tool,
    handoff_tool,
    list_tasks_tool,
    recover_messages_tool,
    send_message_tool,
    spawn_tool,
    task_result_tool,
)

DIG = ToolDescriptor(id="dig", name="dig", background=True)
TOOLS = (
    LOOK,
    PAY,
    DIG,
    delegate_tool("researcher", 'instructions begin: "You find things out."'),
    delegate_tool("writer", 'instructions begin: "You write."'),
    handoff_tool("billing", 'instructions begin: "You know about money."'),
    handoff_tool("assistant", 'instructions begin: "You know everything."'),
    spawn_tool(("researcher", "writer")),
    cancel_task_tool(),
    list_tasks_tool(),
    task_result_tool(),
    send_message_tool("any"),
    recover_messages_tool(),
)


def make_parent(mode: ToolMode = ToolMode.SEQUENTIAL, *, max_rounds: int = 16, **changed: object) -> ResolvedAgent:
    """An agent with all of the runtime's tools."""
    return make_agent(mode, max_rounds=max_rounds).model_copy(update={"tools": TOOLS, **changed})


PARENT = make_parent()
PARALLEL_PARENT = make_parent(ToolMode.PARALLEL)
BILLING = make_parent().model_copy(update={"agent_id": "billing"})


def delegate_call(id: str, prompt: str = "Look into it.", *, to: str = "researcher") -> ToolCall:
    return call(id, f"agent_run_{to}", {"prompt": prompt})


def spawn_call(
    id: str, name: str | None = None, *, agent: str = "researcher", prompt: str = "Look into it."
) -> ToolCall:
    named: dict[str, JsonValue] = {} if name is None else {"name": name}
    return call(id, "spawn_agent", {"agent": agent, "prompt": prompt, **named})


def background_call(id: str) -> ToolCall:
    return call(id, "dig", {"at": "the garden"})


def cancel_call(id: str, name: str | None = None) -> ToolCall:
    """A call that cancels a child, or the run itself."""
    target: JsonValue = {"relation": "self"} if name is None else {"relation": "child", "name": name}
    return call(id, "cancel_task", {"target": target})


def send_call(id: str, to: JsonValue, message: JsonValue = "Hurry!") -> ToolCall:
    return call(id, "send_message", {"to": to, "message": message})


def child_settled(
    work_id: str,
    *,
    termination: Termination | None = None,
    response: str = "Found.",
    output: JsonValue = None,
    receipt: CancelReceipt | None = None,
    spent: Spent | None = None,
    media: Sequence[MediaBlock] = (),
    files: Sequence[FileRef] = (),
) -> ChildSettled:
    """A sub-agent reports the end of its run."""
    termination = termination or NaturalEnd()
    result = RunResult(
        thread_id=thread_id_of(work_id),
        run_id=thread_id_of(work_id),
        agent_id="researcher",
        status_reason=status_reason(termination),
        termination=termination,
        response=response,
        output=output,
        artifacts=tuple(media),
        tool_files=tuple(files),
        steps=2,
        receipt=receipt,
        spent=spent,
    )
    return ChildSettled(child_result(work_id, result))


def tool_settled(task_id: str, result: JsonValue = "gold") -> ChildSettled:
    """A background tool reports its result."""
    settled = ChildResult(work_id=task_id, thread_id=thread_id_of(task_id), status=TaskStatus.COMPLETED, result=result)
    return ChildSettled(settled)


def agent_message(
    id: str = "msg_1", text: str = "Hurry!", *, relation: Relation = "agent", task_id: str | None = None
) -> AgentMessage:
    return AgentMessage(
        message_id=id,
        sender=Sender(agent_id="boss", thread_id="t0"),
        content=text,
        relation=relation,
        recipient_thread_id="t1",
        task_id=task_id,
    )


def mail_received(id: str = "msg_1", text: str = "Hurry!") -> Fact:
    return MailReceived(agent_message(id, text))


def task_event(
    task_id: str, id: str = "event_1", payload: JsonValue = "half way", *, thread_id: str | None = None
) -> Fact:
    """An event that a running task emits."""
    event = TaskEvent(message_id=id, task_id=task_id, thread_id=thread_id, event_type="progress", payload=payload)
    return MailReceived(event)


def task_event_text(task_id: str, kind: str, **fields: str) -> str:
    """What the model reads about the end of a task."""
    written = "".join(f',"{key}":"{value}"' for key, value in fields.items())
    text = f'{{"kind":"{kind}","task_id":"{task_id}"{written}}}'
    return f'<background-task-event kind="{kind}" task_id="{task_id}">\n{text}\n</background-task-event>'


def task_events_read(driver: Driver) -> list[tuple[str, str]]:
    """The task events in the transcript, as (kind, task id)."""
    heads = [text.split("\n")[0] for text in driver.texts if text.startswith("<background-task-event")]
    return [(head.split('"')[1], head.split('"')[3]) for head in heads]


def with_tasks(*calls: ToolCall, agent: ResolvedAgent = PARENT, driver: Driver | None = None) -> Driver:
    """A run whose model has started these tasks; the next inference is in flight."""
    driver = driver or Driver(agent)
    driver.model(asks(*(calls or (spawn_call("c1"),))))
    return driver


def awaiting_tasks(*calls: ToolCall, thread: bool = False) -> Driver:
    """A run whose model has answered and that waits for its tasks."""
    driver = with_tasks(*calls, driver=Driver(PARENT, request=THREAD) if thread else None)
    driver.model(says("I wait."))
    return driver


def idle_with_task(*calls: ToolCall) -> Driver:
    """A thread whose run has stopped at its limit of rounds while its tasks are running."""
    driver = with_tasks(*calls, driver=Driver(make_parent(max_rounds=1), request=THREAD))
    assert driver.result.status_reason == "stopped:max_rounds"
    return driver


def start_without_ids(driver: Driver, *calls: ToolCall) -> None:
    """The model starts children, whose thread ids are not assigned yet."""
    answer = InferenceReturned(driver.inference().id, asks(*calls))
    driver.last = advance(driver.thread, answer, now=driver.now)
