"""The sub-agents, tasks and mail of a checked run, and what must hold for them."""

from dataclasses import dataclass, field

from tests.loop.driving import thread_id_of
from wakeful.contract.events import RunFinish
from wakeful.contract.ids import child_message_id
from wakeful.contract.mail import AgentMessage, TaskEvent
from wakeful.contract.runs import Cancelled, NaturalEnd
from wakeful.loop.machine.commands import CancelChild, CancelWork, Command, SendSignal, StartChild, StartTask
from wakeful.loop.machine.facts import ChildClosed, ChildIdAssigned, ChildSettled, Fact, MailReceived, WorkCancelled
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Advance, Thread

Start = StartChild | StartTask


@dataclass
class ChildChecks:
    """Records which children were started, and which mail has to reach the model."""

    started: set[str] = field(default_factory=set)
    """Every work id of a sub-agent or task."""
    tasks: set[str] = field(default_factory=set)

    def follow_up(self, moved: Advance) -> list[Fact]:
        """The facts that follow at once: a child has its thread id, or was cancelled before it started."""
        starts = [command for command in moved.commands if isinstance(command, Start)]
        return [
            WorkCancelled(start.id)
            if CancelWork(start.id) in moved.commands
            else ChildIdAssigned(start.id, thread_id_of(start.id))
            for start in starts
        ]

    def issued(self, command: Command, state: Thread) -> bool:
        """Whether no fact is due for the command: it signals a child or another thread."""
        match command:
            case StartChild() | StartTask():
                assert command.id not in self.started, "a child is started once"
                self.started.add(command.id)
                if command.id.startswith("bg_"):
                    self.tasks.add(command.id)
                return False
            case CancelChild(id=id, thread_id=thread_id):
                assert (id in self.started, thread_id) == (True, thread_id_of(id))
                return True
            case SendSignal(id=id):
                return id.startswith("return-")
            case _:
                return False

    def message_id(self, before: Thread, fact: Fact) -> str | None:
        """The id of the message that has to reach the model because of this fact."""
        running = {task.task_id for task in before.children.running}
        match fact:
            case ChildSettled(result=result) if result.work_id in running:
                return child_message_id(result.thread_id)
            case ChildClosed(id=id) if id in running:
                return child_message_id(thread_id_of(id))
            case WorkCancelled(id=id) if id in running:
                return f"settled:{id}"
            case MailReceived(mail=AgentMessage()) if isinstance(before.stage, Done):
                return None
            case MailReceived(mail=TaskEvent(task_id=id)) if id not in running:
                return None
            case MailReceived(mail=mail):
                return mail.message_id
            case _:
                return None

    def run_finishes(self, event: RunFinish, state: Thread) -> None:
        """I-10: a run that ended naturally or was cancelled leaves none of its tasks running."""
        running = [task for task in state.children.running if task.parent_context.run_id == event.run_id]
        if isinstance(event.termination, NaturalEnd | Cancelled):
            assert running == []
        if isinstance(event.termination, NaturalEnd):
            assert state.children.running == ()
