"""Facts that random schedules give to a thread in a stage too rarely: each as a directed schedule that does."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.simulation.chunking import TASK_COMPLETED
from tests.simulation.scenario import Call, Scenario, scenario_of
from wakeful.contract.runs import ThreadMode

ASK: Call = ("ask", {"topic": "plain"})
LOOK: Call = ("look", {"number": 1})
HOLD: Call = ("hold", {})
LATER: Call = ("later", {"number": 2})
GATED_LATER: Call = ("later", {"number": 4})
"""A gate of `lead` suspends it, until it expires."""
BLOCKED: Call = ("pay", {"number": 10})
"""A gate of `lead` blocks it."""
HAND_OFF: Call = ("handoff_to_second", {})
HAND_BACK: Call = ("handoff_to_lead", {})

THREAD, RUN = ThreadMode.THREAD, ThreadMode.RUN

ALMOST_ALL_ROUNDS = [[LOOK]] * 7
"""The agents `plain` and `second` may call tools in 8 rounds."""

LONG: Call = ("look", {"number": 10**400})
"""A call with a long result."""

ENOUGH: list[list[Call]] = [[("look", {"number": 10**15})] * 8] * 4
"""Calls that make a conversation long enough for a summary."""


@dataclass(frozen=True)
class Rare:
    """A directed schedule, and what it covers."""

    play: Callable[[], None]
    cells: tuple[tuple[str, str], ...]
    """Stages, and facts that the thread is given in them."""
    name: str


def _act(scenario: Scenario, *moves: str) -> None:
    """Make these moves, then the workflow task that takes what they caused."""
    scenario.move(*moves, "task t1", "report t1")


def task_of_the_last_round_of_a_thread() -> None:
    """A run that may make no further round starts a task; the thread is idle before the task has its id."""
    with scenario_of("plain", *ALMOST_ALL_ROUNDS, [LATER], mode=THREAD) as scenario:
        scenario.go()
        scenario.end()


def task_of_the_last_round_of_a_run() -> None:
    """The same in run mode: the run is done."""
    with scenario_of("plain", *ALMOST_ALL_ROUNDS, [LATER], mode=RUN) as scenario:
        scenario.go()
        scenario.end()


def task_of_the_last_round_before_a_message() -> None:
    """The same with a message that waits: the next run looks up its agent."""
    with scenario_of("plain", *ALMOST_ALL_ROUNDS, [LATER], mode=THREAD) as scenario:
        scenario.go_without("infer-1")
        scenario.move("send t1 enqueue 1")
        scenario.go()
        scenario.end()


def task_cancelled_before_it_starts() -> None:
    """A decision starts a task in a run's last round, and a cancel comes with it."""
    with scenario_of("second", *ALMOST_ALL_ROUNDS, [LATER], mode=THREAD) as scenario:
        scenario.go()
        _act(scenario, "decide t1 8-1 resume", "cancel t1")
        scenario.go()
        scenario.end()


def task_cancelled_before_it_starts_and_a_message() -> None:
    """The same with a message after the cancel."""
    with scenario_of("second", *ALMOST_ALL_ROUNDS, [LATER], mode=THREAD) as scenario:
        scenario.go()
        _act(scenario, "decide t1 8-1 resume", "cancel t1", "send t1 enqueue 1")
        scenario.go()
        scenario.end()


def mail_delivered_in_hooks() -> None:
    """A message that is sent again arrives together with the last answer."""
    with scenario_of("lead", mode=THREAD) as scenario:
        scenario.go_without("infer-1")
        _act(scenario, "stray t1 mail-returned 1", "undelivered t1")
        scenario.run_activity("infer-1")
        scenario.run_activity("resend")
        scenario.go()
        scenario.end()


def signals_in_hooks() -> None:
    """An execution starts in its hooks, and signals come before its first workflow task."""
    with scenario_of("lead", events=1, mode=THREAD) as scenario:
        scenario.stop_before("running_hooks")
        scenario.move("undelivered t1", "stray t1 mail-returned 1", "stray t1 budget-request 2")
        scenario.go()
        scenario.end()


def summary_in_hooks() -> None:
    """A summary is ready together with the last answer."""
    with scenario_of("lead", *ENOUGH, mode=THREAD) as scenario:
        scenario.go_without("compact-1", "infer-5")
        scenario.run_activity("infer-5")
        scenario.run_activity("compact-1")
        scenario.go()
        scenario.end()


def summary_while_a_person_is_asked() -> None:
    """A summary is ready while the run waits for a decision."""
    with scenario_of("plain", *ENOUGH, [ASK], mode=THREAD) as scenario:
        scenario.go_without("compact-1")
        scenario.go()
        scenario.end()


def summary_while_a_run_is_cancelled() -> None:
    """A summary is ready while a cancelled run waits for its tool."""
    with scenario_of("lead", *ENOUGH, [HOLD], mode=THREAD) as scenario:
        scenario.go_without("compact-1", "tool-5")
        _act(scenario, f"activity {scenario.name} tool-5", "cancel t1")
        scenario.run_activity("compact-1")
        scenario.move("task t1", "report t1")
        scenario.go()
        scenario.end()


def handing_off_meets_everything() -> None:
    """While the agent that takes over is looked up, mail comes back, is sent again, and arrives."""
    with scenario_of("lead", [HAND_OFF], mode=THREAD) as scenario:
        scenario.go_without("handoff-1")
        _act(scenario, "stray t1 mail-returned 1", "undelivered t1", "stray t1 budget-request 2")
        scenario.run_activity("resend")
        scenario.move("task t1", "report t1")
        scenario.go()
        scenario.end()


def task_ends_while_its_thread_hands_off() -> None:
    """A decision starts a task as the last thing before a handoff, and the task is terminated before the handoff."""
    with scenario_of("second", [LATER, HAND_BACK], mode=THREAD) as scenario:
        scenario.go()
        _act(scenario, "decide t1 1-1 resume")
        scenario.go_without("handoff-1", "later")
        (task,) = (id for id in scenario.world.server.current if id.startswith("t1/later"))
        scenario.move(f"terminate {task}", "transfer close", "task t1", "report t1")
        scenario.go()
        scenario.end()


def blocked_while_a_task_starts() -> None:
    """A gate blocks a call after a deadline has started a task; another call is still running."""
    with scenario_of("lead", [LOOK, BLOCKED, HOLD, GATED_LATER], mode=THREAD) as scenario:
        scenario.go_without("tool-1-2", "tool-1-3")
        scenario.move(f"activity {scenario.name} tool-1-3", "wait 30000", "timer t1")
        scenario.run_activity("tool-1-2")
        scenario.move("task t1", "report t1")
        scenario.go()
        scenario.end()


def rewound_to_a_cancelled_step() -> None:
    """A thread is rewound to a step that a cancel has ended: its history ends before the step has."""
    with scenario_of("lead", [HOLD], [LOOK], mode=THREAD) as scenario:
        scenario.go_without("tool-1-1")
        _act(scenario, f"activity {scenario.name} tool-1-1", "cancel t1")
        scenario.go()
        scenario.move("send t1 enqueue 1")
        scenario.go()
        scenario.move("rewind t1 1")
        scenario.go()
        scenario.end()


def reset_at_the_very_end() -> None:
    """Someone resets a run to its last workflow task, before which it waited only for a signal of its own to arrive."""
    with scenario_of("plain", mode=RUN) as scenario:
        scenario.go_without("infer-1")
        scenario.run_activity("infer-1")
        _act(scenario, "stray t1 budget-request 1")
        scenario.go()
        ended = scenario.world.server.current["t1"]
        completed = [event.event_id for event in ended.history if event.event_type == TASK_COMPLETED]
        scenario.reset_to(ended, completed[-1])
        scenario.go()
        scenario.end()


def summary_while_a_thread_closes() -> None:
    """A summary is ready while the thread archives itself as its last act."""
    with scenario_of("lead", *ENOUGH, mode=THREAD) as scenario:
        scenario.go_without("compact-1")
        scenario.move("close t1")
        scenario.go_without("compact-1", "archive-")
        scenario.run_activity("compact-1")
        scenario.go()
        scenario.end()


def task_ends_in_hooks() -> None:
    """A task is terminated after the answer with which its thread hands off: the hooks of the old agent run first."""
    with scenario_of("lead", [_SPAWN], [HAND_OFF], mode=THREAD) as scenario:
        scenario.go_without("infer-2", children=False)
        scenario.run_activity("infer-2")
        (task,) = (id for id in scenario.world.server.current if id.startswith("t1/leaf"))
        _act(scenario, f"terminate {task}", "transfer close")
        scenario.go()
        scenario.end()


def timeout_while_handing_off() -> None:
    """The time of a run is up while the agent that takes over is looked up."""
    with scenario_of("lead", [HAND_OFF], mode=THREAD) as scenario:
        _handing_off(scenario)
        _act(scenario, "wait 45000", "timer t1")
        scenario.go()
        scenario.end()


def timeout_in_hooks() -> None:
    """A decision ends the step with which a thread hands off, and the time of the run is up in the same task."""
    with scenario_of("lead", [("ask", {"topic": "result"}), HAND_OFF], mode=THREAD) as scenario:
        scenario.go()
        _act(scenario, "wait 45000", "timer t1", "decide t1 1-1 resume")
        scenario.go()
        scenario.end()


def budget_time_is_up() -> None:
    """The wall time of a run is spent while it waits for what its task has not spent of other budgets."""
    with scenario_of("frugal", *_SPENT, mode=THREAD) as scenario:
        _waiting_for_children(scenario)
        _act(scenario, "wait 60000", "timer t1")
        scenario.go()
        scenario.end()


def _summary_in(reach: Callable[[Scenario], None], agent: str, *answers: list[Call]) -> None:
    """A summary is ready when nothing else happens to the thread."""
    with scenario_of(agent, *answers, mode=THREAD) as scenario:
        reach(scenario)
        scenario.run_activity("compact-1")
        scenario.move("task t1", "report t1")
        scenario.go()
        scenario.end()


def _signal_lost(agent: str, *answers: list[Call]) -> None:
    """A thread answers another one that does not exist, and learns that when nothing else happens to it."""
    with scenario_of(agent, *answers, mode=THREAD) as scenario:
        _waiting_for_children(scenario)
        scenario.move("stray t1 budget-request 1")
        _waiting_for_children(scenario)
        scenario.go()
        scenario.end()


def mail_lost_in_hooks() -> None:
    """A message that is sent again has no recipient, and the thread learns that together with the last answer."""
    with scenario_of("lead", mode=THREAD) as scenario:
        _inferring(scenario)
        _act(scenario, "stray t1 mail-to-nowhere 1", "undelivered t1")
        scenario.run_activity("infer-1")
        scenario.run_activity("resend")
        scenario.go()
        scenario.end()


def _reset_in(reach: Callable[[Scenario], None], agent: str, *answers: list[Call]) -> None:
    """Someone resets a thread to a workflow task of this stage."""
    with scenario_of(agent, *answers, mode=THREAD) as scenario:
        reach(scenario)
        _act(scenario, "junk t1 0")
        scenario.reset_to(scenario.world.server.current["t1"], scenario.length)
        scenario.go()
        scenario.end()


SIGNALS = (
    "stray t1 mail-returned 1",
    "undelivered t1",
    "stray t1 budget-request 2",
    "stray t1 budget-grant 3",
    "stray t1 child-settled 4",
    "stray t1 task-event 5",
    "junk t1 0",
    "decide t1 9-9 early",
    "withdraw 0 1",
    "edit 0 1",
    "revoke t1 9",
)
"""Signals that do not change the stage; those of `LAST` do."""

LAST = ("stray t1 mail 6", "send t1 enqueue 7", "submit t1 steer 8", "cancel t1")

SIGNAL_FACTS = (
    "MailReceived",
    "MailReturned",
    "UndeliveredRequested",
    "BudgetRequested",
    "BudgetGranted",
    "ChildSettled",
    "DecisionsReceived",
    "MessagesSubmitted",
    "WithdrawalRequested",
    "EditRequested",
    "RevocationRequested",
    "CancelRequested",
    "SignalMalformed",
)


def _idle(scenario: Scenario) -> None:
    scenario.go()


def _resolving(scenario: Scenario) -> None:
    scenario.go_without("resolve-1")


def _running_hooks(scenario: Scenario) -> None:
    scenario.stop_before("running_hooks")


def _inferring(scenario: Scenario) -> None:
    scenario.go_without("infer-1")


def _calling_tools(scenario: Scenario) -> None:
    scenario.go_without("tool-1-1")


def _handing_off(scenario: Scenario) -> None:
    scenario.go_without("handoff-1")


def _awaiting_tasks(scenario: Scenario) -> None:
    scenario.stop_before("awaiting_tasks")


def _waiting_for_children(scenario: Scenario) -> None:
    """Nothing happens to the thread until its task starts."""
    scenario.go_without("compact-1", children=False)


def _handing_off_and_compacting(scenario: Scenario) -> None:
    scenario.go_without("compact-1", "handoff-1")


def _cancelling(scenario: Scenario) -> None:
    scenario.go_without("tool-1-1")
    _act(scenario, f"activity {scenario.name} tool-1-1", "cancel t1")


def _done(scenario: Scenario) -> None:
    """The run is done, and waits until its own signal has arrived."""
    scenario.go_without("infer-1")
    scenario.run_activity("infer-1")
    _act(scenario, "stray t1 budget-request 9")


_SPAWN: Call = ("spawn_agent", {"agent": "leaf", "prompt": "do", "name": "task"})

_SPENT: list[list[Call]] = [[_SPAWN], [LONG], [LONG], [LONG]]
"""Calls after which the agent `frugal` waits for what its task does not spend."""


def _signals_meet(
    reach: Callable[[Scenario], None], agent: str, *answers: list[Call], mode: ThreadMode = THREAD, events: int = 2000
) -> None:
    for last in LAST:
        with scenario_of(agent, *answers, mode=mode, events=events) as scenario:
            reach(scenario)
            scenario.move(*SIGNALS, last)
            scenario.go()
            scenario.end()


def _met(stage: str, play: Callable[[], None]) -> Rare:
    return Rare(play, tuple((stage, fact) for fact in SIGNAL_FACTS), f"signals while {stage}")


def _summarised(stage: str, play: Callable[[], None]) -> Rare:
    return Rare(play, ((stage, "CompactionReturned"),), f"summary while {stage}")


def _lost(stage: str, play: Callable[[], None]) -> Rare:
    return Rare(play, ((stage, "WorkFailed"),), f"signal lost while {stage}")


def _reset(stage: str, play: Callable[[], None]) -> Rare:
    return Rare(play, ((stage, "HistoryReset"),), f"reset while {stage}")


RARE = (
    _met("idle", partial(_signals_meet, _idle, "plain")),
    _met("resolving", partial(_signals_meet, _resolving, "plain")),
    _met("running_hooks", partial(_signals_meet, _running_hooks, "lead", events=1)),
    _met("inferring", partial(_signals_meet, _inferring, "plain")),
    _met("calling_tools", partial(_signals_meet, _calling_tools, "lead", [HOLD])),
    _met("handing_off", partial(_signals_meet, _handing_off, "lead", [HAND_OFF])),
    _met("awaiting_decisions", partial(_signals_meet, _idle, "plain", [ASK])),
    _met("awaiting_tasks", partial(_signals_meet, _awaiting_tasks, "lead", [_SPAWN])),
    _met("awaiting_budget", partial(_signals_meet, _waiting_for_children, "frugal", *_SPENT)),
    _met("cancelling", partial(_signals_meet, _cancelling, "lead", [HOLD])),
    _met("done", partial(_signals_meet, _done, "plain", mode=RUN)),
    Rare(task_of_the_last_round_of_a_thread, (("idle", "ChildIdAssigned"),), "task_of_the_last_round_of_a_thread"),
    Rare(task_of_the_last_round_of_a_run, (("done", "ChildIdAssigned"),), "task_of_the_last_round_of_a_run"),
    Rare(
        task_of_the_last_round_before_a_message,
        (("resolving", "ChildIdAssigned"),),
        "task_of_the_last_round_before_a_message",
    ),
    Rare(task_cancelled_before_it_starts, (("idle", "WorkCancelled"),), "task_cancelled_before_it_starts"),
    Rare(
        task_cancelled_before_it_starts_and_a_message,
        (("resolving", "WorkCancelled"),),
        "task_cancelled_before_it_starts_and_a_message",
    ),
    Rare(mail_delivered_in_hooks, (("running_hooks", "Delivered"),), "mail_delivered_in_hooks"),
    Rare(signals_in_hooks, (("running_hooks", "UndeliveredRequested"),), "signals_in_hooks"),
    Rare(summary_in_hooks, (("running_hooks", "CompactionReturned"),), "summary_in_hooks"),
    Rare(
        summary_while_a_person_is_asked,
        (("awaiting_decisions", "CompactionReturned"),),
        "summary_while_a_person_is_asked",
    ),
    Rare(summary_while_a_run_is_cancelled, (("cancelling", "CompactionReturned"),), "summary_while_a_run_is_cancelled"),
    Rare(handing_off_meets_everything, (("handing_off", "Delivered"),), "handing_off_meets_everything"),
    Rare(
        task_ends_while_its_thread_hands_off, (("handing_off", "ChildClosed"),), "task_ends_while_its_thread_hands_off"
    ),
    Rare(blocked_while_a_task_starts, (("cancelling", "ChildIdAssigned"),), "blocked_while_a_task_starts"),
    Rare(rewound_to_a_cancelled_step, (("cancelling", "HistoryReset"),), "rewound_to_a_cancelled_step"),
    Rare(reset_at_the_very_end, (("done", "HistoryReset"),), "reset_at_the_very_end"),
    Rare(summary_while_a_thread_closes, (("done", "CompactionReturned"),), "summary_while_a_thread_closes"),
    Rare(task_ends_in_hooks, (("running_hooks", "ChildClosed"),), "task_ends_in_hooks"),
    Rare(timeout_while_handing_off, (("handing_off", "TimerFired"),), "timeout_while_handing_off"),
    Rare(timeout_in_hooks, (("running_hooks", "TimerFired"),), "timeout_in_hooks"),
    Rare(budget_time_is_up, (("awaiting_budget", "TimerFired"),), "budget_time_is_up"),
    _summarised("handing_off", partial(_summary_in, _handing_off_and_compacting, "lead", *ENOUGH, [HAND_OFF])),
    _summarised("awaiting_budget", partial(_summary_in, _waiting_for_children, "frugal", *_SPENT)),
    Rare(mail_lost_in_hooks, (("running_hooks", "WorkFailed"),), "mail_lost_in_hooks"),
    _lost("awaiting_tasks", partial(_signal_lost, "lead", [_SPAWN])),
    _lost("awaiting_budget", partial(_signal_lost, "frugal", *_SPENT)),
    _reset("handing_off", partial(_reset_in, _handing_off, "lead", [HAND_OFF])),
    _reset("awaiting_decisions", partial(_reset_in, _idle, "plain", [ASK])),
    _reset("awaiting_tasks", partial(_reset_in, _waiting_for_children, "lead", [_SPAWN])),
    _reset("awaiting_budget", partial(_reset_in, _waiting_for_children, "frugal", *_SPENT)),
)
