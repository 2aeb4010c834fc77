"""Changing a name breaks the runs that are asleep."""

from wakeful.contract import names


def test_the_names_in_history_are_what_they_have_always_been() -> None:
    assert {name: value for name, value in vars(names).items() if name.isupper()} == {
        "WORKFLOW": "AgentRun",
        "DEFAULT_TASK_QUEUE": "wakeful",
        "SIGNAL_SUBMIT": "submit",
        "SIGNAL_DECIDE": "decide",
        "SIGNAL_CANCEL": "cancel",
        "UPDATE_DECIDE": "decide",
        "QUERY_STATUS": "status",
        "QUERY_TRANSCRIPT": "transcript",
        "QUERY_EVENTS": "events",
        "ACTIVITY_RESOLVE_AGENT": "resolve_agent",
        "ACTIVITY_INFER": "infer",
        "ACTIVITY_RESTORE": "restore_thread",
        "ACTIVITY_COMPACT": "compact",
        "CARRIED": "carried",
        "RESERVED_TOOL_NAMES": frozenset({"resolve_agent", "infer", "restore_thread", "compact"}),
        "ATTRIBUTE_AGENT": "WakefulAgent",
        "ATTRIBUTE_STATUS": "WakefulStatus",
        "ATTRIBUTE_PARENT": "WakefulParent",
        "ATTRIBUTE_PENDING": "WakefulPending",
        "KEYWORD_ATTRIBUTES": ("WakefulAgent", "WakefulStatus", "WakefulParent"),
        "KEYWORD_LIST_ATTRIBUTES": ("WakefulPending",),
        "MEMO_TITLE": "title",
        "TOOL_INTERRUPTED": "[Tool execution was interrupted]",
        "OUTCOME_UNKNOWN": "outcome unknown",
    }
