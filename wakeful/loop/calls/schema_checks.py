"""Check what people decide by the schemas that ask for it: within a limit for a batch, and one for a workflow task.

Front ends and tool servers write the schemas, and hundreds of decisions may wait for a worker. A workflow task that
takes longer than two seconds fails, and takes as long again.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.contract.base import replace
from wakeful.contract.linear_regex import compiling_cost
from wakeful.contract.schema_patterns import MAX_WORK
from wakeful.contract.schemas import TOO_LONG, judged
from wakeful.loop.machine import revisions
from wakeful.loop.machine.state import TaskWork, Thread

TASK_WORK = 2 * MAX_WORK
"""What the checks of one workflow task may take before its next decisions are refused, in the unit of a check: a form
with twenty fields may be checked some thousand times."""

TASK_WORK_BEFORE = 10 * MAX_WORK
"""The same for older runs: most of the time after which a task fails, so that what came later was never applied."""

TOO_MUCH = (
    "it was not checked, because the decisions that arrived with it took too long to check: send it again when you "
    "know what became of those"
)


@dataclass
class SchemaChecks:
    """The checks of one batch, in a workflow task that started at `now`."""

    thread: Thread
    now: int
    work: int = 0
    taken: TaskWork | None = None
    """What all checks of the workflow task have taken, once this batch has needed one."""
    were_skipped: bool = False

    def mismatch(self, value: JsonValue, schema: JsonValue) -> str | None:
        """Why the value does not match; None if it does, or if it was not checked."""
        if self.work > MAX_WORK:
            return TOO_LONG
        run = self.thread.current
        before = self.taken or run.task_work_at(self.now)
        if before.schemas > (TASK_WORK if run.revision >= revisions.TASKS_ARE_BOUNDED else TASK_WORK_BEFORE):
            self.were_skipped = True
            return None
        found = judged(value, schema, linear=run.revision >= revisions.LINEAR_PATTERNS)
        self.work += found.work
        again = sum(map(compiling_cost, found.patterns & before.patterns))
        schemas = before.schemas + found.work - again
        self.taken = replace(before, schemas=schemas, patterns=found.patterns | before.patterns)
        return found.problem
