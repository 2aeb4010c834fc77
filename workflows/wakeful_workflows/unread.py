"""A thread that has not read yet what it goes on from: which execution that is, and who is asked meanwhile."""

from wakeful.contract.inference import RestoreInput
from wakeful.contract.requests import PointRequest, RunRequest
from wakeful.contract.views import Earlier, PointView, TranscriptPage
from wakeful_workflows.pages import Before


def past_of(request: RunRequest) -> RestoreInput | None:
    """What a thread goes on from, if it is not new."""
    if (fork := request.fork) is not None:
        return RestoreInput(run_id=fork.run_id, thread_id=fork.thread_id, messages=fork.messages, digest=fork.digest)
    return RestoreInput(run_id=request.restore_from) if request.restore_from is not None else None


def unread_page(past: RestoreInput) -> TranscriptPage:
    """Where the conversation stands."""
    return TranscriptPage(messages=(), restoring=True, earlier=_place(past))


def unread_point(past: RestoreInput, asked: PointRequest) -> PointView:
    """Who knows what was kept in it."""
    return PointView(messages=asked.messages, earlier=_place(past))


def _place(past: RestoreInput) -> Earlier:
    return Before(past.run_id, past.thread_id).holding(past.messages or 0, past.digest)
