"""B-412: tools and hooks, sync and async, use profiles through their context; a worker opens a store if it has keys."""

from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from wakeful import (
    Agent,
    ConfigurationError,
    HookContext,
    Plugin,
    Registry,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from wakeful.authoring.profiles import SYSTEM, ProfileKey, Profiles
from wakeful.client.client import Client
from wakeful.profile_stores.sqlite import SqliteProfileStore
from wakeful.profile_stores.worker_profiles import DEFAULT, VARIABLE
from wakeful.worker import WorkerSettings, running_worker

VISITS = ProfileKey("visits", int, default=0)


@tool
async def visit(ctx: ToolContext) -> int:
    """Count a visit."""
    return await ctx.profiles.update(SYSTEM, VISITS, lambda visits: visits + 1)


@tool
def visit_in_a_thread(ctx: ToolContext) -> int:
    """Count a visit in a sync tool."""
    return ctx.profiles.wait(ctx.profiles.update(SYSTEM, VISITS, lambda visits: visits + 1))


class Doorman(Plugin):
    """Counts every run when it starts."""

    id = "doorman"
    on_error = "fail"

    async def run_start(self, ctx: HookContext) -> None:
        await ctx.profiles.update(SYSTEM, VISITS, lambda visits: visits + 100)

    def step_start(self, ctx: HookContext) -> None:
        visits = ctx.profiles.wait(ctx.profiles.get(SYSTEM, VISITS))
        ctx.add_context("visits", f"There were {visits} visits.")


SCRIPT = ScriptedModel([call("visit"), call("visit_in_a_thread"), say("{result} visits")])
AGENT = Agent(id="clerk", tools=[visit, visit_in_a_thread], plugins=[Doorman()])


async def test_tools_and_hooks_share_profiles_across_threads(temporal: TemporalClient, thread_id: str) -> None:
    registry = Registry(agents=[AGENT], models={"default": SCRIPT}, profile_keys=[VISITS])
    store, client = SqliteProfileStore(), Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id), profiles=store):
        answers = [(await client.run("clerk", "hello", thread_id=f"{thread_id}-{n}")).response for n in range(2)]
    assert answers == ["102 visits", "204 visits"]
    assert await Profiles(store, [VISITS]).get(SYSTEM, VISITS) == 204
    await store.aclose()


async def test_a_worker_opens_the_store_that_the_environment_names(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker closes it; a worker without keys creates no file, whatever its tools do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    agent, client = AGENT.model_copy(update={"plugins": ()}), Client(temporal, task_queue=thread_id)
    for number, (keys, answer) in enumerate((((), "is not registered"), ((VISITS,), "2 visits"))):
        registry = Registry(agents=[agent], models={"default": SCRIPT}, profile_keys=keys)
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            result = await client.run("clerk", "hello", thread_id=f"{thread_id}-{number}")
        assert answer in result.response
        assert (tmp_path / DEFAULT.removeprefix("sqlite:")).exists() is bool(keys)


async def test_a_worker_with_keys_does_not_start_with_an_invalid_address(
    temporal: TemporalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "mysql://here")
    with pytest.raises(ConfigurationError, match="WAKEFUL_PROFILES starts with 'mysql'"):
        async with running_worker(temporal, Registry(profile_keys=[VISITS])):
            pass
