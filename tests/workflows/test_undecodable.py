"""A signal that cannot be decoded is refused. It blocks neither the thread, on any worker, nor anyone who reads it."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import pytest
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.converter import ActivitySerializationContext, PayloadCodec, WorkflowSerializationContext
from temporalio.worker import Worker

from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, Registry, ScriptedModel, say
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import DecisionRefused
from wakeful.contract.events import SignalRefused
from wakeful.contract.views import StatusView
from wakeful.history.conversation import read_conversation
from wakeful.history.decoder import ExecutionRef
from wakeful.history.reader import HistoryReader
from wakeful.history.timeline import read_timeline
from wakeful.storage import data_converter
from wakeful.undecodable import TolerantCodec, Undecodable, checked, is_permanent
from wakeful.worker import WorkerSettings, running_worker

JSON = {"encoding": b"json/plain"}
SEALED = b"binary/sealed"

HALF_A_SURROGATE_PAIR = Payload(metadata=JSON, data=b'{"input": "cut by a JavaScript client: \\ud83d"}')
DEEP = Payload(metadata=JSON, data=b'{"input": ' + b"[" * 300 + b"]" * 300 + b"}")
NOT_UTF8 = Payload(metadata=JSON, data=b'{"input": "\xff\xfe"}')
UNKNOWN_ENCODING = Payload(metadata={"encoding": b"application/x-other"}, data=b"\x00\x01")
NO_ENCODING = Payload(data=b"hello")
BROKEN_SEAL = Payload(metadata={"encoding": SEALED}, data=b"not what the key fits")

LONG = "x" * 3_000
"""More than an inference input spells out: a worker finds such a message in history by its number."""


class Sealing(PayloadCodec):
    """A codec that raises for what it has not encoded; a test sets how many of its next calls fail."""

    def __init__(self) -> None:
        self.outages = 0

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": SEALED}, data=b"seal" + each.SerializeToString()) for each in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self.outages:
            self.outages -= 1
            raise ConnectionError("the key service does not answer")
        return [self._opened(each) for each in payloads]

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata["encoding"] != SEALED or not payload.data.startswith(b"seal"):
            raise ValueError("not sealed with this key")
        return Payload.FromString(payload.data.removeprefix(b"seal"))


InvalidTag = type("InvalidTag", (Exception,), {"__module__": "cryptography.exceptions"})
"""What AES-GCM of the `cryptography` package raises."""


@dataclass(frozen=True)
class Case:
    """A thread on a task queue of its own."""

    client: Client
    id: str
    budget: HistoryBudget = HistoryBudget()

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        model = ScriptedModel([say("heard {input}")])
        registry = Registry(agents=[Agent(id="a")], models={"default": model})
        settings = WorkerSettings(task_queue=self.id, sweep_interval=None, history_budget=self.budget)
        return running_worker(self.client.temporal, registry, settings)

    async def say(self, text: str, *, runs: int) -> None:
        await self.client.send(self.id, text, agent_id="a")
        await until(self.client, self.id, lambda view: view.runs == runs and view.result is not None)

    async def signal(self, name: str, *payloads: Payload) -> None:
        await self.client.temporal.workflow_service.signal_workflow_execution(
            SignalWorkflowExecutionRequest(
                namespace=self.client.temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=self.id),
                signal_name=name,
                input=Payloads(payloads=payloads),
            )
        )

    async def refused(self, count: int = 1) -> StatusView:
        return await until(self.client, self.id, lambda view: len(view.refusals) == count)

    async def said(self) -> list[str]:
        return [message.text for message in await self.client.transcript(self.id) if message.role.value == "user"]

    async def execution(self) -> ExecutionRef:
        return ExecutionRef(self.id, (await self.client.handle(self.id).describe()).run_id or "")


async def check_the_thread_lives_on(case: Case, *payloads: Payload) -> None:
    """Signal it, and use it: on this worker, on another one, and by every reader of its history."""
    async with case.worker():
        await case.say(f"one {LONG}", runs=1)
        await case.signal(names.SIGNAL_SUBMIT, *payloads)
        (refusal,) = (await case.refused()).refusals
        assert refusal.signal == names.SIGNAL_SUBMIT
        await case.say(f"two {LONG}", runs=2)
    async with case.worker():  # it replays the thread, and rebuilds the conversation from history
        await case.say(f"three {LONG}", runs=3)
        expected = [f"{word} {LONG}" for word in ("one", "two", "three")]
        assert await case.said() == expected
        seen = case.client.watch(case.id)
        async with asyncio.timeout(BOUND_SECONDS):
            async for record in seen:
                if isinstance(record.event, SignalRefused):
                    assert record.event.reason == refusal.reason
                    break
        await case.client.close(case.id)
        await case.client.result(case.id)
        await case.say("again", runs=4)
        assert await case.said() == [*expected, "again"]
    reader = HistoryReader(case.client.temporal)
    assert (await reader.read(case.id)).status.runs == 4
    await reader.aclose()


@pytest.mark.parametrize(
    "payloads",
    [(HALF_A_SURROGATE_PAIR,), (DEEP,), (NOT_UTF8,), (UNKNOWN_ENCODING,), (NO_ENCODING,), (DEEP, UNKNOWN_ENCODING)],
    ids=["half a surrogate pair", "deep", "not UTF-8", "unknown encoding", "no encoding", "two"],
)
async def test_a_signal_that_cannot_be_decoded_is_refused(
    temporal: TemporalClient, thread_id: str, payloads: tuple[Payload, ...]
) -> None:
    await check_the_thread_lives_on(Case(Client(temporal, task_queue=thread_id), thread_id), *payloads)


@pytest.mark.parametrize("payload", [BROKEN_SEAL, HALF_A_SURROGATE_PAIR], ids=["broken", "not encoded"])
async def test_a_signal_that_the_codec_cannot_decode_is_refused(
    temporal: TemporalClient, thread_id: str, payload: Payload
) -> None:
    await check_the_thread_lives_on(Case(await sealed(temporal, Sealing(), thread_id), thread_id), payload)


async def test_an_outage_of_the_codec_loses_no_message(temporal: TemporalClient, thread_id: str) -> None:
    codec = Sealing()
    case = Case(await sealed(temporal, codec, thread_id), thread_id)
    async with case.worker():
        await case.say("one", runs=1)
        codec.outages = 2
        await case.say("two", runs=2)
        assert not (await case.client.status(thread_id)).refusals
        assert await case.said() == ["one", "two"]


async def test_an_execution_that_cannot_be_decoded_waits_for_a_worker_that_can(
    temporal: TemporalClient, thread_id: str
) -> None:
    case = Case(await sealed(temporal, Sealing(), thread_id), thread_id)
    await case.client.send(thread_id, "hello", agent_id="a")
    without_codec = Case(Client(temporal, task_queue=thread_id), thread_id)
    async with without_codec.worker(), asyncio.timeout(BOUND_SECONDS):
        while not await has_failed_task(temporal, thread_id):
            await asyncio.sleep(0.05)
    assert (await temporal.get_workflow_handle(thread_id).describe()).status is WorkflowExecutionStatus.RUNNING
    async with case.worker():
        await until(case.client, thread_id, lambda view: view.result is not None)
        assert await case.said() == ["hello"]


async def test_readers_of_history_count_submissions_as_the_workflow_does(
    temporal: TemporalClient, thread_id: str
) -> None:
    case = Case(Client(temporal, task_queue=thread_id), thread_id)
    async with case.worker():
        await case.say(LONG, runs=1)
        bad = (HALF_A_SURROGATE_PAIR, DEEP, UNKNOWN_ENCODING)
        for payload in bad:
            await case.signal(names.SIGNAL_SUBMIT, payload)
            for name in (names.SIGNAL_DELIVER, names.SIGNAL_CHILD_SETTLED, names.SIGNAL_DECIDE, "what"):
                await case.signal(name, payload)
        await case.refused(5 * len(bad))
        await case.say(f"last {LONG}", runs=2)
        execution = await case.execution()
        conversation = await read_conversation(temporal, execution)
        assert [len(messages) for messages in conversation.submissions] == [1, 0, 0, 0, 1]
        assert [message.text for message in conversation.entries()[1] if message.role.value == "user"] == [
            LONG,
            f"last {LONG}",
        ]
        assert (await read_timeline(temporal, execution)).tasks
        with pytest.raises(DecisionRefused):  # it reads history back past all of them
            await case.client.decide(thread_id, "1-1", "resume", confirm=True)


CONTEXT = ActivitySerializationContext(
    namespace="default",
    workflow_id="t1",
    workflow_type=names.WORKFLOW,
    activity_type="pay",
    activity_id="tool-1-1",
    activity_task_queue="wakeful",
    is_local=False,
)


async def test_a_result_that_the_codec_cannot_decode_is_not_refused() -> None:
    codec = TolerantCodec(Sealing()).with_context(CONTEXT)
    with pytest.raises(ValueError, match="not sealed with this key"):
        await codec.decode([BROKEN_SEAL])


async def test_payloads_beside_one_that_cannot_be_decoded_are_decoded() -> None:
    codec = TolerantCodec(Sealing()).with_context(WorkflowSerializationContext(namespace="default", workflow_id="t1"))
    (good,) = await codec.encode([NO_ENCODING])
    decoded, marked = await codec.decode([good, BROKEN_SEAL])
    assert decoded == NO_ENCODING
    with pytest.raises(Undecodable, match=r"the payload codec cannot decode it \(ValueError\)"):
        checked(marked)


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (ValueError("wrong"), True),
        (KeyError("key-7"), True),
        (InvalidTag(), True),
        (TimeoutError(), False),
        (RuntimeError("throttled"), False),
    ],
)
def test_a_failure_of_the_codec_is_permanent_only_if_the_data_is_at_fault(error: Exception, permanent: bool) -> None:
    assert is_permanent(error) is permanent


def test_what_the_network_caused_is_not_permanent() -> None:
    error = ValueError("no key")
    error.__cause__ = ConnectionError()
    assert not is_permanent(error)


async def sealed(temporal: TemporalClient, codec: PayloadCodec, queue: str) -> Client:
    converter = replace(await data_converter({}), payload_codec=codec)
    address = temporal.service_client.config.target_host
    return Client(await TemporalClient.connect(address, data_converter=converter), task_queue=queue)


async def has_failed_task(temporal: TemporalClient, thread_id: str) -> bool:
    events = (await temporal.get_workflow_handle(thread_id).fetch_history()).events
    return any(event.HasField("workflow_task_failed_event_attributes") for event in events)
