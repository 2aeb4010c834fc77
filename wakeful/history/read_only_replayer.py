"""The SDK's `Replayer`, set up to change nothing: it decodes payloads, and neither encrypts, stores nor logs any.

`replay` checks histories with it, and `reader` reads threads.
"""

import asyncio
import dataclasses
import functools
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.common import RawValue
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner

from wakeful.contract import names
from wakeful.contract.errors import CannotDecode
from wakeful.history.completed_part import last_completed_task
from wakeful.history.decoder import moments_of
from wakeful.history.moments import ActivityCompleted, Started
from wakeful.undecodable import decode_problem, tolerant
from wakeful_workflows import A2aPush, AgentRun, ScheduledMessage, ThreadArchive, ToolTask

NO_THREADS = (names.WORKFLOW_SCHEDULED, names.WORKFLOW_A2A_PUSH)
OURS = (names.WORKFLOW, names.WORKFLOW_TOOL_TASK, names.WORKFLOW_ARCHIVE, *NO_THREADS)
WORKFLOWS: Sequence[type] = (AgentRun, ToolTask, ThreadArchive, ScheduledMessage, A2aPush)

BUILD_ID = "replay"
"""Of the replaying worker. Without one, the SDK reads and hashes every imported module."""

REPLAY_TIMEOUT_SECONDS = 300.0
"""For one history; the SDK detects workflow code that hangs within seconds."""

REPLAYS = 3
"""How often a history is replayed whose workflow task took that long: only code that hangs does so each time."""


class ReadOnlyReplayer:
    """Replays one history at a time, because a replay saturates a CPU core.

    Args:
        converter: the data converter of the namespace's workers.
        workflows: the workflow code, if not the installed one.
    """

    def __init__(
        self, converter: DataConverter, *, namespace: str = "replay", workflows: Sequence[type] = WORKFLOWS
    ) -> None:
        self.converter = decoding_only(tolerant(converter))
        self._given = converter
        self.namespace = namespace
        self._workflows = workflows
        self._turn = asyncio.Lock()
        self._threads = ThreadPoolExecutor(thread_name_prefix="wakeful-replay")

    async def failure(self, history: WorkflowHistory, *, runner: WorkflowRunner | None = None) -> Exception | None:
        """Why a history does not replay; None if it does.

        Args:
            runner: creates the workflow's instance in each replay, if not the SDK's own runner.

        Raises:
            TimeoutError: the replay did not end.
        """
        if last_completed_task(history.events) is None:
            return None  # the workflow has not issued a command yet, and the SDK would wait forever
        failure: Exception | None = None
        for _ in range(REPLAYS):
            failure = await self._replay(history, runner or UnsandboxedWorkflowRunner())
            if failure is None or names.DEADLOCK not in str(failure):
                break
        return failure

    async def _replay(self, history: WorkflowHistory, runner: WorkflowRunner) -> Exception | None:
        async with self._turn:
            replayer = Replayer(
                workflows=self._workflows,
                unsandboxed_workflow_runner=runner,
                data_converter=self.converter,
                namespace=self.namespace,
                build_id=BUILD_ID,
                workflow_task_executor=self._threads,  # the Replayer would create one per call
                runtime=_silent_runtime(),
            )
            replay = asyncio.create_task(replayer.replay_workflow(history, raise_on_replay_failure=False))
            # Abandoned, not cancelled: a replay that hangs would hang in its cancellation, too.
            done, _ = await asyncio.wait({replay}, timeout=REPLAY_TIMEOUT_SECONDS)
        if not done:
            raise TimeoutError(f"the replay did not end within {REPLAY_TIMEOUT_SECONDS:.0f} s")
        return replay.result().replay_failure

    async def undecodable(self, history: WorkflowHistory) -> CannotDecode | None:
        """Why a history that does not replay cannot be decoded, if that is the reason.

        What the workflow decodes is looked at; a signal that cannot be decoded is refused, and breaks nothing.
        """
        context = WorkflowSerializationContext(namespace=self.namespace, workflow_id=history.workflow_id)
        converter = self._given.with_context(context)
        for moment in moments_of(history.events):
            match moment:
                case Started(input=payloads) | ActivityCompleted(result=payloads):
                    pass
                case _:
                    continue
            try:
                raw = await converter.decode(payloads.payloads, [RawValue] * len(payloads.payloads))
                converter.payload_converter.from_payloads([value.payload for value in raw])
            except Exception as error:
                if (reason := decode_problem(converter, error)) is not None:
                    return CannotDecode(f"event {moment.event_id} of thread {history.workflow_id!r}", reason)
        return None


@functools.cache
def _silent_runtime() -> Runtime:
    """One for the process, because each has threads of its own. The SDK's log would go to stdout."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


def decoding_only(converter: DataConverter) -> DataConverter:
    """The same converter, which leaves what it encodes as it is: the commands of a replay are not sent anywhere."""
    codec, storage = converter.payload_codec, converter.external_storage
    return dataclasses.replace(
        converter,
        payload_codec=_DecodingOnly(codec) if codec is not None else None,
        external_storage=dataclasses.replace(storage, payload_size_threshold=sys.maxsize) if storage else None,
    )


class _DecodingOnly(PayloadCodec, WithSerializationContext):
    def __init__(self, codec: PayloadCodec) -> None:
        self._codec = codec

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._codec.decode(payloads)

    def with_context(self, context: SerializationContext) -> "_DecodingOnly":
        if isinstance(self._codec, WithSerializationContext):
            return _DecodingOnly(self._codec.with_context(context))
        return self
