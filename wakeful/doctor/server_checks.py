"""Temporal itself: can it be reached, and does the namespace exist, keep threads and have our search attributes?"""

import re
import time
from datetime import timedelta

from temporalio.api.enums.v1 import NamespaceState
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.diagnosis.wording import capital, code
from wakeful.connection import (
    SEARCH_ATTRIBUTES,
    Address,
    connect,
    create_attribute_command,
    retention_command,
    retention_of,
    unusable_attributes,
)
from wakeful.contract.errors import ConfigurationError, ConnectionFailed
from wakeful.doctor.report import SetupCheck, SetupProblem, error, skipped, warning

RPC_TIMEOUT = timedelta(seconds=5)
MIN_RETENTION = timedelta(days=3)


async def reach(where: Address) -> tuple[Client | None, SetupCheck]:
    """Connect, and check the server and that the namespace exists."""
    try:
        client = await connect(where)
    except ConnectionFailed as failure:
        what, _, next = str(failure).partition(". ")
        problem = error(f"{capital(what).rstrip('.')}{_refusal(failure)}.", next or "Correct it, and run this again.")
        return None, SetupCheck(name="server", problems=(problem,))
    except ConfigurationError as wrong:
        return None, SetupCheck(name="server", problems=(error(str(wrong), "Correct it, and run this again."),))
    started, address = time.perf_counter(), client.service_client.config.target_host
    try:
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=RPC_TIMEOUT)
    except RPCError as failure:
        problem = error(
            f"Temporal at {address} does not answer as Temporal does: {failure.message}.",
            "Check that the address is that of Temporal's frontend.",
            address,
        )
        return None, SetupCheck(name="server", problems=(problem,))
    milliseconds = (time.perf_counter() - started) * 1000
    return client, SetupCheck(name="server", summary=f"{info.server_version} at {address}, {milliseconds:.0f} ms away")


def _refusal(failure: ConnectionFailed) -> str:
    """Why there was no connection, in the operating system's words, if the SDK quotes them."""
    found = re.search('message: "([^"]+)"', str(failure.__cause__))
    return f": {found[1].lower()}" if found else ""


async def check_namespace(client: Client) -> SetupCheck:
    """Whether the namespace is in use, and keeps closed threads for long enough."""
    name = "namespace"
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        described = await client.workflow_service.describe_namespace(request, timeout=RPC_TIMEOUT)
    except RPCError as failure:
        return skipped(name, f"it could not be described: {failure.message}")
    problems = []
    if described.namespace_info.state != NamespaceState.NAMESPACE_STATE_REGISTERED:
        state = NamespaceState.Name(described.namespace_info.state).removeprefix("NAMESPACE_STATE_").lower()
        problems.append(
            error(f"Namespace {client.namespace!r} is {state}.", "Use another namespace.", client.namespace)
        )
    retention = retention_of(described)
    if timedelta() < retention < MIN_RETENTION:
        problems.append(
            warning(
                f"Namespace {client.namespace!r} deletes threads {_days(retention)} after they have "
                "closed; then no message can wake them.",
                f"{code(retention_command(client, MIN_RETENTION))} keeps them for three days; keep them for as long as "
                "people may answer.",
                client.namespace,
            )
        )
    kept = f"keeps closed threads for {_days(retention)}"
    return SetupCheck(name=name, summary=f"{client.namespace}, {kept}", problems=tuple(problems))


async def check_attributes(client: Client) -> SetupCheck:
    """Whether the namespace has our search attributes, each with its type."""
    name = "search attributes"
    try:
        found = await unusable_attributes(client)
    except RPCError as failure:
        return skipped(name, f"they could not be listed: {failure.message}")
    problems = [_attribute_problem(client, attribute, kind) for attribute, kind in sorted(found.items())]
    return SetupCheck(name=name, summary=f"all {len(SEARCH_ATTRIBUTES)}", problems=tuple(problems))


def _attribute_problem(client: Client, name: str, other_type: str | None) -> SetupProblem:
    create = create_attribute_command(client, name)
    if other_type is None:
        return warning(
            f"Search attribute {name} is missing in namespace {client.namespace!r}: runs do not set it, and lists that "
            "filter by it fail.",
            f"A worker with admin rights creates it when it starts; else {code(create)}, and restart the workers.",
            name,
        )
    return error(
        f"Search attribute {name} has the type {other_type} in namespace {client.namespace!r}: runs do not set it, and "
        "lists that filter by it fail.",
        f"Remove it, create it again with {code(create)}, and restart the workers.",
        name,
    )


def _days(time: timedelta) -> str:
    days = time / timedelta(days=1)
    return "a day" if days == 1 else f"{days:.3g} days"
