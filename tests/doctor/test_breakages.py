"""Staged breakages: the doctor names each fault, the object that it concerns, and what to do."""

import asyncio
import dataclasses
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client as TemporalClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.conftest import worker_settings
from tests.doctor.conftest import Doctor
from tests.support import denied
from tests.support.encrypted import Encryption
from tests.support.models_api import ALIAS, KEY, MODELS, models_api
from tests.support.namespaces import register
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import (
    Agent,
    ModelRequest,
    ModelResponse,
    ProfileKey,
    ProviderError,
    ProviderErrorKind,
    Registry,
    RetryPolicy,
    ScriptedModel,
    ThreadMode,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.connection import Address
from wakeful.contract import ids, names
from wakeful.doctor import provider_checks, queue_checks
from wakeful.doctor.examination import Installation, examine
from wakeful.doctor.report import Level, SetupProblem
from wakeful.undecodable import with_converter
from wakeful.worker import running_worker

ERROR, WARNING = Level.ERROR, Level.WARNING


def registry(*turns: Any) -> Registry:
    return Registry(agents=[Agent(id="a", tools=[hold])], models={"default": ScriptedModel(turns or [say("hello")])})


RELEASE = asyncio.Event()


@tool(read_only=True)
async def hold() -> str:
    """Wait until the test is over."""
    await RELEASE.wait()
    return "done"


@pytest.fixture
def release() -> Any:
    RELEASE.clear()
    yield RELEASE
    RELEASE.set()


@asynccontextmanager
async def working(
    temporal: TemporalClient, queue: str, agents: Registry | None = None, **settings: Any
) -> AsyncIterator[Client]:
    async with running_worker(temporal, agents or registry(), worker_settings(task_queue=queue, **settings)):
        yield Client(temporal, task_queue=queue)


def told(problem: SetupProblem, level: Level, what: str, next: str) -> None:
    """Assert what the problem says, by patterns."""
    assert problem.level is level
    assert re.search(what, problem.what), problem.what
    assert re.search(next, problem.next), problem.next


async def only(client: Doctor, name: str) -> SetupProblem:
    [problem] = (await client.check(name)).problems
    return problem


async def test_a_healthy_installation_is_reported_as_such(mended: TemporalClient, thread_id: str) -> None:
    async with working(mended, thread_id) as client:
        await client.run("a", "hi", thread_id=thread_id)
        await client.start("a", "hi", thread_id=f"{thread_id}-open", mode=ThreadMode.THREAD)
        report = await Doctor(mended, task_queue=thread_id, registry=registry()).examine()
    assert [(check.name, problem.what) for check in report.checks for problem in check.problems] == []
    assert (report.exit_code, report.is_healthy) == (0, True)
    left_out = [check.name for check in report.checks if check.skipped]
    assert left_out == ["provider default"]


async def test_1_a_server_that_does_not_answer() -> None:
    report = await examine(Installation(Address(address="127.0.0.1:1"), environ={}))
    [problem] = report.problems
    told(problem, ERROR, r"Cannot reach Temporal at 127\.0\.0\.1:1 .*: connection refused\.", "`wakeful dev`")
    assert report.exit_code == 1
    assert "versions" in [check.name for check in report.checks if not check.skipped]


async def test_2_a_namespace_that_does_not_exist(temporal: TemporalClient) -> None:
    doctor = Doctor(temporal)
    where = Address(address=doctor.installation.where.address, namespace="nope")
    report = await examine(Installation(where, environ={}))
    [problem] = report.problems
    told(problem, ERROR, "Namespace 'nope' does not exist", "temporal operator namespace create -n nope")
    assert report.exit_code == 1


async def test_3_a_namespace_that_deletes_threads_early(bare: TemporalClient) -> None:
    problem = await only(Doctor(bare), "namespace")
    told(problem, WARNING, "deletes threads a day after", f"namespace update -n {bare.namespace} --retention 72h")


async def test_4_search_attributes_that_are_missing_or_have_another_type(bare: TemporalClient) -> None:
    await register(bare, WakefulStatus=IndexedValueType.INDEXED_VALUE_TYPE_INT)
    doctor = Doctor(bare)
    missing, wrong = [await doctor.problem("search attributes", name) for name in ("WakefulPending", "WakefulStatus")]
    told(missing, WARNING, "WakefulPending is missing", "--name WakefulPending --type KeywordList")
    told(wrong, ERROR, "WakefulStatus has the type Int", "--name WakefulStatus --type Keyword")


async def test_5_a_key_without_the_right_to_write(temporal: TemporalClient) -> None:
    doctor = Doctor(temporal)
    where = Address(doctor.installation.where.address, "default", client=denied.FACTORY)
    report = await examine(Installation(where, environ={}))
    found = {name: problem for problem in report.problems for name in problem.about}
    told(found["SignalWorkflowExecution"], ERROR, "may not call SignalWorkflowExecution.*decisions", "write access")
    told(found["DescribeNamespace"], WARNING, "may not call DescribeNamespace", "read access")


@pytest.mark.parametrize(("ahead", "said"), [(90.0, "ahead of"), (-90.0, "behind")])
async def test_6_a_clock_that_is_wrong(temporal: TemporalClient, ahead: float, said: str) -> None:
    problem = await only(Doctor(temporal, now=lambda: time.time() + ahead), "clock")
    told(problem, ERROR, f"is (1m29s|1m30s) {said} Temporal's", "timedatectl")


async def test_7_a_task_queue_without_a_worker(broken: TemporalClient, thread_id: str) -> None:
    doctor = Doctor(broken, task_queue=thread_id)
    told(await doctor.problem("workers", thread_id), WARNING, f"No worker polls task queue '{thread_id}'", "Start one")
    await Client(broken, task_queue=thread_id).start("a", "hi", thread_id=thread_id)
    problem = await doctor.problem("workers", thread_id, ERROR)
    told(problem, ERROR, "1 open run waits there", f"--task-queue {thread_id}")
    await Client(broken).handle(thread_id).terminate()


async def test_8_workers_of_a_version_that_gets_no_tasks(broken: TemporalClient, thread_id: str) -> None:
    async with working(broken, thread_id, deployment="shop", build_id="two"):
        problem = await Doctor(broken, task_queue=thread_id).problem("workers", thread_id, ERROR)
    told(problem, ERROR, r"go to workers without a version, .* of shop\.two", "set-current-version .*--build-id two")


@pytest.mark.integration  # a backlog takes seconds to build up
async def test_9_tasks_that_wait_although_there_are_workers(
    broken: TemporalClient, thread_id: str, release: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_checks, "MAX_BACKLOG_SECONDS", 0.3)
    agents = registry(call("hold"), say("done"))
    async with working(broken, thread_id, agents, max_concurrent_activities=1) as client:
        for number in range(3):
            await client.start("a", "hi", thread_id=f"{thread_id}-{number}")
        problem = await Doctor(broken, task_queue=thread_id).problem("backlog", thread_id)
        release.set()
    told(problem, WARNING, f"[Aa]bout . activity tasks? .* queued.* in task queue '{thread_id}'", "start more of them")


@workflow.defn(name=names.WORKFLOW)
class Buggy:
    """A workflow with a bug."""

    @workflow.run
    async def run(self, _request: object = None) -> None:
        raise KeyError("who wrote this?")


async def test_10_a_run_whose_workflow_task_fails(broken: TemporalClient, thread_id: str) -> None:
    client = Client(broken, task_queue=thread_id)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(broken, task_queue=thread_id, workflows=[Buggy], workflow_runner=runner):
        await client.start("a", "hi", thread_id=thread_id)
        problem = await Doctor(broken, task_queue=thread_id).problem("workflow tasks", thread_id)
    await client.handle(thread_id).terminate()
    what = f"Thread {thread_id} cannot complete its next workflow task.*who wrote this"
    told(problem, ERROR, what, f"`wakeful replay {thread_id}`")


class Overloaded:
    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ProviderError(ProviderErrorKind.OVERLOADED, "come back later", status=529)


async def test_11_exhausted_retries(broken: TemporalClient, thread_id: str) -> None:
    ending = RetryPolicy(max_retries=0, patience_secs=0)
    lasting = RetryPolicy(overloaded_backoff_base_ms=1, max_backoff_secs=0.01)
    agents = Registry(
        agents=[Agent(id="ending", retry=ending), Agent(id="lasting", model="other", retry=lasting)],
        models={"default": Overloaded(), "other": Overloaded()},
    )
    async with working(broken, thread_id, agents, breaker_failures=1000) as client:
        await client.run("ending", "hi", thread_id=thread_id)
        await client.start("lasting", "hi", thread_id=f"{thread_id}-2")
        doctor = Doctor(broken, task_queue=thread_id)
        ended = await doctor.problem("retries", thread_id)
        retried = await doctor.problem("retries", f"{thread_id}-2")
        await client.cancel(f"{thread_id}-2")
    told(ended, WARNING, r"ended with exhausted retries \(overloaded \d+\)", f"`wakeful why {thread_id}`")
    told(retried, WARNING, r"Activity 'infer' has failed .* \(overloaded\).*come back later", "`wakeful why ")


async def test_12_payloads_that_cannot_be_decoded(broken: TemporalClient, thread_id: str) -> None:
    secret = with_converter(broken, dataclasses.replace(broken.data_converter, payload_codec=Encryption()))
    await Client(secret, task_queue=thread_id).start("a", "hi", thread_id=thread_id)
    problem = await Doctor(broken, task_queue=thread_id).problem("payloads", thread_id)
    await Client(secret).handle(thread_id).terminate()
    told(problem, ERROR, "cannot be decoded here: .*'binary/encrypted'.* has no codec", "--client module:function")


@pytest.mark.integration  # the server takes seconds to delete an execution
async def test_13_archives_without_a_thread(broken: TemporalClient, thread_id: str) -> None:
    async with working(broken, thread_id) as client:
        await client.start("a", "hi", thread_id=thread_id, mode=ThreadMode.THREAD)
        await until(client, thread_id, lambda view: view.result is not None)
        await client.close(thread_id)
        await broken.get_workflow_handle(thread_id).result()
    doctor = Doctor(broken, task_queue=thread_id)
    assert (await doctor.check("archives")).problems == ()
    await broken.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=broken.namespace, workflow_execution=WorkflowExecution(workflow_id=thread_id)
        )
    )
    problem = await doctor.problem("archives", thread_id)
    told(problem, WARNING, f"1 archive of 1 thread .* is left: {thread_id}", f"`wakeful delete {thread_id}`")
    await Client(broken).delete(thread_id)  # as the doctor says
    async with asyncio.timeout(BOUND_SECONDS):
        while (await doctor.check("archives")).problems:
            await asyncio.sleep(0.1)
    assert await _is_gone(broken, ids.last_archive_id(thread_id))


async def _is_gone(temporal: TemporalClient, id: str) -> bool:
    return not [each async for each in temporal.list_workflows(f"WorkflowId = '{id}'")]


async def test_14_a_payload_store_that_is_not_there(temporal: TemporalClient, tmp_path: Path) -> None:
    missing = Doctor(temporal, environ={"WAKEFUL_PAYLOAD_STORE": f"dir:{tmp_path}/missing"})
    told(await only(missing, "payload store"), ERROR, "which does not exist here", "Mount it")
    (tmp_path / "file").touch()
    for location, said in ((f"dir:{tmp_path}/file", "as a directory"), ("ftp://host", "is 'ftp://host'; write it as")):
        told(
            await only(Doctor(temporal, environ={"WAKEFUL_PAYLOAD_STORE": location}), "payload store"), ERROR, said, ""
        )
    sound = await Doctor(temporal, environ={"WAKEFUL_PAYLOAD_STORE": f"dir:{tmp_path}"}).check("payload store")
    assert (sound.problems, sound.summary) == ((), f"dir:{tmp_path}, written and read")


async def test_15_a_profile_store_that_does_not_answer(temporal: TemporalClient, tmp_path: Path) -> None:
    agents = Registry(agents=[], profile_keys=[ProfileKey("tone", str, default="kind")])
    environ = {"WAKEFUL_PROFILES": "postgresql://ada:hunter2@127.0.0.1:1/profiles"}
    problem = await only(Doctor(temporal, environ=environ, registry=agents), "profile store")
    told(problem, ERROR, r"postgresql://127\.0\.0\.1:1/profiles cannot be used", "WAKEFUL_PROFILES")
    assert "hunter2" not in problem.model_dump_json()
    path = f"sqlite:{tmp_path}/profiles.db"
    sound = await Doctor(temporal, environ={"WAKEFUL_PROFILES": path}, registry=agents).check("profile store")
    assert (sound.problems, sound.summary) == ((), f"{path}, written and read")


async def provider_problem(temporal: TemporalClient, url: str, key: str, model: str) -> tuple[SetupProblem, ...]:
    environ = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key}
    agents = Registry(agents=[], models={"default": f"openai/{model}"})
    return (await Doctor(temporal, environ=environ, registry=agents).check("provider openai")).problems


async def test_16_a_provider_that_cannot_be_reached(temporal: TemporalClient) -> None:
    [problem] = await provider_problem(temporal, "http://127.0.0.1:1/v1", KEY, MODELS[0])
    told(problem, ERROR, r"'openai' cannot be reached from here: .* at 127\.0\.0\.1:1", "base URL")


async def test_17_a_provider_that_rejects_the_key(temporal: TemporalClient) -> None:
    async with models_api() as url:
        [problem] = await provider_problem(temporal, url, "sk-wrong-canary", MODELS[0])
    told(problem, ERROR, "does not accept the API key: .*Incorrect API key", "Set the key where the workers run")
    assert "canary" not in problem.model_dump_json()


async def test_18_a_model_that_its_provider_does_not_know(temporal: TemporalClient) -> None:
    async with models_api() as url:
        [problem] = await provider_problem(temporal, url, KEY, "gtp-5")
        assert await provider_problem(temporal, url, KEY, MODELS[0]) == ()
        assert await provider_problem(temporal, url, KEY, ALIAS) == ()
    async with models_api(lists=False) as url:
        assert await provider_problem(temporal, url, KEY, "gtp-5") == ()
    told(problem, ERROR, "'openai' does not know model 'gtp-5'", "Correct the model's name")


@dataclasses.dataclass
class OfUser:
    """A provider of the user's own, which knows every model, raises, or never answers."""

    key: str = "sk-canary"
    error: Exception | None = None
    is_hanging: bool = False

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def unknown_models(self, names: Sequence[str]) -> tuple[str, ...] | None:
        if self.is_hanging:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return ()


async def test_a_provider_of_the_user_s_own_that_fails_does_not_end_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_checks, "TIMEOUT_SECONDS", 0.01)
    hanging, raising = OfUser(is_hanging=True), OfUser(error=KeyError("sk-canary"))
    registry = Registry(agents=[], models={"default": OfUser(), "hanging": hanging, "raising": raising})
    sound, hung, raised = await provider_checks.check_providers(registry, {})
    assert (sound.problems, sound.summary) == ((), "it knows default")
    told(hung.problems[0], ERROR, "cannot be reached from here: .*no answer within", "base URL")
    told(raised.problems[0], ERROR, "raised an error when it was asked for its models: KeyError at", "ProviderError")
    assert not any("canary" in check.model_dump_json() for check in (sound, hung, raised))


async def test_19_workers_of_another_release(broken: TemporalClient, thread_id: str) -> None:
    async with working(broken, thread_id, build_id="wakeful-0.0.9"):
        problem = await Doctor(broken, task_queue=thread_id).problem("versions", "wakeful-0.0.9")
    told(problem, WARNING, r"Workers run Wakeful 0\.0\.9, and 0\.1\.0 is installed here", "`wakeful replay`")
