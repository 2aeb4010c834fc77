"""When the verdicts of gates apply, and what the loop itself judges.

Gates judge the calls of a step together with the model's answer, before any call runs. A call that runs may change what
they say about a later one. So where earlier calls run, a verdict is not final: the call starts, and its activity asks
the gates again. A call without such an activity is judged once; if a decision resumes it, the loop asks the permission
rules again, with the arguments that it runs with.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from wakeful.contract.base import replace
from wakeful.contract.gates import Block, Verdict
from wakeful.contract.hooks import Phase
from wakeful.contract.messages import ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.tools import ToolDescriptor
from wakeful.loop.calls.batch import NewCall, ResumingCall, RunningCall, SuspendedCall
from wakeful.loop.calls.commit import batch_of
from wakeful.loop.machine import revisions
from wakeful.loop.machine.state import Thread
from wakeful.permissions.parsing import parse_pattern, parse_untyped_pattern
from wakeful.permissions.patterns import ToolPattern
from wakeful.permissions.rules import Ruling, judge, run_context
from wakeful.permissions.text_matcher import MAX_JUDGING_COST, Search

TASK_RULES = MAX_JUDGING_COST
"""What the rules may take to search the arguments of all calls that the loop judges in one workflow task. A rule that
is not reached is unsure: it denies, if it is one that denies."""

TASK_RULES_BEFORE = 3 * MAX_JUDGING_COST
"""The same for older runs: most of the time after which a task fails."""


def final_calls(
    calls: Iterable[ToolCall], verdicts: Mapping[str, Verdict], tool: Callable[[str], ToolDescriptor | None]
) -> frozenset[str]:
    """The calls of an answer whose verdicts, which come with it, are final: no call that runs before changes them."""
    final, runs_before = set(), False
    for call in calls:
        descriptor = tool(call.name)
        if call.id not in verdicts:
            runs_before = runs_before or _has_activity(descriptor)
        elif not (runs_before and _is_judged_again(descriptor)):
            final.add(call.id)
    return frozenset(final)


def final_verdict(thread: Thread, new: NewCall) -> Verdict | None:
    """What happens instead of running the call; None if it runs, perhaps to be judged again."""
    return _verdicts(thread)[new.call.id] if new.call.id in _final(thread) else None


def first_to_start(thread: Thread, candidates: Iterable[NewCall]) -> NewCall | None:
    """Of calls that run in parallel, the next to start: a blocked one first, then any that need not wait.

    A call whose gates will be asked again waits until the calls before it have finished or suspended.
    """
    verdicts, final, free = _verdicts(thread), _final(thread), {new.call.id for new in candidates}
    busy_before, first = False, None
    for call in batch_of(thread).calls:
        verdict = verdicts.get(call.call.id)
        if isinstance(call, NewCall) and call.call.id in free:
            is_final = call.call.id in final
            if is_final and isinstance(verdict, Block):
                return call
            if first is None and (verdict is None or is_final or not busy_before):
                first = call
        busy_before = busy_before or isinstance(call, NewCall | RunningCall | ResumingCall)
    return first


def denial_of_resumed(
    thread: Thread, call: ResumingCall, executed: ToolCall, *, now: int
) -> tuple[Thread, Block | None]:
    """How the permission rules deny a resumed call that no activity judges again; `executed` has its arguments."""
    if _is_judged_again(thread.tool(call.call.name)):
        return thread, None
    typed = thread.current.revision >= revisions.TYPED_CONDITIONS
    parse = parse_pattern if typed else parse_untyped_pattern
    thread, ruling = _judged(thread, executed, now=now, questions=(), parse=parse)
    reason = ruling.denial_of(executed.name)
    return thread, None if reason is None else Block(reason=reason, rule=ruling.decided_by if typed else "")


def standing_rule(thread: Thread, call: ToolCall, *, now: int) -> tuple[Thread, str | None]:
    """The rule that allows a call, if a decision with `always` has added it to the thread."""
    thread, ruling = _judged(thread, call, now=now, questions=thread.questions, parse=parse_pattern)
    return thread, ruling.rule.tool if ruling.rule is not None and ruling.rule in thread.permissions else None


def _judged(
    thread: Thread,
    call: ToolCall,
    *,
    now: int,
    questions: Sequence[Sequence[Rule]],
    parse: Callable[[str], ToolPattern],
) -> tuple[Thread, Ruling]:
    """What the rules say of a call, and the thread after they have searched its arguments."""
    run, context = thread.current, run_context(thread.identity, thread.current.metadata)
    work = run.task_work_at(now)
    search = Search((TASK_RULES if run.revision >= revisions.TASKS_ARE_BOUNDED else TASK_RULES_BEFORE) - work.rules)
    left, rules = search.left, thread.rules
    ruling = judge(
        thread.agent.permissions,
        rules,
        call.name,
        call.arguments,
        questions=questions,
        context=context,
        parse=parse,
        search=search,
    )
    taken = replace(work, rules=work.rules + left - search.left)
    return thread.with_run(replace(run, task_work=taken)), ruling


def cannot_judge_edited(thread: Thread, call: SuspendedCall) -> bool:
    """Whether the agent has gates that could not judge other arguments for the call: it has no activity to do so."""
    has_gates = bool(thread.agent.gates) or thread.agent.has_hooks(Phase.TOOL_GATE)
    return has_gates and not _has_activity(thread.tool(call.call.name))


def _is_judged_again(tool: ToolDescriptor | None) -> bool:
    """Whether the activity of a call asks the gates; one on another task queue is not ours and asks none."""
    return _has_activity(tool) and tool is not None and tool.task_queue is None


def _has_activity(tool: ToolDescriptor | None) -> bool:
    """Frontend tools, runtime tools, background tools and unknown tools have none in this workflow."""
    return tool is not None and not (tool.frontend or tool.runtime or tool.background)


def _final(thread: Thread) -> frozenset[str]:
    return final_calls(batch_of(thread).response.tool_calls, _verdicts(thread), thread.tool)


def _verdicts(thread: Thread) -> Mapping[str, Verdict]:
    return batch_of(thread).response.verdicts
