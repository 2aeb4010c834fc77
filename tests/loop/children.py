"""What a driven run needs for a family: an agent with the runtime's tools, and children that end, write and vanish."""

from pydantic import JsonValue

from tests.loop.driving import LOOK, PAY, THREAD, Driver, an_agent, asks, call, says, thread_of
from wakeful.contract.agents import ResolvedAgent, ToolMode
from wakeful.contract.budgets import Spent
from wakeful.contract.mail import AgentMessage, Relation, Sender, TaskEvent
from wakeful.contract.messages import ToolCall
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
    delegate_tool("researcher", "You find things out."),
    delegate_tool("writer", "You write."),
    handoff_tool("billing", "You know about money."),
    handoff_tool("assistant", "You know everything."),
    spawn_tool(("researcher", "writer")),
    cancel_task_tool(),
    list_tasks_tool(),
    task_result_tool(),
    send_message_tool(),
    recover_messages_tool(),
)


def a_parent(mode: ToolMode = ToolMode.SEQUENTIAL, *, max_rounds: int = 16, **changed: object) -> ResolvedAgent:
    """An agent with everything that the runtime gives."""
    return an_agent(mode, max_rounds=max_rounds).model_copy(update={"tools": TOOLS, **changed})


PARENT = a_parent()
PARALLEL_PARENT = a_parent(ToolMode.PARALLEL)
BILLING = a_parent().model_copy(update={"agent_id": "billing"})


def delegates(id: str, prompt: str = "Look into it.", *, to: str = "researcher") -> ToolCall:
    return call(id, f"agent_run_{to}", {"prompt": prompt})


def spawns(id: str, name: str | None = None, *, agent: str = "researcher", prompt: str = "Look into it.") -> ToolCall:
    named: dict[str, JsonValue] = {} if name is None else {"name": name}
    return call(id, "spawn_agent", {"agent": agent, "prompt": prompt, **named})


def digs(id: str) -> ToolCall:
    return call(id, "dig", {"at": "the garden"})


def cancels(id: str, name: str | None = None) -> ToolCall:
    """A call that cancels a child, or the run itself."""
    target: JsonValue = {"relation": "self"} if name is None else {"relation": "child", "name": name}
    return call(id, "cancel_task", {"target": target})


def writes(id: str, to: JsonValue, message: JsonValue = "Hurry!") -> ToolCall:
    return call(id, "send_message", {"to": to, "message": message})


def an_end(
    work_id: str,
    *,
    termination: Termination | None = None,
    response: str = "Found.",
    output: JsonValue = None,
    receipt: CancelReceipt | None = None,
    spent: Spent | None = None,
) -> ChildSettled:
    """A sub-agent tells how its run has ended."""
    termination = termination or NaturalEnd()
    result = RunResult(
        thread_id=thread_of(work_id),
        run_id=thread_of(work_id),
        agent_id="researcher",
        status_reason=status_reason(termination),
        termination=termination,
        response=response,
        output=output,
        steps=2,
        receipt=receipt,
        spent=spent,
    )
    return ChildSettled(child_result(work_id, result))


def a_tool_end(task_id: str, result: JsonValue = "gold") -> ChildSettled:
    """A background tool tells its result."""
    settled = ChildResult(work_id=task_id, thread_id=thread_of(task_id), status=TaskStatus.COMPLETED, result=result)
    return ChildSettled(settled)


def a_letter(
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


def mail(id: str = "msg_1", text: str = "Hurry!") -> Fact:
    return MailReceived(a_letter(id, text))


def a_word(task_id: str, id: str = "word_1", payload: JsonValue = "half way", *, thread_id: str | None = None) -> Fact:
    """What a task tells before it has ended."""
    event = TaskEvent(message_id=id, task_id=task_id, thread_id=thread_id, event_type="progress", payload=payload)
    return MailReceived(event)


def event_of(task_id: str, kind: str, **told: str) -> str:
    """What the model reads of the end of a task; of a sub-agent's result, only the beginning is known here."""
    written = "".join(f',"{key}":"{value}"' for key, value in told.items())
    text = f'{{"kind":"{kind}","task_id":"{task_id}"{written}}}'
    return f'<background-task-event kind="{kind}" task_id="{task_id}">\n{text}\n</background-task-event>'


def events_in(driver: Driver) -> list[tuple[str, str]]:
    """The task events that the model has been told, as (kind, task id), in the order of the transcript."""
    heads = [text.split("\n")[0] for text in driver.said if text.startswith("<background-task-event")]
    return [(head.split('"')[1], head.split('"')[3]) for head in heads]


def with_tasks(*calls: ToolCall, agent: ResolvedAgent = PARENT, driver: Driver | None = None) -> Driver:
    """A run whose model has started these tasks and is asked again."""
    driver = driver or Driver(agent)
    driver.model(asks(*(calls or (spawns("c1"),))))
    return driver


def awaiting_tasks(*calls: ToolCall, thread: bool = False) -> Driver:
    driver = with_tasks(*calls, driver=Driver(PARENT, request=THREAD) if thread else None)
    driver.model(says("I wait."))
    return driver


def idle_with_task(*calls: ToolCall) -> Driver:
    """A thread whose run has stopped, at its limit of rounds, before its tasks have ended."""
    driver = with_tasks(*calls, driver=Driver(a_parent(max_rounds=1), request=THREAD))
    assert driver.result.status_reason == "stopped:max_rounds"
    return driver


def nameless(driver: Driver, *calls: ToolCall) -> None:
    """The model starts children, and more facts come before anybody has named them."""
    answer = InferenceReturned(driver.inference().id, asks(*calls))
    driver.last = advance(driver.thread, answer, now=driver.now)
