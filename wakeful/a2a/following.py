"""Follow a task: what happens in its thread and its delegates, as A2A's events. It waits for history."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from a2a.types import Artifact, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

from wakeful.a2a.parts import data_part, parts_of
from wakeful.a2a.projection import Phase, RunRecord, TreeRecord
from wakeful.a2a.reading import TaskReader
from wakeful.a2a.tasks import RESPONSE, SETTLED, TaskRef, files_artifact, rejected
from wakeful.client.client import Client
from wakeful.client.watching.live import REWOUND
from wakeful.contract import names
from wakeful.contract.events import EventRecord, FinishSummary, SignalRefused, StepStart, StreamReset, TextDelta

TaskEvent = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class TaskFollower:
    """Follows one task from what was read of it, until there is something for the client to do: its end, or a question.

    Args:
        tree: what was read of the thread; the follower completes it.
        task: the task as the client knows it: what changes is an event.
    """

    def __init__(self, client: Client, reader: TaskReader, tree: TreeRecord, ref: TaskRef, task: Task) -> None:
        self._client = client
        self._reader = reader
        self._tree = tree
        self._ref = ref
        self._answer = AnswerStream(ref)
        self.task = task
        """The task as of now."""

    async def events(self) -> AsyncGenerator[TaskEvent, None]:
        """What changes, until the task is settled, or its thread has ended."""
        is_rewound = True
        while is_rewound:
            is_rewound = False
            async with aclosing(self._watch()) as records:
                async for record in records:
                    if is_rewound := is_rewind(record):
                        break
                    for event in await self._on_record(record):
                        yield event
                        if isinstance(event, TaskStatusUpdateEvent) and event.status.state in SETTLED:
                            return
            if is_rewound:
                yield await self._read_again()

    def _watch(self) -> AsyncGenerator[EventRecord, None]:
        after = self._tree.positions
        records = self._client.watch(self._ref.thread_id, after=after, live=True, descendants=True)
        assert isinstance(records, AsyncGenerator)  # to be closed when the client has gone
        return records

    async def _on_record(self, record: EventRecord) -> list[TaskEvent]:
        """What a record of the thread, or of a delegate, changes."""
        self._tree.on_record(record)
        task = await self._reader.task(self._tree, self._ref)
        if task is None and isinstance(record.event, SignalRefused) and record.event.signal == names.SIGNAL_SUBMIT:
            task = await self._refused()
        if task is None:
            return []
        run = self._tree.root.run_of(self._ref.message_id)
        events: list[TaskEvent] = list(self._answer.on_record(record, run)) if run is not None else []
        if shown(task) != shown(self.task):
            events.append(TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status))
        self.task = task
        return events

    async def _refused(self) -> Task | None:
        reason = await self._reader.refusal(self._ref)
        return None if reason is None else rejected(self.task, reason)

    async def _read_again(self) -> Task:
        """The task after a rewind, which has undone a part of what was followed."""
        tree = await self._reader.tree(self._ref.thread_id)
        self._tree, self._answer = tree or self._reader.empty_tree(self._ref.thread_id), AnswerStream(self._ref)
        self.task = await self._reader.task(self._tree, self._ref) or self.task
        return self.task


class AnswerStream:
    """The answer of a run while it arrives, as changes of one artifact. Pure.

    A new step, or an answer that is restarted, replaces what came before.
    """

    def __init__(self, ref: TaskRef) -> None:
        self._ref = ref
        self._text = ""

    def on_record(self, record: EventRecord, run: RunRecord) -> Iterator[TaskArtifactUpdateEvent]:
        """What a record of the run adds to its answer."""
        if record.path or record.run_id != run.identity.run_id:
            return
        match record.event:
            case StepStart() | StreamReset():
                self._text = ""
            case TextDelta(delta=delta) if delta:
                is_more = bool(self._text)
                self._text += delta
                yield self._update([_text_part(delta)], append=is_more)
            case _ if run.phase is Phase.DONE and run.summary is not None:
                yield from self._rest(run.summary)
                if run.files:
                    yield self._update_of(files_artifact(run.files), append=False, last=True)

    def _rest(self, summary: FinishSummary) -> Iterator[TaskArtifactUpdateEvent]:
        response = summary.response
        more = [*([] if summary.output is None else [data_part(summary.output)]), *parts_of(summary.artifacts)]
        is_shown, self._text = response == self._text, response
        if response and not is_shown:
            yield self._update([_text_part(response), *more], append=False, last=True)
        elif more and (response or summary.artifacts):
            yield self._update(more, append=bool(response), last=True)

    def _update(self, parts: list[Part], *, append: bool, last: bool = False) -> TaskArtifactUpdateEvent:
        return self._update_of(Artifact(artifact_id=RESPONSE, name=RESPONSE, parts=parts), append=append, last=last)

    def _update_of(self, artifact: Artifact, *, append: bool, last: bool) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self._ref.id, context_id=self._ref.context_id, artifact=artifact, append=append, last_chunk=last
        )


def _text_part(text: str) -> Part:
    return Part(text=text, media_type="text/plain")


def is_rewind(record: EventRecord) -> bool:
    """Whether the thread was rewound: a part of what was read of it is undone."""
    return record.provisional and not record.path and record.event == StreamReset(reason=REWOUND)


def shown(task: Task) -> tuple[TaskState, str]:
    """What makes a status another one: its state, or its question."""
    return task.status.state, task.status.message.message_id
