"""Task queues: does a worker of the right version poll each that is in use, and are tasks waiting in it?"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from temporalio.client import Client

from wakeful.client.diagnosis.activities import backlog as backlog_of
from wakeful.client.diagnosis.activities import last_seen
from wakeful.client.diagnosis.evidence import QueueKind, TaskQueue
from wakeful.client.diagnosis.server_answers import read_queue
from wakeful.client.diagnosis.wording import capital, code, counted, listed, start_worker, temporal
from wakeful.contract.names import DEFAULT_TASK_QUEUE
from wakeful.doctor.open_runs import OpenRuns
from wakeful.doctor.report import SetupCheck, SetupProblem, error, skipped, warning
from wakeful.registry.registry import Registry

MAX_BACKLOG_SECONDS = 30.0
"""Tasks that wait for longer than this have too few workers."""

UNVERSIONED = ""


@dataclass(frozen=True)
class QueueUse:
    """A task queue, and who uses it."""

    name: str
    kinds: tuple[QueueKind, ...]
    runs: int = 0
    """Open runs on it."""
    is_inference: bool = False


def queues_in_use(task_queue: str, registry: Registry | None, runs: OpenRuns) -> list[QueueUse]:
    """The task queue of the workers, those of the open runs, and those that models and tools of the registry have."""
    counts = Counter(execution.task_queue for execution in runs.listed if execution.task_queue)
    both = (QueueKind.WORKFLOW, QueueKind.ACTIVITY)
    used = {name: QueueUse(name, both, counts[name]) for name in sorted({task_queue, *counts})}
    for model_queue in sorted(set(registry.inference_queues.values()) if registry else ()):
        used.setdefault(model_queue, QueueUse(model_queue, (QueueKind.ACTIVITY,), is_inference=True))
    own = {tool.descriptor.task_queue for tool in registry.tools.values()} if registry else set()
    for tool_queue in sorted(queue for queue in own if queue is not None):
        used.setdefault(tool_queue, QueueUse(tool_queue, (QueueKind.ACTIVITY,)))
    return list(used.values())


Read = Mapping[tuple[str, QueueKind], TaskQueue | str]


async def read_queues(client: Client, used: Iterable[QueueUse]) -> Read:
    """The task queues, or why one could not be read."""
    wanted = [(use.name, kind) for use in used for kind in use.kinds]
    read = await asyncio.gather(*(read_queue(client, name, kind) for name, kind in wanted))
    return dict(zip(wanted, read, strict=True))


def check_workers(used: Iterable[QueueUse], read: Read) -> SetupCheck:
    """Whether each task queue has workers, of a version that its tasks go to."""
    name, now = "workers", int(time.time() * 1000)
    problems, polled, unread = list[SetupProblem](), list[str](), list[str]()
    for use in used:
        for kind in use.kinds:
            queue = read[use.name, kind]
            if isinstance(queue, str):
                unread.append(queue)
                continue
            if (problem := _worker_problem(use, queue, now)) is not None:
                problems.append(problem)
                break  # both task queues of a name have the same workers
            if kind is use.kinds[-1]:
                polled.append(_polled(queue, now))
    if unread and not (problems or polled):
        return skipped(name, unread[0])
    return SetupCheck(name=name, summary="; ".join(polled), problems=tuple(problems))


def _polled(queue: TaskQueue, now: int) -> str:
    pollers = queue.live_pollers(now)
    builds = sorted({poller.version or poller.build or "no build id" for poller in pollers})
    workers = {poller.identity for poller in pollers}
    return f"{counted(len(workers), 'worker')} on {queue.name} ({', '.join(builds)})"


def _worker_problem(use: QueueUse, queue: TaskQueue, now: int) -> SetupProblem | None:
    pollers = queue.live_pollers(now)
    if not pollers:
        return _no_worker(use, queue, now)
    wanted = queue.versions or (UNVERSIONED,)
    found = sorted({poller.version for poller in pollers})
    return None if any(version in wanted for version in found) else _wrong_version(use, queue, found)


def _no_worker(use: QueueUse, queue: TaskQueue, now: int) -> SetupProblem:
    worker = start_worker(use.name, DEFAULT_TASK_QUEUE, inference=use.is_inference)
    waits = f" {counted(use.runs, 'open run')} {'wait' if use.runs != 1 else 'waits'} there." if use.runs else ""
    if queue.backlog:
        waits += f" {capital(backlog_of(queue))}."
    what = f"No worker polls task queue {use.name!r} for {queue.kind.value} tasks: {last_seen(queue, now)}.{waits}"
    next = f"Start one: {code(worker)}. Nothing is lost: runs continue where they are."
    return (error if waits else warning)(what, next, use.name)


def _wrong_version(use: QueueUse, queue: TaskQueue, found: list[str]) -> SetupProblem:
    wanted = listed(list(queue.versions)) if queue.versions else "workers without a version"
    polling = listed([version or "no version" for version in found])
    what = f"Tasks of task queue {use.name!r} go to {wanted}, but its workers are of {polling}: new runs wait."
    versioned = [version for version in found if version]
    if not versioned:
        return error(what, f"Start workers of {wanted}, or make another version the current one.", use.name)
    deployment, _, build = versioned[-1].rpartition(".")
    current = temporal(
        *("worker", "deployment", "set-current-version", "--deployment-name", deployment, "--build-id", build)
    )
    return error(what, f"Make the new version the current one: {code(current)}.", use.name)


def check_backlog(used: Iterable[QueueUse], read: Read) -> SetupCheck:
    """Whether tasks wait although there are workers."""
    name, now = "backlog", int(time.time() * 1000)
    queues = [queue for queue in read.values() if isinstance(queue, TaskQueue)]
    if not queues:
        return skipped(name, "no task queue could be read")
    kinds = {use.name: use for use in used}
    problems = [
        warning(
            f"{capital(backlog_of(queue))} in task queue {queue.name!r}.",
            "The workers have more tasks than they can run, or the queue has a rate limit: start more of them "
            f"({code(start_worker(queue.name, DEFAULT_TASK_QUEUE, inference=kinds[queue.name].is_inference))}), or "
            "raise --max-concurrent.",
            queue.name,
        )
        for queue in queues
        if queue.backlog and queue.backlog_age > MAX_BACKLOG_SECONDS and queue.live_pollers(now)
    ]
    waiting = sum(queue.backlog for queue in queues)
    summary = f"about {counted(waiting, 'task')}, none for long" if waiting else "none"
    return SetupCheck(name=name, summary=summary, problems=tuple(problems))
