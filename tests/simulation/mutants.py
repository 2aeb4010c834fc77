"""Ways to break the system on purpose, such as a careless change could: the simulation has to find each of them.

`python -m tests.simulation.mutants` finds the first seed that shows each of them, or those that are named. Do so after
a change of the workload or of the scheduler, and record the seeds here.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation import mutations
from tests.simulation.mutations import Apply
from tests.simulation.schedule import run

SCHEDULES = 2000
"""A mutant that so many schedules do not find shows a hole in the workload or in the checks."""


@dataclass(frozen=True)
class Mutant:
    """One way to break the system."""

    name: str
    sentence: str
    """What is broken."""
    apply: Apply
    seed: int | None = None
    """One whose schedule finds it; None if none is known yet."""
    found_by: str = ""
    """How the error begins: its class, and what it says first."""


MUTANTS = (
    Mutant(
        "decisions by update",
        "People may decide by an update, which core takes up in another task when it replays: merged tasks.",
        mutations.DECISIONS_BY_UPDATE,
    ),
    Mutant(
        "no guard",
        "Events that a query applied before their workflow task are handled for good.",
        mutations.NO_GUARD,
        seed=127,
        found_by="Violated: t2 has continued as new without its refusals",
    ),
    Mutant(
        "newest fact first",
        "Facts of one activation are taken from the wrong end of the queue.",
        mutations.NEWEST_FACT_FIRST,
        seed=86,
        found_by="Violated: t1 has read its messages in another order than they came",
    ),
    Mutant(
        "ids from outside",
        "The ids of children are made by Python's own uuid4.",
        mutations.IDS_FROM_OUTSIDE,
        seed=0,
        found_by="Violated: t2 has continued as new without its identity",
    ),
    Mutant(
        "alarm by the clock",
        "What is due is judged by the clock, and the guard looks only at the next task: case 03.",
        mutations.ALARM_BY_THE_CLOCK,
        seed=127,
        found_by="Violated: t2 has continued as new without its refusals",
    ),
    Mutant(
        "overdue alarm dropped",
        "No timer is set for an alarm that has already passed.",
        mutations.OVERDUE_ALARM_DROPPED,
    ),
    Mutant(
        "continue by length",
        "Continue-as-new is due by the SDK's history length, and the guard looks only at the next task: case 04.",
        mutations.CONTINUE_BY_LENGTH,
        seed=50,
        found_by="Nondeterminism: the workflow issued",
    ),
    Mutant(
        "continue in flight",
        "The execution continues as new while activities are in flight.",
        mutations.CONTINUE_IN_FLIGHT,
        seed=0,
        found_by="Stuck: there is no end",
    ),
    Mutant(
        "unregistered is a fact",
        "A worker without a local tool reports that the tool failed.",
        mutations.UNREGISTERED_IS_A_FACT,
        seed=19,
        found_by="Nondeterminism: history has event 85",
    ),
    Mutant(
        "steps restart",
        "Each execution counts its steps from zero.",
        mutations.STEPS_RESTART,
        seed=1,
        found_by="Violated: one call has several idempotency keys",
    ),
    Mutant(
        "submissions restart",
        "Each execution counts its submissions from zero.",
        mutations.SUBMISSIONS_RESTART,
        seed=12,
        found_by="Violated: t2: 3 messages without an id, but 1 outcomes, 0 refusals",
    ),
    Mutant(
        "tasks restart",
        "Each execution counts its tasks from zero.",
        mutations.TASKS_RESTART,
        seed=7,
        found_by="Violated: t2 has several tasks with the id bg_0",
    ),
    Mutant(
        "events restart",
        "Each execution numbers its events from one.",
        mutations.EVENTS_RESTART,
        seed=0,
        found_by="Violated: t2/helper-a86794a0: the events have the numbers",
    ),
    Mutant(
        "queued forgotten",
        "The snapshot has no queued messages.",
        mutations.QUEUED_FORGOTTEN,
        seed=0,
        found_by="Violated: t2 has continued as new without its queued",
    ),
    Mutant(
        "steering forgotten",
        "The snapshot has no steering messages.",
        mutations.STEERING_FORGOTTEN,
        seed=0,
        found_by="Violated: t2 has continued as new without its steering",
    ),
    Mutant(
        "held forgotten",
        "The snapshot has no held decisions.",
        mutations.HELD_FORGOTTEN,
        seed=185,
        found_by="Violated: t2 has continued as new without its run",
    ),
    Mutant("permissions forgotten", "The snapshot has no permission rules.", mutations.PERMISSIONS_FORGOTTEN),
    Mutant(
        "outcomes forgotten",
        "The snapshot has no outcomes.",
        mutations.OUTCOMES_FORGOTTEN,
        seed=0,
        found_by="Violated: t2 has continued as new without its outcomes",
    ),
    Mutant(
        "tasks forgotten",
        "The snapshot has no background tasks.",
        mutations.TASKS_FORGOTTEN,
        seed=0,
        found_by="Violated: t2 has continued as new without its children",
    ),
    Mutant(
        "state forgotten",
        "The snapshot has no agent state.",
        mutations.STATE_FORGOTTEN,
        seed=0,
        found_by="Violated: t2 has continued as new without its agent_state",
    ),
    Mutant(
        "pending forgotten",
        "An execution does not start the commands that its snapshot waits for.",
        mutations.PENDING_FORGOTTEN,
        seed=0,
        found_by="Stuck: t2 waits for something that never comes",
    ),
    Mutant(
        "pending twice",
        "An execution starts the commands that its snapshot waits for twice.",
        mutations.PENDING_TWICE,
        seed=0,
        found_by="Violated: t2 paid twice for 3-1",
    ),
    Mutant(
        "digest ignored",
        "A cached transcript fits if it is long enough, whatever it says.",
        mutations.DIGEST_IGNORED,
        seed=15,
        found_by="Violated: a model was shown an invalid conversation",
    ),
    Mutant(
        "decision repeated",
        "A decision that was applied is not recognised when it is sent again.",
        mutations.DECISION_REPEATED,
    ),
    Mutant(
        "message repeated",
        "A message that was accepted is not recognised when it is sent again.",
        mutations.MESSAGE_REPEATED,
        seed=0,
        found_by="Violated: t2 has read",
    ),
    Mutant(
        "end not reported",
        "A sub-agent does not signal its result to its parent.",
        mutations.END_NOT_REPORTED,
        seed=16,
        found_by="Stuck: t2 waits for something that never comes",
    ),
    Mutant(
        "end taken twice", "A task that has ended ends again when its end is reported again.", mutations.END_TAKEN_TWICE
    ),
    Mutant("cancel stays here", "A cancel does not reach sub-agents and tasks.", mutations.CANCEL_STAYS_HERE),
    Mutant(
        "rollback keeps messages",
        "A rollback leaves the run's messages in the transcript.",
        mutations.ROLLBACK_KEEPS_MESSAGES,
        seed=1,
        found_by="Violated: t1 still has",
    ),
    Mutant(
        "effects retried",
        "A tool that must not run twice is retried.",
        mutations.EFFECTS_RETRIED,
        seed=57,
        found_by="Violated: t2 paid twice for 1-3",
    ),
    Mutant(
        "key of the attempt",
        "Every attempt of a tool call has an idempotency key of its own.",
        mutations.KEY_OF_THE_ATTEMPT,
        seed=186,
        found_by="Violated: one call has several idempotency keys",
    ),
    Mutant("no sweep", "Workers do not sweep.", mutations.NO_SWEEP),
    Mutant(
        "woken threads not swept",
        "The sweep does not look at threads that were woken.",
        mutations.WOKEN_THREADS_NOT_SWEPT,
    ),
    Mutant(
        "carryover ignored",
        "A woken thread continues without its carryover.",
        mutations.CARRYOVER_IGNORED,
        seed=27,
        found_by="Violated: a model was shown an invalid conversation",
    ),
    Mutant(
        "interrupted calls left open",
        "A thread that was terminated in the middle of tool calls is woken without results for them.",
        mutations.INTERRUPTED_CALLS_LEFT_OPEN,
        seed=27,
        found_by="Violated: t1 stores an invalid conversation",
    ),
    Mutant(
        "reader looks ahead",
        "Readers of history also take what no workflow task has handled.",
        mutations.READER_LOOKS_AHEAD,
        seed=9,
        found_by="Violated: send t2 19 raised ActivationFailed",
    ),
    Mutant(
        "reset not noticed",
        "After a reset, tool calls have the ids of those that it undid.",
        mutations.RESET_NOT_NOTICED,
    ),
)

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def find(mutant: Mutant, limit: int = SCHEDULES) -> tuple[int, str] | None:
    """The first seed whose schedule finds the mutant and nothing else, and how; the recorded one is tried before."""
    recorded = () if mutant.seed is None else (mutant.seed,)
    for seed in (*recorded, *range(limit)):
        with mutant.apply():
            result = run(str(seed))
        if result.error is not None and run(str(seed)).error is None:
            return seed, f"{type(result.error).__name__}: {result.error}"
    return None


def main(arguments: Sequence[str]) -> None:
    limit = next((int(argument) for argument in arguments if argument.isdigit()), SCHEDULES)
    wanted = [argument for argument in arguments if not argument.isdigit()]
    logging.disable(logging.CRITICAL)
    for mutant in MUTANTS:
        if not wanted or mutant.name in wanted:
            found = find(mutant, limit)
            what = f"not found in {limit} schedules" if found is None else f"seed {found[0]}, {found[1]}"
            print(f"{mutant.name}: {what[:240]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
