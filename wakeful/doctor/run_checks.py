"""Runs that need a person: their workflow task fails, their retries are exhausted, or they cannot be decoded here."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest
from temporalio.client import Client, WorkflowExecution
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

from wakeful.client.diagnosis import server_answers
from wakeful.client.diagnosis.causes import Cause
from wakeful.client.diagnosis.evidence import Activity
from wakeful.client.diagnosis.reader import why
from wakeful.client.diagnosis.wording import clause, code, counted, times, wakeful
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import CannotDecode, ProviderErrorKind, WakefulError
from wakeful.doctor.open_runs import THREADS, OpenRuns, list_executions, named
from wakeful.doctor.report import SetupCheck, SetupProblem, error, skipped, warning
from wakeful.undecodable import check_codec, check_decodable, decode_problem

MANY_ATTEMPTS = 5
"""Of one activity: from so many failures on, it will hardly succeed by itself."""
RECENT = timedelta(days=1)
"""How long ago a run may have ended with exhausted retries to be reported."""
MAX_ENDED = 200
DIAGNOSED = 2
"""Runs whose failing workflow task is explained; the others are named."""
SAMPLE = 20
"""Threads whose memo is decoded."""
SAMPLED_INPUTS = 5
"""Threads whose input is decoded, too, which may be in the payload store."""

_EXHAUSTED = (*(kind.value for kind in ProviderErrorKind if kind.transient), "workers_lost", "worker_lost")
_REASON = SearchAttributeKey.for_keyword(names.ATTRIBUTE_REASON)


async def check_workflow_tasks(client: Client, runs: OpenRuns) -> SetupCheck:
    """Whether the workflow task of a run fails again and again."""
    name = "workflow tasks"
    if runs.unread is not None:
        return skipped(name, runs.unread)
    failing = []
    for run in runs.described:
        task = server_answers.workflow_task(run.raw_description)
        if task is not None and task.attempt > 1:
            failing.append(run.id)
    problems = [await _explained(client, thread_id) for thread_id in failing[:DIAGNOSED]]
    if others := failing[DIAGNOSED:]:
        problems.append(
            error(
                f"The workflow task of {counted(len(others), 'more run')} fails again and again: {named(others)}.",
                f"{code(wakeful('why', others[0]))} explains the first of them.",
                *others,
            )
        )
    return SetupCheck(name=name, summary=f"none fails, of {runs.summary}", problems=tuple(problems))


async def _explained(client: Client, thread_id: str) -> SetupProblem:
    found = None
    with contextlib.suppress(WakefulError):  # it has ended since, or cannot be read here
        found = await why(ThreadReader(client), thread_id)
    if found is None or found.cause is not Cause.TASK_FAILING:
        command = wakeful("why", thread_id)
        return error(
            f"The workflow task of thread {thread_id!r} has failed.", f"{code(command)} explains it.", thread_id
        )
    return error(f"Thread {found.doing} {found.why}", found.next, thread_id)


async def check_retries(client: Client, runs: OpenRuns) -> SetupCheck:
    """Whether activities fail again and again, or runs have ended because of that."""
    name = "retries"
    if runs.unread is not None:
        return skipped(name, runs.unread)
    problems = [*await _retrying(client, runs), *await _ended(client)]
    return SetupCheck(name=name, summary="none exhausted", problems=tuple(problems))


async def _retrying(client: Client, runs: OpenRuns) -> list[SetupProblem]:
    """What is retried now, by the activity and the kind of its failure."""
    groups = defaultdict[tuple[str, str], list[tuple[str, Activity]]](list)
    for run in runs.described:
        for pending in run.raw_description.pending_activities:
            if pending.attempt <= MANY_ATTEMPTS:
                continue
            activity = await server_answers.activity(client, pending)
            if activity.failure is not None:
                groups[activity.type, activity.failure.kind].append((run.id, activity))
    return [_retrying_problem(type, kind, found) for (type, kind), found in sorted(groups.items())]


def _retrying_problem(type: str, kind: str, found: Sequence[tuple[str, Activity]]) -> SetupProblem:
    threads = [thread_id for thread_id, _ in found]
    most = max((activity for _, activity in found), key=lambda activity: activity.attempt)
    failure = clause(most.failure.message) if most.failure is not None else ""
    what = (
        f"Activity {type!r} has failed {times(most.attempt - 1)} and is retried ({kind or 'error'}), in "
        f"{counted(len(threads), 'run')}: {named(threads)}. The last failure: {failure}."
    )
    return warning(what, f"{code(wakeful('why', threads[0]))} says until when, and what to do.", *threads)


async def _ended(client: Client) -> list[SetupProblem]:
    since = (datetime.now(UTC) - RECENT).strftime("%Y-%m-%dT%H:%M:%SZ")
    query = (
        f"{THREADS} AND {names.ATTRIBUTE_OUTCOME} = 'error' AND StartTime > '{since}' AND ExecutionStatus != "
        "'ContinuedAsNew'"
    )
    try:
        ended = await list_executions(client, query, MAX_ENDED)
    except RPCError:  # the search attribute is missing, which another check reports
        return []
    reasons = {each.id: each.typed_search_attributes.get(_REASON) or "" for each in ended}
    exhausted = {id: reason for id, reason in reasons.items() if reason in _EXHAUSTED}
    if not exhausted:
        return []
    counts = ", ".join(f"{reason} {count}" for reason, count in Counter(exhausted.values()).most_common())
    threads = list(exhausted)
    what = f"{counted(len(threads), 'run')} of the last day ended with exhausted retries ({counts}): {named(threads)}."
    next = (
        f"{code(wakeful('why', threads[0]))} shows the last failure. When that is repaired, a message to the thread "
        "continues it."
    )
    return [warning(what, next, *threads)]


async def check_payloads(client: Client, runs: OpenRuns) -> SetupCheck:
    """Whether this client can decode the newest threads, with its codec and its payload store."""
    name = "payloads"
    if runs.unread is not None:
        return skipped(name, runs.unread)
    try:
        newest = await list_executions(client, THREADS, SAMPLE)
    except RPCError as failure:
        return skipped(name, f"threads could not be listed: {failure.message}")
    failures = defaultdict[str, list[str]](list)
    for index, thread in enumerate(newest):
        if (problem := await _decode_problem(client, thread, reads_input=index < SAMPLED_INPUTS)) is not None:
            failures[problem].append(thread.id)
    problems = [_undecodable(problem, threads) for problem, threads in sorted(failures.items())]
    decoded = "the newest thread decodes" if len(newest) == 1 else f"the newest {len(newest)} threads decode"
    summary = decoded if newest else "no thread yet"
    return SetupCheck(name=name, summary=summary, problems=tuple(problems))


def _undecodable(problem: str, threads: Sequence[str]) -> SetupProblem:
    what = f"{counted(len(threads), 'thread')} cannot be decoded here: {problem}. They are {named(threads)}."
    next = (
        "Connect with the codec, the key and the payload store of your workers: --client module:function or "
        "WAKEFUL_CLIENT, and WAKEFUL_PAYLOAD_STORE."
    )
    return error(what, next, *threads)


async def _decode_problem(client: Client, thread: WorkflowExecution, *, reads_input: bool) -> str | None:
    converter = client.data_converter
    try:
        check_decodable(converter, thread)
        await check_codec(converter, thread)
        if reads_input:
            await _read_input(client, thread)
    except CannotDecode as undecodable:
        return undecodable.reason
    except RPCError:  # it was deleted meanwhile
        return None
    except Exception as failure:  # whatever a codec, a converter or a store raises
        reason = decode_problem(converter, failure)
        return reason or f"{type(failure).__name__}: {' '.join(str(failure).split())[:200]}"
    return None


async def _read_input(client: Client, thread: WorkflowExecution) -> None:
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=ExecutionName(workflow_id=thread.id, run_id=thread.run_id),
        maximum_page_size=1,
    )
    answer = await client.workflow_service.get_workflow_execution_history(request, timeout=QUERY_TIMEOUT)
    for event in answer.history.events:
        await client.data_converter.decode(event.workflow_execution_started_event_attributes.input.payloads)
