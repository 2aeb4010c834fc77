"""The tools that the runtime itself performs, and tools that run in the background: what a call of one comes to."""

from typing import assert_never

from wakeful.contract.errors import ToolError
from wakeful.contract.messages import ToolCall
from wakeful.contract.tools import RuntimeKind, RuntimeTool, ToolDescriptor, ToolResult
from wakeful.loop import handoff, messaging, sub_agents, tasks
from wakeful.loop.batch import answer
from wakeful.loop.calls import NewCall, ResumingCall
from wakeful.loop.state import Advance, RunState


def is_performed_here(tool: ToolDescriptor) -> bool:
    """Whether a call of it has no activity in the run's own workflow."""
    return tool.runtime is not None or tool.background


def perform(
    state: RunState, call: NewCall | ResumingCall, asked: ToolCall, tool: ToolDescriptor, *, now: int
) -> Advance:
    """Do what the call asks for; `asked` has the arguments that a decision may have put in place of the model's."""
    try:
        if tool.runtime is None:
            return tasks.run_in_background(state, call, asked, tool, now=now)
        return _perform(state, call, asked, tool.runtime, now=now)
    except ToolError as error:
        return answer(state, call, ToolResult.error(call.call.name, str(error)))


def _perform(state: RunState, call: NewCall | ResumingCall, asked: ToolCall, tool: RuntimeTool, *, now: int) -> Advance:
    match tool.kind:
        case RuntimeKind.DELEGATE:
            return sub_agents.delegate(state, call, asked, tool, now=now)
        case RuntimeKind.SPAWN:
            return tasks.spawn(state, call, asked, tool, now=now)
        case RuntimeKind.CANCEL_TASK:
            return tasks.cancel_task(state, call, asked, now=now)
        case RuntimeKind.LIST_TASKS:
            return tasks.listed(state, call)
        case RuntimeKind.TASK_RESULT:
            return tasks.result_of(state, call, asked)
        case RuntimeKind.SEND_MESSAGE:
            return messaging.send(state, call, asked)
        case RuntimeKind.RECOVER_MESSAGES:
            return messaging.recover(state, call, asked)
        case RuntimeKind.HANDOFF:
            return handoff.request(state, call, tool)
        case _:
            assert_never(tool.kind)
