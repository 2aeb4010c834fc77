"""Workflows: they drive. What to do is decided by `wakeful.loop`; here it is scheduled, awaited and shown."""

from wakeful_workflows.a2a_push import A2aPush
from wakeful_workflows.agent_run import AgentRun
from wakeful_workflows.scheduled_message import ScheduledMessage
from wakeful_workflows.thread_archive import ThreadArchive, VersionedThreadArchive
from wakeful_workflows.tool_task import ToolTask

__all__ = ["A2aPush", "AgentRun", "ScheduledMessage", "ThreadArchive", "ToolTask", "VersionedThreadArchive"]
