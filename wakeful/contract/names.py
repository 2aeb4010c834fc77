"""Every name that is written to history or typed by a person: changing one breaks runs that are asleep."""

WORKFLOW = "AgentRun"
DEFAULT_TASK_QUEUE = "wakeful"

SIGNAL_SUBMIT = "submit"
SIGNAL_DECIDE = "decide"
SIGNAL_CANCEL = "cancel"

UPDATE_DECIDE = "decide"
"""Takes what the signal takes, and answers at once what became of it."""

QUERY_STATUS = "status"
QUERY_TRANSCRIPT = "transcript"
QUERY_EVENTS = "events"

ACTIVITY_RESOLVE_AGENT = "resolve_agent"
ACTIVITY_INFER = "infer"
ACTIVITY_RESTORE = "restore_thread"
ACTIVITY_COMPACT = "compact"

CARRIED = "carried"
"""The key under which an execution is given what the one before it carried over."""

RESERVED_TOOL_NAMES = frozenset({ACTIVITY_RESOLVE_AGENT, ACTIVITY_INFER, ACTIVITY_RESTORE, ACTIVITY_COMPACT})
"""A tool is an activity by its own name, so it may not take one of ours."""

ATTRIBUTE_AGENT = "WakefulAgent"
ATTRIBUTE_STATUS = "WakefulStatus"
ATTRIBUTE_PARENT = "WakefulParent"
ATTRIBUTE_PENDING = "WakefulPending"
KEYWORD_ATTRIBUTES = (ATTRIBUTE_AGENT, ATTRIBUTE_STATUS, ATTRIBUTE_PARENT)
KEYWORD_LIST_ATTRIBUTES = (ATTRIBUTE_PENDING,)

MEMO_TITLE = "title"

TOOL_INTERRUPTED = "[Tool execution was interrupted]"
OUTCOME_UNKNOWN = "outcome unknown"
