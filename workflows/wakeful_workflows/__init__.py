"""Workflows: they drive. What to do is decided by `wakeful.loop`; here it is scheduled, awaited and shown."""

from wakeful_workflows.agent_run import AgentRun

__all__ = ["AgentRun"]
