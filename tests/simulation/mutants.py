"""Ways to break the system on purpose, such as a careless change could: the simulation has to find each of them.

`python -m tests.simulation.mutants` finds the first seed that shows each of them, or those that are named, and records
it in `mutants.json`; `--table` prints the table of `docs/testing.md`. Do so after a change of the workload, of the
scheduler, or of what workflows do.
"""

import argparse
import json
import logging
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.simulation import mutations
from tests.simulation.archive_cases import ARCHIVE_CASES
from tests.simulation.authority_cases import AUTHORITY_CASES
from tests.simulation.cases import CASES
from tests.simulation.mutations import Apply
from tests.simulation.schedule import run

SCHEDULES = 2000
"""A mutant that so many schedules do not find shows a hole in the workload or in the checks."""

RECORDED = Path(__file__).with_suffix(".json")

SHOWN = 90
"""Characters of an error that are recorded."""


@dataclass(frozen=True)
class Mutant:
    """One way to break the system."""

    name: str
    sentence: str
    """What is broken."""
    apply: Apply


@dataclass(frozen=True)
class Found:
    """A schedule that finds a mutant, and nothing without it."""

    seed: int
    error: str
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
    ),
    Mutant(
        "newest fact first",
        "Facts of one activation are taken from the wrong end of the queue.",
        mutations.NEWEST_FACT_FIRST,
    ),
    Mutant(
        "ids from outside",
        "The ids of children are made by Python's own uuid4.",
        mutations.IDS_FROM_OUTSIDE,
    ),
    Mutant(
        "alarm by the clock",
        "What is due is judged by the clock, and the guard looks only at the next task: case 03.",
        mutations.ALARM_BY_THE_CLOCK,
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
    ),
    Mutant(
        "continue in flight",
        "The execution continues as new while activities are in flight.",
        mutations.CONTINUE_IN_FLIGHT,
    ),
    Mutant(
        "older workers end runs",
        "A worker that lacks an agent, a tool or a plugin fails the run or the call at once.",
        mutations.OLDER_WORKERS_END_RUNS,
    ),
    Mutant(
        "newer state accepted",
        "An older release reads a newer release's snapshot, and drops what it does not know.",
        mutations.NEWER_STATE_ACCEPTED,
    ),
    Mutant(
        "unregistered is a fact",
        "A worker without a local tool reports that the tool failed.",
        mutations.UNREGISTERED_IS_A_FACT,
    ),
    Mutant(
        "steps restart",
        "Each execution counts its steps from zero.",
        mutations.STEPS_RESTART,
    ),
    Mutant(
        "submissions restart",
        "Each execution counts its submissions from zero.",
        mutations.SUBMISSIONS_RESTART,
    ),
    Mutant(
        "tasks restart",
        "Each execution counts its tasks from zero.",
        mutations.TASKS_RESTART,
    ),
    Mutant(
        "events restart",
        "Each execution numbers its events from one.",
        mutations.EVENTS_RESTART,
    ),
    Mutant(
        "queued forgotten",
        "The snapshot has no queued messages.",
        mutations.QUEUED_FORGOTTEN,
    ),
    Mutant(
        "steering forgotten",
        "The snapshot has no steering messages.",
        mutations.STEERING_FORGOTTEN,
    ),
    Mutant(
        "held forgotten",
        "The snapshot has no held decisions.",
        mutations.HELD_FORGOTTEN,
    ),
    Mutant("permissions forgotten", "The snapshot has no permission rules.", mutations.PERMISSIONS_FORGOTTEN),
    Mutant(
        "outcomes forgotten",
        "The snapshot has no outcomes.",
        mutations.OUTCOMES_FORGOTTEN,
    ),
    Mutant(
        "tasks forgotten",
        "The snapshot has no background tasks.",
        mutations.TASKS_FORGOTTEN,
    ),
    Mutant(
        "state forgotten",
        "The snapshot has no agent state.",
        mutations.STATE_FORGOTTEN,
    ),
    Mutant(
        "other tenants read",
        "A thread accepts messages of another tenant.",
        mutations.OTHER_TENANTS_READ,
    ),
    Mutant(
        "mail of other tenants read",
        "A thread accepts mail from a thread of another tenant.",
        mutations.MAIL_OF_OTHER_TENANTS_READ,
    ),
    Mutant(
        "unreturned mail begins a run",
        "Mail that a thread cannot return begins a run of it, whose commands are dropped.",
        mutations.UNRETURNED_MAIL_BEGINS_A_RUN,
    ),
    Mutant(
        "other users steer",
        "A run reads messages of users for whom it does not act.",
        mutations.OTHER_USERS_STEER,
    ),
    Mutant(
        "pending forgotten",
        "An execution does not start the commands that its snapshot waits for.",
        mutations.PENDING_FORGOTTEN,
    ),
    Mutant(
        "pending twice",
        "An execution starts the commands that its snapshot waits for twice.",
        mutations.PENDING_TWICE,
    ),
    Mutant(
        "digest ignored",
        "A cached transcript fits if it is long enough, whatever it says.",
        mutations.DIGEST_IGNORED,
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
    ),
    Mutant(
        "end not reported",
        "A sub-agent does not signal its result to its parent.",
        mutations.END_NOT_REPORTED,
    ),
    Mutant(
        "end taken twice", "A task that has ended ends again when its end is reported again.", mutations.END_TAKEN_TWICE
    ),
    Mutant("cancel stays here", "A cancel does not reach sub-agents and tasks.", mutations.CANCEL_STAYS_HERE),
    Mutant(
        "rollback keeps messages",
        "A rollback leaves the run's messages in the transcript.",
        mutations.ROLLBACK_KEEPS_MESSAGES,
    ),
    Mutant(
        "effects retried",
        "A tool that must not run twice is retried.",
        mutations.EFFECTS_RETRIED,
    ),
    Mutant(
        "key of the attempt",
        "Every attempt of a tool call has an idempotency key of its own.",
        mutations.KEY_OF_THE_ATTEMPT,
    ),
    Mutant("no sweep", "Workers do not sweep.", mutations.NO_SWEEP),
    Mutant(
        "woken threads not swept",
        "The sweep does not look at threads that were woken.",
        mutations.WOKEN_THREADS_NOT_SWEPT,
    ),
    Mutant(
        "failed is terminated",
        "A run that ended in an error, and failed its workflow, counts as one that Temporal closed.",
        mutations.FAILED_IS_TERMINATED,
    ),
    Mutant(
        "cancel left behind",
        "A thread continues as new when it has handled signals, before a cancel that came with them.",
        mutations.CANCEL_LEFT_BEHIND,
    ),
    Mutant(
        "cancel left behind in a long history",
        "A thread whose history has grown to twice its budget does not wait for a cancel that came with signals.",
        mutations.CANCEL_LEFT_BEHIND_IN_A_LONG_HISTORY,
    ),
    Mutant(
        "signals never settle",
        "A thread that handles nothing but signals sets no timer, and never continues as new.",
        mutations.SIGNALS_NEVER_SETTLE,
    ),
    Mutant(
        "end not marked",
        "A workflow that fails or is cancelled does not say that it has ended by itself, and how.",
        mutations.END_NOT_MARKED,
    ),
    Mutant(
        "woken is reset",
        "The sweep takes a sub-agent that was terminated and woken for one that was reset and will report its end.",
        mutations.WOKEN_IS_RESET,
    ),
    Mutant(
        "carryover ignored",
        "A woken thread continues without its carryover.",
        mutations.CARRYOVER_IGNORED,
    ),
    Mutant(
        "interrupted calls left open",
        "A thread that was terminated in the middle of tool calls is woken without results for them.",
        mutations.INTERRUPTED_CALLS_LEFT_OPEN,
    ),
    Mutant(
        "reader looks ahead",
        "Readers of history also take what no workflow task has handled.",
        mutations.READER_LOOKS_AHEAD,
    ),
    Mutant(
        "reset not noticed",
        "After a reset, tool calls have the ids of those that it undid.",
        mutations.RESET_NOT_NOTICED,
    ),
    Mutant(
        "rollback undone",
        "What a closed thread passes on names archived messages that it has rolled back.",
        mutations.ROLLBACK_UNDONE,
    ),
    Mutant(
        "restore needs its predecessor",
        "A woken thread is restored only from its closed execution.",
        mutations.RESTORE_NEEDS_ITS_PREDECESSOR,
    ),
    Mutant(
        "results after an archive",
        "A restored thread does not get the results that follow the archived message with their calls.",
        mutations.RESULTS_AFTER_AN_ARCHIVE,
    ),
    Mutant(
        "snapshot not read",
        "A thread that was terminated before its execution started is restored only from the one before.",
        mutations.SNAPSHOT_NOT_READ,
    ),
    Mutant(
        "wake names what started",
        "A wake restores from the newest execution that started, and not from a newer snapshot.",
        mutations.WAKE_NAMES_WHAT_STARTED,
    ),
    Mutant(
        "loss not noticed",
        "A woken thread takes any last archive for that of the execution that it continues.",
        mutations.LOSS_NOT_NOTICED,
    ),
    Mutant(
        "archives left behind",
        "A thread that is started over keeps the archives of before.",
        mutations.ARCHIVES_LEFT_BEHIND,
    ),
    Mutant(
        "last act too early",
        "A thread closes although it has been sent something since it was archived.",
        mutations.LAST_ACT_TOO_EARLY,
    ),
    Mutant(
        "earlier last archive kept",
        "A closing thread that is archived once more keeps the last archive that it wrote before.",
        mutations.EARLIER_LAST_ARCHIVE_KEPT,
    ),
    Mutant(
        "fork shares archives",
        "A fork refers to the archives of its origin.",
        mutations.FORK_SHARES_ARCHIVES,
    ),
    Mutant(
        "closing not noticed",
        "A client does not see that the thread which it sends to is closing.",
        mutations.CLOSING_NOT_NOTICED,
    ),
    Mutant(
        "unread not noticed",
        "A client does not check whether the thread has closed without reading what it was sent.",
        mutations.UNREAD_NOT_NOTICED,
    ),
    Mutant(
        "no wait for an archive",
        "A run takes every step at once, however long the history has grown while an archive is written.",
        mutations.NO_WAIT_FOR_AN_ARCHIVE,
    ),
    Mutant(
        "reset not noticed by a wake",
        "A thread that was reset and then terminated is woken with call ids of those that the reset undid.",
        mutations.RESET_NOT_NOTICED_BY_A_WAKE,
    ),
    Mutant(
        "answer keeps its lineage",
        "After a reset, calls of an answer that was under way have the ids of those that the reset undid.",
        mutations.ANSWER_KEEPS_ITS_LINEAGE,
    ),
    Mutant(
        "ancestors not looked at",
        "A sub-agent starts others although a thread above it has been cancelled, until the cancel reaches it.",
        mutations.ANCESTORS_NOT_LOOKED_AT,
    ),
    Mutant(
        "rules not passed on",
        "Sub-agents start without the rules of what is above them.",
        mutations.RULES_NOT_PASSED_ON,
    ),
    Mutant(
        "rules lost by a wake",
        "A sub-agent that is woken has no rules of its ancestors.",
        mutations.RULES_LOST_BY_A_WAKE,
    ),
    Mutant(
        "rules lost by a task",
        "The run that a task's end begins has no rules of the run that started the task.",
        mutations.RULES_LOST_BY_A_TASK,
    ),
    Mutant(
        "last act overtaken",
        "A thread that has archived its end for a late message does not do so again when the message is withdrawn.",
        mutations.LAST_ACT_OVERTAKEN,
    ),
    Mutant(
        "rules lost by waking mail",
        "The run that mail of its own background agent begins has no rules if the mail wakes the thread.",
        mutations.RULES_LOST_BY_WAKING_MAIL,
    ),
    Mutant(
        "rules lost by mail",
        "The run that mail of its own background agent begins has no rules of the run that started the agent.",
        mutations.RULES_LOST_BY_MAIL,
    ),
    Mutant(
        "unread mail unbound",
        "What a woken thread has not read of its tasks has no rules of the runs that started them.",
        mutations.UNREAD_MAIL_UNBOUND,
    ),
    Mutant(
        "rules of hooks lost by a task",
        "The run that a task's end begins has no rules that hooks added to the run that started the task.",
        mutations.RULES_OF_HOOKS_LOST_BY_A_TASK,
    ),
    Mutant(
        "rules lost by a handoff",
        "The agent that takes a thread over does not have the rules of the one that handed it off.",
        mutations.RULES_LOST_BY_A_HANDOFF,
    ),
    Mutant(
        "questions void",
        "What an agent's own policy allows is not asked about, although a request or an ancestor asks.",
        mutations.QUESTIONS_VOID,
    ),
    Mutant(
        "hooks decide",
        "What a hook or a tool allows counts as a decision with `always`: it answers what the request asks about.",
        mutations.HOOKS_DECIDE,
    ),
    Mutant(
        "denials asked",
        "Sub-agents ask about what is denied above them.",
        mutations.DENIALS_ASKED,
    ),
    Mutant(
        "denied tasks start",
        "A background tool starts although a rule denies it.",
        mutations.DENIED_TASKS_START,
    ),
    Mutant(
        "budget lost by mail",
        "The run that mail of its own background agent begins has no part of the budget of the run that started it.",
        mutations.BUDGET_LOST_BY_MAIL,
    ),
    Mutant(
        "budget spent again",
        "Each run that a task's end begins has all of what the run had left that started the task.",
        mutations.BUDGET_SPENT_AGAIN,
    ),
    Mutant(
        "no allowance",
        "Sub-agents start without a part of their parent's budget.",
        mutations.NO_ALLOWANCE,
    ),
    Mutant(
        "held commands forgotten",
        "Commands that wait for an archive wait for the next fact, if the archive comes to nothing.",
        mutations.HELD_COMMANDS_FORGOTTEN,
    ),
)

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def recorded() -> dict[str, Found]:
    """What is recorded, by the names of the mutants."""
    return {name: Found(**found) for name, found in json.loads(RECORDED.read_text()).items()}


def record(found: dict[str, Found]) -> None:
    known = {mutant.name: found[mutant.name] for mutant in MUTANTS if mutant.name in found}
    written = {name: {"seed": each.seed, "error": each.error} for name, each in known.items()}
    new = RECORDED.with_suffix(".new")
    new.write_text(json.dumps(written, indent=2) + "\n")
    new.replace(RECORDED)  # in one step: other processes read it meanwhile


def find(mutant: Mutant, limit: int = SCHEDULES, *, first: int = 0) -> Found | None:
    """The first seed whose schedule finds the mutant and nothing else, and how; the recorded one is tried before."""
    known = recorded().get(mutant.name)
    for seed in (*([] if known is None else [known.seed]), *range(first, limit)):
        with mutant.apply():
            result = run(str(seed))
        if result.error is not None and run(str(seed)).error is None:
            return Found(seed, f"{type(result.error).__name__}: {result.error}"[:SHOWN].rstrip())
    return None


def table() -> str:
    """What is recorded, as Markdown."""
    found = recorded()
    every = (*CASES, *ARCHIVE_CASES, *AUTHORITY_CASES)
    cases = {case.mutant: f"case `{case.play.__name__}`: {case.found_by}" for case in every}
    rows = [_row(mutant, found.get(mutant.name), cases.get(mutant.name, "—")) for mutant in MUTANTS]
    return "\n".join(["| mutant | what is broken | seed | found by |", "|---|---|---|---|", *rows])


def _row(mutant: Mutant, found: Found | None, case: str) -> str:
    seed, error = ("—", case) if found is None else (str(found.seed), found.error)
    return f"| {mutant.name} | {mutant.sentence} | {seed} | {error.replace('|', '/')} |"


def _find_by_name(name: str, limit: int) -> Found | None:
    """In a process of its own: workflows log every fault."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    return find(BY_NAME[name], limit)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="the mutants to find (default: every one)")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help=f"how many to try (default: {SCHEDULES})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--table", action="store_true", help="only print what is recorded")
    options = parser.parse_args(arguments)
    if options.table:
        print(table())
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        names = options.names or list(BY_NAME)
        pending = {pool.submit(_find_by_name, name, options.schedules): name for name in names}
        for done in as_completed(pending):
            name, found = pending[done], done.result()
            if found is None:
                print(f"{name}: not found in {options.schedules} schedules", flush=True)
            else:
                print(f"{name}: seed {found.seed}, {found.error}", flush=True)
                record(recorded() | {name: found})


if __name__ == "__main__":
    main()
