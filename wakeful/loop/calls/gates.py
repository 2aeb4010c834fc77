"""What gates say of the calls of a step, and when it counts.

They are asked with the model's answer, before any of its calls runs. A call that runs can change what they say of a
later one, so a call they object to is then not judged by that: it is begun, and its activity asks them again.
"""

from collections.abc import Iterable, Mapping

from wakeful.contract.gates import Block, Verdict
from wakeful.loop.calls.batch import Call, NewCall, ResumingCall, RunningCall
from wakeful.loop.calls.commit import batch_of
from wakeful.loop.machine.state import RunState


def final_verdict(state: RunState, new: NewCall) -> Verdict | None:
    """What is done with the call instead of running it; None if it runs, perhaps to be judged there."""
    verdict = _verdicts(state).get(new.call.id)
    if verdict is None or (_is_asked_again(state, new) and _any_runs_before(state, new)):
        return None
    return verdict


def first_to_start(state: RunState, news: Iterable[NewCall]) -> NewCall | None:
    """Of calls that run together, the next to start: one that is forbidden, or else any that need not wait."""
    free = [new for new in news if not _has_to_wait(state, new)]
    return min(free, key=lambda new: not isinstance(final_verdict(state, new), Block), default=None)


def _has_to_wait(state: RunState, new: NewCall) -> bool:
    """A call that gates will be asked about again waits until what came before it has done what it does."""
    if new.call.id not in _verdicts(state) or final_verdict(state, new) is not None:
        return False
    earlier = batch_of(state).before(new.call.id)
    return any(isinstance(call, NewCall | RunningCall | ResumingCall) for call in earlier)


def _any_runs_before(state: RunState, new: NewCall) -> bool:
    verdicts = _verdicts(state)
    earlier = batch_of(state).before(new.call.id)
    return any(call.call.id not in verdicts and _runs(state, call) for call in earlier)


def _is_asked_again(state: RunState, new: NewCall) -> bool:
    """Whether its activity will ask: one on a queue of its own is somebody else's, and asks nobody."""
    tool = state.tool(new.call.name)
    return _runs(state, new) and tool is not None and tool.task_queue is None


def _runs(state: RunState, call: Call) -> bool:
    """Whether the call has an activity: what the front end or the runtime performs, or nobody knows, has none."""
    tool = state.tool(call.call.name)
    return tool is not None and not (tool.frontend or tool.runtime or tool.background)


def _verdicts(state: RunState) -> Mapping[str, Verdict]:
    return batch_of(state).response.verdicts
