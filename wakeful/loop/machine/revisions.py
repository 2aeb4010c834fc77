"""The revisions of the loop, and what each of them changed.

A run is pinned to the revision that its resolution recorded: its history replays on every later release. For a change
of what the loop does with facts that open runs have recorded, raise `REVISION` (once a release), name the change here,
and branch as `if run.revision >= revisions.THE_CHANGE`. Until its resolution, a run has the newest revision, so what it
does before cannot be pinned this way.
"""

REVISION = 4
"""The revision that new runs are pinned to."""

TASK_NAMES_ARE_CONTENT = 2
"""The thread id of a task has its agent's id. Before, it had the name that the model gave the task."""

LATE_MESSAGES = 2
"""A thread that has ended keeps mail, instead of returning it, and one in `run` mode is woken for what comes then."""

OWN_TOOLS_STAY = 2
"""A frontend tool replaces a tool of the agent only if the agent names that tool as replaceable."""

HELD_JUDGED_ONCE = 2
"""A decision that is held is judged again when its calls change. Before, it was judged after every fact, which blocked
the workflow task of a thread with hundreds of them."""

LINEAR_PATTERNS = 2
"""Patterns of JSON schemas are matched in linear time. Before, Python's engine matched those that seemed fast."""

AGENTS_ARE_COUNTED = 2
"""A tree has a limit of agents, and a sub-agent asks its parent before it starts one."""

TYPED_CONDITIONS = 3
"""Where the loop judges a call, the conditions of rules compare numbers and lists, and a denial names its rule. Before,
`pay(amount > 5)` was a glob."""

FINISH_IS_CHECKED = 3
"""A value with which a hook or a tool ends a run has to match the agent's output type, as an answer of the model."""

FILES_ARE_REPORTED = 3
"""A sub-agent reports the files of its answer to its parent. Before, they stayed in its own conversation."""

DECISIONS_ARE_EVENTS = 3
"""A decision that is applied has an event, and the message with its call's result has it, too. Before, neither had."""

AUTHORITY_NARROWS = 3
"""An agent's own rules hold for its descendants and for those it hands off to, what a request or an ancestor asks about
is asked whatever allows it, and the run that a task's end begins has the authority of the run that started the task.
Before, an agent's own rules were its own, and those of a request ended with the run."""

ENDED_TAKE_NO_MAIL = 3
"""A sub-agent that has reported its end returns mail. Before, it was woken for it, outside of its tree."""

MAIL_OF_TASKS_IS_BOUND = 4
"""The run that mail of a thread's own background agents begins has the authority of the run that started them. Before,
it had that of no run, so an agent that was denied a call could have its helper write to it, and make the call then."""

HOOKS_ANSWER_NO_REQUEST = 4
"""What a request asks about is asked although a hook or a tool has added a rule that allows it. Before, a skill that
the model activated could allow what the request asked about."""

TOOL_FILES_ARE_REPORTED = 4
"""A run's result refers to the files that its tools returned, and a sub-agent reports them to its parent. Before, they
stayed in the conversation."""

GUARDED_SIGNALS = 4
"""A `cancel` and a `decide` signal can name the run that they are for, and a decision can have `updated_at`, which is
ignored. Before, these fields were unknown, and the signals refused."""

UNRETURNED_MAIL_WAITS = 4
"""Mail that a thread could not return waits for its next step. Before, it began a run of an idle thread, or a step of
one that waited for its tasks, whose commands were dropped: the thread then waited for ever."""

TASKS_ARE_BOUNDED = 4
"""The checks of one workflow task are limited together: of decisions by schemas, and of calls by permission rules.
Before, each had a limit of its own, and for runs from before, what no workflow task could have completed is limited."""
