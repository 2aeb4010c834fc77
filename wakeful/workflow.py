"""Run agents in workflows of your own, in the sandbox or not: `from wakeful.workflow import run_agent`.

In a sandbox this module is loaded for every workflow run; what it exports is passed through, and loaded once.
"""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wakeful_workflows.child_agent import (
        AgentCancelled,
        AgentFailed,
        AgentHandle,
        AgentOptions,
        AgentTimedOut,
        run_agent,
        start_agent,
    )

__all__ = ["AgentCancelled", "AgentFailed", "AgentHandle", "AgentOptions", "AgentTimedOut", "run_agent", "start_agent"]
