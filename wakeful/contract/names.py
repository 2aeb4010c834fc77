"""Every name that is written to history or typed by a person. They are permanent: runs that are asleep depend on them.

Ids, which are names with numbers in them, are in `ids`.
"""

WORKFLOW = "AgentRun"
WORKFLOW_TOOL_TASK = "ToolTask"
WORKFLOW_ARCHIVE = "ThreadArchive"
WORKFLOW_SCHEDULED = "ScheduledMessage"
WORKFLOW_A2A_PUSH = "A2aPush"
DEFAULT_TASK_QUEUE = "wakeful"

LOCAL_SOURCE = "local"
"""In `local/agent`: the agents of the registry itself, and not those that it discovers."""

SIGNAL_SUBMIT = "submit"
SIGNAL_DECIDE = "decide"
SIGNAL_CANCEL = "cancel"
SIGNAL_CLOSE = "close"
"""Cancel the run under way, if there is one, and complete the thread's workflow."""
SIGNAL_UNDELIVERED = "undelivered"
"""Send undelivered messages again, or drop them."""
SIGNAL_WITHDRAW = "withdraw"
"""Withdraw messages that no run has read."""
SIGNAL_EDIT = "edit"
"""Replace a message that no run has read. It counts as a submission: inference inputs may refer to its content."""
SIGNAL_REVOKE = "revoke"
"""Revoke permission rules of the thread."""

SIGNAL_DELIVER = "deliver"
"""Mail: a message from another agent, or an event of a background task that is still running."""
SIGNAL_MAIL_RETURNED = "mail_returned"
"""A message comes back: its recipient ended before it could read it."""
SIGNAL_CHILD_SETTLED = "child_settled"
"""A sub-agent or a background task reports to its parent how it ended."""
SIGNAL_BUDGET_REQUEST = "budget_request"
SIGNAL_BUDGET_GRANT = "budget_grant"
SIGNAL_MISSING = "missing"
"""A worker lacks what an activity of the thread needs, and leaves it to others: the details show it, and no more."""
SIGNAL_THREAD_CLOSED = "thread_closed"
"""To an archive: its thread has closed."""
SIGNAL_SET_PUSH = "set_push_config"
SIGNAL_DELETE_PUSH = "delete_push_config"
SIGNAL_TASK_CHANGED = "task_changed"
"""To the push notifications of a thread: where to send those of a task, where no longer, and that there may be news."""

PUBLIC_SIGNALS = (
    SIGNAL_SUBMIT,
    SIGNAL_DECIDE,
    SIGNAL_CANCEL,
    SIGNAL_CLOSE,
    SIGNAL_UNDELIVERED,
    SIGNAL_WITHDRAW,
    SIGNAL_EDIT,
    SIGNAL_REVOKE,
)
"""The signals that people send; the others are sent by threads to each other."""

QUERY_STATUS = "status"
QUERY_TRANSCRIPT = "transcript"
QUERY_EVENTS = "events"
QUERY_STATE = "state"
QUERY_CARRYOVER = "carryover"
"""What a thread keeps besides its conversation, for the execution that wakes it."""
QUERY_OUTCOMES = "outcomes"
"""What became of decisions and messages, by their ids."""
QUERY_QUEUED = "queued"
"""The messages and the mail that no run has read."""
QUERY_PERMISSIONS = "permissions"
"""The permission rules that apply to the thread."""
QUERY_FORK_POINT = "fork_point"
"""What a thread kept when its conversation had so many messages, for a fork."""

HANDLED_EARLY = "HandledEarly"
"""The type of the failure by which a workflow rejects events that no workflow task has handled yet."""

DEADLOCK = "[TMPRL1101]"
"""The SDK's code for a workflow task that takes more than two seconds, as any may on a machine that is busy enough."""

MALFORMED_REQUEST = "malformed_request"
"""The type of the failure of a workflow that was started with something else than a run request."""

NOT_STARTED = "NotStarted"
"""The type of the failure by which a workflow rejects queries while it is being restored."""

ACTIVITY_RESOLVE_AGENT = "resolve_agent"
ACTIVITY_DESCRIBE_WORKER = "describe_worker"
"""Of a run that ends before its agent is resolved: which search attributes it may set."""
ACTIVITY_INFER = "infer"
ACTIVITY_CALL_REMOTE = "call_remote_agent"
"""In place of `infer`, if another service runs the agent."""
ACTIVITY_CANCEL_REMOTE = "cancel_remote_task"
ACTIVITY_RESTORE = "restore_thread"
ACTIVITY_ARCHIVE = "archive_thread"
ACTIVITY_CHECK_THREAD = "check_archived_thread"
"""Of an archive: whether its thread may still need it."""
ACTIVITY_EXPIRE = "delete_expired_thread"
"""Of an archive: delete its thread, which has expired."""
ACTIVITY_WAKE = "wake_thread"
"""Of an archive: wake its thread for messages that came after the close."""
ACTIVITY_COMPACT = "compact"
ACTIVITY_DELIVER = "deliver_message"
ACTIVITY_FIND_STOPPING = "find_stopping_ancestor"
"""Before a sub-agent starts another: whether a thread above it stops its descendants."""
ACTIVITY_HOOKS = "run_hooks"
ACTIVITY_POST_TASK = "post_task_update"
"""Of the push notifications of a thread: wait for the next state of an A2A task, and post it to a webhook."""

INFERENCES = frozenset({ACTIVITY_INFER, ACTIVITY_CALL_REMOTE})
"""The activities that answer: both take an `InferInput` and return a `ModelResponse`."""

HEADER_RUN = "wakeful-run"
"""The header of every activity of a run: `{"run_id": …, "agent_id": …}`, for log lines."""

SNAPSHOT = "snapshot"
"""The key under which continue-as-new passes the thread to the next execution."""

HEADER_TRACE = "wakeful-trace"
"""The header in which continue-as-new passes the open spans of a thread to the next execution, if it is traced."""

RESERVED_TOOL_NAMES = frozenset(
    {
        ACTIVITY_RESOLVE_AGENT,
        ACTIVITY_DESCRIBE_WORKER,
        ACTIVITY_INFER,
        ACTIVITY_CALL_REMOTE,
        ACTIVITY_CANCEL_REMOTE,
        ACTIVITY_RESTORE,
        ACTIVITY_ARCHIVE,
        ACTIVITY_CHECK_THREAD,
        ACTIVITY_EXPIRE,
        ACTIVITY_WAKE,
        ACTIVITY_COMPACT,
        ACTIVITY_DELIVER,
        ACTIVITY_FIND_STOPPING,
        ACTIVITY_HOOKS,
        ACTIVITY_POST_TASK,
    }
)
"""A tool is an activity by its own name, so it may not take one of ours."""

ATTRIBUTE_AGENT = "WakefulAgent"
ATTRIBUTE_STATUS = "WakefulStatus"
ATTRIBUTE_PARENT = "WakefulParent"
ATTRIBUTE_OUTCOME = "WakefulOutcome"
"""How the newest run ended; absent while a run is under way."""
ATTRIBUTE_REASON = "WakefulReason"
"""A short code that says more of the outcome."""
ATTRIBUTE_TENANT = "WakefulTenant"
ATTRIBUTE_USER = "WakefulUser"
"""The user for whom the newest run acts."""
ATTRIBUTE_USERS = "WakefulUsers"
"""All users who have written to the thread."""
ATTRIBUTE_PENDING = "WakefulPending"
KEYWORD_ATTRIBUTES = (
    ATTRIBUTE_AGENT,
    ATTRIBUTE_STATUS,
    ATTRIBUTE_PARENT,
    ATTRIBUTE_OUTCOME,
    ATTRIBUTE_REASON,
    ATTRIBUTE_TENANT,
    ATTRIBUTE_USER,
)
KEYWORD_LIST_ATTRIBUTES = (ATTRIBUTE_PENDING, ATTRIBUTE_USERS)

MEMO_TITLE = "title"
MEMO_FORKED_FROM = "forked_from"
MEMO_PENDING = "pending"
"""Of a thread with calls that wait for a decision: what lists show of them."""
MEMO_COUNTED = "counted"
"""Of a sub-agent: its parent counts the agents of their tree, and answers requests for more."""
MEMO_STOPPING = "stopping"
"""Of a thread that is stopping its sub-agents, and all of their descendants."""
MEMO_WOKEN_FROM = "woken_from"
"""Of a thread that was woken: the run id of its closed execution."""
MEMO_SCHEDULED_AGENT = "wakeful_agent"
MEMO_SCHEDULED_THREAD = "wakeful_thread"
"""Of a schedule: the agent, and the thread that its messages are sent to."""
MEMO_CLOSING = "closing"
"""Of a thread that is being closed and waits for something first: a client waits until it is closed, and wakes it."""

MEMO_ENDED = "run_ended"
"""Of an execution that the workflow itself closed as failed or cancelled, with everything done that an end does."""
MEMO_RESULT = "run_result"
"""Of an execution that was closed as cancelled: the result of its run, for which Temporal has no other place."""

TOOL_DELEGATE = "agent_run_"
TOOL_HANDOFF = "handoff_to_"
TOOL_SPAWN = "spawn_agent"
TOOL_CANCEL_TASK = "cancel_task"
TOOL_LIST_TASKS = "list_tasks"
TOOL_TASK_RESULT = "task_result"
TOOL_SEND_MESSAGE = "send_message"
TOOL_RECOVER_MESSAGES = "recover_failed_messages"
"""Names of the tools that the runtime itself performs; the first two are followed by an agent's id, spelled as
`wakeful/registry/addressing.py` says."""
TOOL_REMOTE_INPUT = "remote_input"
"""The question of a remote agent, which a person answers with a decision."""

ACTION_PERMISSION = "tool:PermissionConfirm"
"""The action of a suspension by which permission rules ask about a call."""

REMOTE_TASK_PENDING = "RemoteTaskPending"
"""The type of the failure that ends an attempt while the remote task is at work: Temporal polls again later."""

RECIPIENT_NOT_FOUND = "recipient_not_found"
RECIPIENT_UNAVAILABLE = "recipient_unavailable"
RECIPIENT_OF_OTHER_TENANT = "recipient_of_other_tenant"
TRANSPORT_FAILED = "transport_failed"
TASK_NOT_FOUND = "task_not_found"
AWAITING_TASKS = "awaiting_tasks"
PENDING_WORK = "pending_work"

TOOL_INTERRUPTED = "[Tool execution was interrupted]"
OUTCOME_UNKNOWN = "outcome unknown"
