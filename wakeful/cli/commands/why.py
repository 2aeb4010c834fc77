"""`wakeful why`: what a thread waits for, since when, the cause, and what you can do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.client.diagnosis.causes import Diagnosis


def why(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Explain why a thread is not making progress.

    Says what it does and waits for, since when, the cause, and what you can do.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.text import printable

    async def go(client: Client) -> Diagnosis:
        return await client.why(thread)

    found = with_cluster_options(with_client(address, namespace, go), address=address, namespace=namespace)
    if as_json:
        print(found.model_dump_json())
        return
    print(printable(found.text))
    for problem in found.unread:
        print(f"could not read: {printable(problem)}", file=sys.stderr)


def with_cluster_options(found: Diagnosis, *, address: str | None, namespace: str | None) -> Diagnosis:
    """The diagnosis, with commands that reach the same cluster as this one."""
    named = [*(["--address", address] if address else []), *(["--namespace", namespace] if namespace else [])]
    commands = {command: _with_options(command, named) for command in found.commands}
    next = found.next
    for command, whole in commands.items():
        next = next.replace(f"`{command}`", f"`{whole}`")
    return found.model_copy(update={"next": next, "commands": tuple(commands.values())})


def _with_options(command: str, named: Sequence[str]) -> str:
    """Ours take options before a possible `--` and the ids; Temporal's take them at the end."""
    program, verb, *rest = shlex.split(command)
    return shlex.join([program, verb, *named, *rest] if program == "wakeful" else [program, verb, *rest, *named])
