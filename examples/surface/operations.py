"""Run the shop: a worker, its logs and profiles, and what to do when something is stuck."""

import logging
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client as TemporalClient
from temporalio.worker import Worker

from examples.surface.agents import make_registry, partners
from examples.surface.complaints import Complaint
from examples.surface.page import outline
from examples.surface.shop import LANGUAGE
from wakeful import (
    CannotDecode,
    Client,
    ConnectionFailed,
    DeleteReceipt,
    Diagnosis,
    DiscoveryFailed,
    HistoryBudget,
    LogFields,
    OwnedThreads,
    PostgresProfileStore,
    Profiles,
    ProfileStore,
    ProfileStoreFailed,
    RunIdentity,
    RunMode,
    RunRequest,
    SqliteProfileStore,
    WakefulError,
    WakefulPlugin,
    WorkerExhausted,
    WorkerSettings,
    agent_owner,
    connect,
    running_worker,
)

SETTINGS = WorkerSettings(
    task_queue="shop", history_budget=HistoryBudget(events=1000), graceful_shutdown=timedelta(seconds=25)
)


def log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.addFilter(LogFields())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def open_profiles(where: str) -> ProfileStore:
    """PostgreSQL for an address, or else a file."""
    return PostgresProfileStore(where) if where.startswith("postgresql:") else SqliteProfileStore(Path(where))


async def set_language(store: ProfileStore, language: str) -> None:
    profiles = Profiles(store, [LANGUAGE])
    try:
        await profiles.set(agent_owner("clerk"), LANGUAGE, language)
    except ProfileStoreFailed as error:
        logging.getLogger(__name__).warning("the language was not stored", exc_info=error)


async def serve(profiles_at: str) -> None:
    """A worker for the agents alone, until it is stopped."""
    log_to_stderr()
    registry = make_registry(sources=partners())
    try:
        temporal = await connect()
        async with (
            aclosing(open_profiles(profiles_at)) as profiles,
            running_worker(temporal, registry, SETTINGS, profiles=profiles) as worker,
        ):
            await worker.run()
    except ConnectionFailed as error:
        raise SystemExit(f"Temporal does not answer: {error}") from error
    except DiscoveryFailed as error:
        raise SystemExit(f"unreachable: {', '.join(error.failures)}") from error
    except WorkerExhausted as error:
        raise SystemExit("restart me: too many tools hang") from error


async def serve_all() -> None:
    """A worker for the agents and for our own workflow."""
    temporal = await TemporalClient.connect("localhost:7233", plugins=[WakefulPlugin(make_registry(), SETTINGS)])
    await Worker(temporal, task_queue=SETTINGS.task_queue, workflows=[Complaint]).run()


def nightly(text: str) -> RunRequest:
    """For a starter in another language, or a schedule of Temporal's own: the JSON that starts a run."""
    return RunRequest(agent_id="night", input=text, run_mode=RunMode.SCHEDULED, origin="internal")


def is_of_tenant(identity: RunIdentity, tenant: str) -> bool:
    return identity.tenant == tenant


async def explain(client: Client, thread_id: str) -> str:
    try:
        diagnosis: Diagnosis = await client.why(thread_id)
        tree = outline(await client.tree(thread_id))
    except CannotDecode:
        return "encrypted: this program does not have the key"
    except WakefulError as error:
        return str(error)
    return "\n".join([diagnosis.text, *tree])


async def forget(client: Client, thread_id: str) -> DeleteReceipt:
    return await client.delete(thread_id, profiles=True)


async def forget_user(client: Client, user: str, tenant: str) -> OwnedThreads:
    """Delete what only this user has written; the caller decides about the rest."""
    found: OwnedThreads = await client.threads_of(user=user, tenant=tenant)
    for thread_id in found.own:
        await forget(client, thread_id)
    return found
