"""What a newcomer to embedding gets wrong, and the error that each mistake gives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
from temporalio import activity
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError
from temporalio.common import RawValue, WorkerDeploymentVersion
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker, WorkerDeploymentConfig

from tests.embedding.conftest import QUEUE, registry
from tests.embedding.desk import Ask, Asks, Quotes, Uncaught
from tests.support.sandboxed.registry_import import RegistryImport
from wakeful import (
    Agent,
    CallerError,
    Client,
    ConfigurationError,
    Registry,
    ToolContext,
    WakefulPlugin,
    WorkerSettings,
    tool,
)
from wakeful.workflow import run_agent


def test_the_plugin_is_given_something_else_than_a_registry() -> None:
    def make_registry() -> Registry:
        return registry

    with pytest.raises(
        ConfigurationError, match=r"^WakefulPlugin takes a wakeful\.Registry, and was given make_registry$"
    ):
        WakefulPlugin(cast("Registry", make_registry))


def test_a_setting_of_the_plugin_belongs_to_the_worker() -> None:
    with pytest.raises(ConfigurationError) as raised:
        WakefulPlugin(registry, WorkerSettings(task_queue="orders", deployment="shop"))
    assert raised.value.problems == (
        "WorkerSettings(task_queue=…) has no effect in WakefulPlugin: pass task_queue=… to the Worker itself",
        "WorkerSettings(deployment=…) has no effect in WakefulPlugin: pass deployment_config=… to the Worker itself",
    )


async def test_a_worker_has_the_plugin_twice(temporal: TemporalClient) -> None:
    both = _with_plugins(temporal, WakefulPlugin(registry))
    with (
        pytest.warns(UserWarning, match="present from both client and worker"),
        pytest.raises(ConfigurationError, match="the worker has two WakefulPlugins, or AgentRun in its workflows"),
    ):
        Worker(both, task_queue="mine", workflows=[Quotes], plugins=[WakefulPlugin(registry)])


async def test_the_client_has_the_data_converter_of_the_sdk(temporal: TemporalClient) -> None:
    plain = _with_converter(temporal, DataConverter.default)
    problem = (
        "the client has the SDK's default data converter, which does not convert pydantic models: connect with "
        r"data_converter=temporalio\.contrib\.pydantic\.pydantic_data_converter, or, if you have a codec, with"
    )
    with pytest.raises(ConfigurationError, match=problem):
        Worker(plain, task_queue="mine", workflows=[Quotes], plugins=[WakefulPlugin(registry)])


@activity.defn(dynamic=True)
async def anything(args: Sequence[RawValue]) -> None: ...


@activity.defn(name="refund")
async def refund_order(amount: int) -> None: ...


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        (anything, "the worker has a dynamic activity of its own, and a worker can have one: it is what calls tools"),
        (
            refund_order,
            "the worker has an activity 'refund', and the registry a tool 'refund': calls of the tool would run the "
            "activity",
        ),
    ],
)
async def test_an_activity_of_the_worker_takes_the_place_of_tools(
    temporal: TemporalClient, own: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Worker(temporal, task_queue="mine", activities=[own], plugins=[WakefulPlugin(registry)])


async def test_an_error_in_any_workflow_of_the_worker_fails_it(temporal: TemporalClient) -> None:
    """Runs would fail of what another worker repairs: nondeterminism, a missing activity, a missing codec."""
    problem = (
        "the worker sets workflow_failure_exception_types with 'Exception', .* name the type in your own workflows, as "
        r"@workflow\.defn\(failure_exception_types=\[…\]\)"
    )
    with pytest.raises(ConfigurationError, match=problem):
        Worker(
            temporal,
            task_queue="mine",
            workflows=[Quotes],
            workflow_failure_exception_types=[Exception],
            plugins=[WakefulPlugin(registry)],
        )


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_plugin_lets_any_error_fail_a_workflow(temporal: TemporalClient, *, is_first: bool) -> None:
    """In whatever order: what a later plugin sets is known when the worker starts."""
    other = SimplePlugin("acme.Strict", workflow_failure_exception_types=[ValueError])
    plugins: list[Any] = [other, WakefulPlugin(registry)] if is_first else [WakefulPlugin(registry), other]
    with pytest.raises(
        ConfigurationError, match=r"the plugin 'acme\.Strict' sets .* with 'ValueError', which would end"
    ):
        await Worker(temporal, task_queue="mine", workflows=[Quotes], plugins=plugins).run()


async def test_a_versioned_worker_has_no_default_behavior(temporal: TemporalClient) -> None:
    version = WorkerDeploymentVersion(deployment_name="shop", build_id="1")
    deployment = WorkerDeploymentConfig(version=version, use_worker_versioning=True)
    with pytest.raises(ConfigurationError, match=r"set it to VersioningBehavior\.AUTO_UPGRADE"):
        Worker(temporal, task_queue="mine", deployment_config=deployment, plugins=[WakefulPlugin(registry)])


async def test_an_inference_queue_is_not_the_queue_of_the_worker(temporal: TemporalClient) -> None:
    plugin = WakefulPlugin(registry, WorkerSettings(inference_queue="models"))
    problem = "WorkerSettings names the inference queue 'models', and the worker has the task queue 'mine': make them"
    with pytest.raises(ConfigurationError, match=problem):
        Worker(temporal, task_queue="mine", plugins=[plugin])


async def test_the_lifespan_raises(temporal: TemporalClient, thread_id: str) -> None:
    """`async with worker` raises it, and does not wait for a worker that has never started."""

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[None]:
        raise ConnectionRefusedError("no database at db:5432")
        yield

    plugin = WakefulPlugin(Registry(agents=[Agent(id="a")], lifespan=connect))
    with pytest.raises(
        ConfigurationError, match="the lifespan 'connect' of the registry raised ConnectionRefusedError"
    ):
        async with asyncio.timeout(30), Worker(temporal, task_queue=thread_id, workflows=[Quotes], plugins=[plugin]):
            await asyncio.Event().wait()
    other = Worker(temporal, task_queue=f"{thread_id}-2", workflows=[Quotes], plugins=[plugin])
    with pytest.raises(ConfigurationError, match="no database at db:5432"):
        await other.run()


class Database:
    pass


def test_a_tool_takes_a_value_and_there_is_no_lifespan() -> None:
    @tool
    def count(ctx: ToolContext[Database]) -> int:
        """Count."""
        return 1

    problem = "tool 'count' takes a Database, and the registry has no lifespan: pass one that yields a Database"
    with pytest.raises(ConfigurationError, match=problem):
        Registry(tools=[count])


async def test_an_agent_is_run_outside_a_workflow() -> None:
    with pytest.raises(
        CallerError, match=r"^run_agent and start_agent work in a workflow; elsewhere, use wakeful\.Client"
    ):
        await run_agent("clerk", "hello")


async def test_the_file_of_a_workflow_also_makes_the_registry(temporal: TemporalClient) -> None:
    """The SDK says what the sandbox rejects, and where."""
    with pytest.raises(RuntimeError, match="Failed validating workflow RegistryImport") as raised:
        Worker(temporal, task_queue="mine", workflows=[RegistryImport], plugins=[WakefulPlugin(registry)])
    assert "datetime.datetime.now" in str(raised.value.__cause__)


async def test_a_workflow_runs_an_agent_that_no_worker_knows(agents: Client, thread_id: str) -> None:
    asks = await agents.temporal.start_workflow(Asks.run, Ask(agent_id="clark"), id=thread_id, task_queue=QUEUE)
    assert (
        "agent not found: 'clark'; registered: broken, quoter, refunder, refused, talker, thrifty, waiter"
        in await asks.result()
    )


async def test_a_workflow_asks_for_an_output_that_the_agent_does_not_have(agents: Client, thread_id: str) -> None:
    error = await _failure(agents, thread_id, Quotes, "talker")
    assert error.type == "AgentOutputInvalid"
    assert error.message.endswith(
        "ended as 'natural' without an output, and the workflow asks for a Quote: give the agent that output type, as "
        "Agent(id='talker', output=Quote)"
    )


@pytest.mark.parametrize(
    ("agent_id", "type", "why"),
    [
        (
            "thrifty",
            "AgentStopped",
            "its run was stopped (budget: turns budget is spent: 0 of 0 turns); `result` says why",
        ),
        ("refused", "AgentBlocked", "its run was blocked by a permission rule; `result` says why"),
    ],
)
async def test_a_workflow_learns_that_a_limit_or_a_rule_has_ended_the_run(
    agents: Client, thread_id: str, agent_id: str, type: str, why: str
) -> None:
    """The agent has the output type: it was ended before it could answer."""
    error = await _failure(agents, thread_id, Quotes, agent_id)
    assert (error.type, error.non_retryable) == (type, True)
    assert error.message.endswith(why)
    assert "secret" not in error.message


async def test_a_workflow_sends_an_agent_nothing(agents: Client, thread_id: str) -> None:
    error = await _failure(agents, thread_id, Uncaught, Ask(agent_id="talker", text=""))
    assert (error.type, error.non_retryable) == ("InvalidRequest", True)
    assert error.message == "agent 'talker' was not started: input is empty: give a text or at least one message"


async def _failure(agents: Client, id: str, kind: type, argument: object) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as raised:
        await agents.temporal.execute_workflow(kind.__name__, argument, id=id, task_queue=QUEUE)
    assert isinstance(raised.value.cause, ApplicationError)
    return raised.value.cause


def _with_converter(client: TemporalClient, converter: DataConverter) -> TemporalClient:
    config = client.config()
    config["data_converter"] = converter
    return TemporalClient(**config)


def _with_plugins(client: TemporalClient, plugin: WakefulPlugin) -> TemporalClient:
    config = client.config()
    config["plugins"] = [plugin]
    return TemporalClient(**config)
