"""Every name that is written to history or typed by a person: changing one breaks runs that are asleep."""

WORKFLOW = "AgentRun"
WORKFLOW_TOOL_TASK = "ToolTask"
DEFAULT_TASK_QUEUE = "wakeful"

SIGNAL_SUBMIT = "submit"
SIGNAL_DECIDE = "decide"
SIGNAL_CANCEL = "cancel"

SIGNAL_DELIVER = "deliver"
"""Mail from another agent or from a running task."""
SIGNAL_SETTLED = "settled"
"""A sub-agent or a background task tells its owner that it has ended."""
SIGNAL_RETURNED = "returned"
"""A letter comes back: its recipient had just ended."""
SIGNAL_LETTERS = "letters"
"""Send dead letters again, or forget them."""
SIGNAL_LEND = "lend"
SIGNAL_GRANT = "grant"

UPDATE_DECIDE = "decide"
"""Takes what the signal takes, and answers at once what became of it."""

QUERY_STATUS = "status"
QUERY_TRANSCRIPT = "transcript"
QUERY_EVENTS = "events"
QUERY_KEEPS = "keeps"
QUERY_STATE = "state"
QUERY_POINT = "point"
"""What a thread kept besides its conversation when that had so many messages."""

ACTIVITY_RESOLVE_AGENT = "resolve_agent"
ACTIVITY_INFER = "infer"
ACTIVITY_RESTORE = "restore_thread"
ACTIVITY_COMPACT = "compact"
ACTIVITY_DELIVER = "deliver_message"
ACTIVITY_HOOKS = "run_hooks"

CARRIED = "carried"
"""The key under which an execution is given what the one before it carried over."""

RESERVED_TOOL_NAMES = frozenset(
    {ACTIVITY_RESOLVE_AGENT, ACTIVITY_INFER, ACTIVITY_RESTORE, ACTIVITY_COMPACT, ACTIVITY_DELIVER, ACTIVITY_HOOKS}
)
"""A tool is an activity by its own name, so it may not take one of ours."""

ATTRIBUTE_AGENT = "WakefulAgent"
ATTRIBUTE_STATUS = "WakefulStatus"
ATTRIBUTE_PARENT = "WakefulParent"
ATTRIBUTE_PENDING = "WakefulPending"
KEYWORD_ATTRIBUTES = (ATTRIBUTE_AGENT, ATTRIBUTE_STATUS, ATTRIBUTE_PARENT)
KEYWORD_LIST_ATTRIBUTES = (ATTRIBUTE_PENDING,)

MEMO_TITLE = "title"
MEMO_FORKED_FROM = "forked_from"

TOOL_DELEGATE = "agent_run_"
TOOL_HANDOFF = "handoff_to_"
TOOL_SPAWN = "spawn_agent"
TOOL_CANCEL_TASK = "cancel_task"
TOOL_LIST_TASKS = "list_tasks"
TOOL_TASK_RESULT = "task_result"
TOOL_SEND_MESSAGE = "send_message"
TOOL_RECOVER_MESSAGES = "recover_failed_messages"
"""Names of the tools that the runtime itself performs; the first two go on with an agent's id."""

RECIPIENT_NOT_FOUND = "recipient_not_found"
RECIPIENT_UNAVAILABLE = "recipient_unavailable"
TRANSPORT_FAILED = "transport_failed"
TASK_NOT_FOUND = "task_not_found"
AWAITING_TASKS = "awaiting_tasks"

TOOL_INTERRUPTED = "[Tool execution was interrupted]"
OUTCOME_UNKNOWN = "outcome unknown"
