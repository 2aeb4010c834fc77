"""The stores beside Temporal: of large payloads, and of profiles. Each is written, read and cleared once."""

import asyncio
import os
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from wakeful.client.diagnosis.wording import clause
from wakeful.contract.errors import ConfigurationError, WakefulError
from wakeful.doctor.report import SetupCheck, SetupProblem, error, skipped, warning
from wakeful.profile_stores import worker_profiles
from wakeful.profile_stores.worker_profiles import profile_store
from wakeful.registry.registry import Registry
from wakeful.storage import VARIABLE as PAYLOADS
from wakeful.storage import PayloadStore, payload_store

OWNER = "wakeful-doctor"
TIMEOUT_SECONDS = 10.0
_PROFILES = worker_profiles.VARIABLE


async def check_payload_store(namespace: str, environ: Mapping[str, str]) -> SetupCheck:
    """Whether the payload store can be written, read and cleared."""
    name, location = "payload store", environ.get(PAYLOADS, "")
    if not location:
        return SetupCheck(name=name, summary=f"none: payloads are in Temporal ({PAYLOADS} is not set)")
    try:
        store = await payload_store(location)
    except ConfigurationError as wrong:
        return SetupCheck(name=name, problems=(error(str(wrong), f"Correct {PAYLOADS}.", location),))
    directory = Path(location.partition(":")[2]) if location.startswith("dir:") else None
    if directory is not None and not directory.is_dir():
        return SetupCheck(name=name, problems=(_no_directory(directory),))
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await _use_payloads(store, namespace)
    except Exception as failure:  # botocore's own errors have no common base with Python's
        problem = error(
            f"The payload store {location} cannot be used: {type(failure).__name__}: {clause(str(failure))}.",
            "Give this program and every worker access to it: without it, runs with large payloads wait.",
            location,
        )
        return SetupCheck(name=name, problems=(problem,))
    return SetupCheck(name=name, summary=f"{location}, written and read")


def _no_directory(directory: Path) -> SetupProblem:
    what = f"{PAYLOADS} names the directory {str(directory)!r}, which does not exist here"
    if directory.exists():
        return error(f"{what} as a directory.", "Name a directory.", str(directory))
    return error(
        f"{what}: payloads of this program would be where no worker reads them.",
        "Mount it, or create it on the volume that all workers share.",
        str(directory),
    )


async def _use_payloads(store: PayloadStore, namespace: str) -> None:
    owner = f"{OWNER}-{uuid.uuid4().hex[:12]}"
    target = StorageDriverWorkflowInfo(namespace=namespace, id=owner)
    written = Payload(metadata={"encoding": b"binary/plain"}, data=os.urandom(16))
    try:
        claims = await store.store(StorageDriverStoreContext(target=target), [written])
        read = await store.retrieve(StorageDriverRetrieveContext(), claims)
        if read != [written]:
            raise OSError("it returned something else than was stored")
    finally:
        await store.delete(namespace, owner)


async def check_profile_store(registry: Registry | None, environ: Mapping[str, str]) -> SetupCheck:
    """Whether the profile store can be written, read and cleared; without profile keys none is used."""
    name, address = "profile store", environ.get(_PROFILES, "")
    if registry is not None and not registry.profile_keys:
        return SetupCheck(name=name, summary="not used: the registry has no profile keys")
    if registry is None and not address:
        return skipped(name, f"{_PROFILES} is not set; with --app, the doctor knows whether profiles are used")
    shown = _without_password(address or worker_profiles.DEFAULT)
    try:
        async with aclosing(profile_store(environ)) as store, asyncio.timeout(TIMEOUT_SECONDS):
            await store.write(OWNER, "ping", "pong")
            await store.clear(OWNER)
    except ConfigurationError as wrong:
        return SetupCheck(name=name, problems=(error(str(wrong), f"Correct {_PROFILES}.", _PROFILES),))
    except (WakefulError, OSError, TimeoutError) as failure:
        problem = error(
            f"The profile store {shown} cannot be used: {clause(str(failure)) or 'no answer'}.",
            f"Start it, or correct {_PROFILES}: tools and hooks that use profiles fail without it.",
            shown,
        )
        return SetupCheck(name=name, problems=(problem,))
    problems: tuple[SetupProblem, ...] = ()
    if shown == "memory:":
        problems = (
            warning(
                "The profile store is in memory: each worker has its own, and loses it when it ends.",
                f"Set {_PROFILES} to sqlite:/path or postgresql://…",
                shown,
            ),
        )
    return SetupCheck(name=name, summary=f"{shown}, written and read", problems=problems)


def _without_password(address: str) -> str:
    """The address as a person may see it."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else address
