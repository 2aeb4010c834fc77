"""Tell the worker that an A2A task may have another state: it signals the thread's push notifications, if it has any.

It writes nothing to the thread's history, and nothing depends on it: without the signal, notifications are late.
"""

from temporalio import workflow

from wakeful.contract.events import (
    ErrorEvent,
    MessagesWithdrawn,
    RunFinish,
    RunStart,
    SignalRefused,
    ToolCallResumed,
)
from wakeful.contract.push import TASK_CHANGED
from wakeful.contract.runs import Adapter
from wakeful.loop.machine.state import Advance

CHANGES = (RunStart, RunFinish, ToolCallResumed, MessagesWithdrawn, SignalRefused, ErrorEvent)
"""The events of a thread, or of a sub-agent, with which the state of a task changes."""


def report_changes(made: Advance) -> None:
    """Report what a fact has changed, of a run that came over A2A and of its sub-agents; never during a replay."""
    identity = made.thread.identity
    if identity.adapter is not Adapter.A2A or workflow.unsafe.is_replaying():
        return
    report = workflow.extern_functions().get(TASK_CHANGED)
    if report is not None and any(isinstance(event, CHANGES) for event in made.events):
        report((*identity.path, identity.thread_id)[0])
