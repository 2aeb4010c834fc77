"""The lines of a thread, as its events come."""

from collections.abc import AsyncIterator

from examples.surface.attachments import described
from wakeful import (
    Client,
    EventRecord,
    Handoff,
    InferenceComplete,
    MessageEdited,
    MessageReceived,
    MessagesRead,
    MessagesWithdrawn,
    PluginEvent,
    ReasoningDelta,
    RulesRevoked,
    RunFinish,
    RunStart,
    StreamReset,
    TaskStatus,
    TextDelta,
    ToolCallDecided,
    ToolCallDone,
    ToolCallReady,
    TreeNode,
)


async def lines(client: Client, thread_id: str, *, after: int = 0) -> AsyncIterator[str]:
    async for record in client.watch(thread_id, after=after, live=True):
        if (line := line_of(record)) is not None:
            yield line


def line_of(record: EventRecord) -> str | None:
    match record.event:
        case MessageReceived(message=message) | MessageEdited(message=message):
            return f"you: {described(message)}"
        case MessagesRead(message_ids=ids) | MessagesWithdrawn(message_ids=ids):
            return f"({', '.join(ids)})"
        case RunStart(run_id=run_id):
            return f"run {run_id} starts"
        case TextDelta(delta=delta) | ReasoningDelta(delta=delta):
            return delta
        case ToolCallReady(name=name, arguments=arguments):
            return f"→ {name} {arguments}"
        case ToolCallDone(result=result):
            return f"← {result.text}"
        case ToolCallDecided(tool_name=name, decision=decision):
            return f"{name}: {decision.action} by {decision.actor}"
        case InferenceComplete(model=model, usage=usage):
            return f"{model}: {usage.total_tokens if usage else '?'} tokens"
        case PluginEvent(plugin=plugin, name=name):
            return f"{plugin}: {name}"
        case Handoff(to_agent=agent):
            return f"{agent} takes over"
        case RulesRevoked(rules=rules):
            return f"revoked: {', '.join(rule.tool for rule in rules)}"
        case StreamReset(reason=reason):
            return f"drop what was live: {reason}"
        case RunFinish(result=result):
            return f"{record.agent_id}: {result.response if result else ''}"
        case other:
            return ended(other.event_type, getattr(other, "task", None))


def ended(event_type: str, task: object) -> str | None:
    is_over = getattr(task, "status", None) in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)
    return event_type if is_over else None


def outline(node: TreeNode, depth: int = 0) -> list[str]:
    below = [line for child in node.children for line in outline(child, depth + 1)]
    return [f"{'  ' * depth}{node.agent_id or node.name}: {node.status} after {node.steps} steps", *below]
