"""A page of a list of tasks, as `ListTasks` asks for it. Pure."""

from a2a.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import apply_history_length, decode_page_token, encode_page_token, validate_page_size


def page_of(tasks: list[Task], wanted: ListTasksRequest) -> ListTasksResponse:
    """The tasks that are wanted, those that changed last first.

    Raises:
        InvalidParamsError: the page's size or its token is not valid.
    """
    size = wanted.page_size if wanted.HasField("page_size") else DEFAULT_LIST_TASKS_PAGE_SIZE
    validate_page_size(size)
    found = sorted((task for task in tasks if _is_wanted(task, wanted)), key=_newest_first, reverse=True)
    start = _position_after(wanted.page_token, found) if wanted.page_token else 0
    page = found[start : start + size]
    has_more = start + size < len(found)
    return ListTasksResponse(
        tasks=[_shown(task, wanted) for task in page],
        next_page_token=encode_page_token(page[-1].id) if has_more else "",
        page_size=len(page),
        total_size=len(found),
    )


def _is_wanted(task: Task, wanted: ListTasksRequest) -> bool:
    if wanted.status not in (TaskState.TASK_STATE_UNSPECIFIED, task.status.state):
        return False
    after = wanted.status_timestamp_after
    return not wanted.HasField("status_timestamp_after") or (
        task.status.timestamp.ToMilliseconds() >= after.ToMilliseconds()
    )


def _newest_first(task: Task) -> tuple[int, str]:
    return task.status.timestamp.ToMilliseconds(), task.id


def _position_after(token: str, tasks: list[Task]) -> int:
    last = decode_page_token(token)
    for number, task in enumerate(tasks):
        if task.id == last:
            return number + 1
    raise InvalidParamsError(f"pageToken {token!r} names no task of this list: begin again without one")


def _shown(task: Task, wanted: ListTasksRequest) -> Task:
    shown = Task()
    shown.CopyFrom(apply_history_length(task, wanted))
    if not wanted.include_artifacts:
        shown.ClearField("artifacts")
    return shown
