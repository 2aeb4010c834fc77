"""`wakeful why`: what a thread does, what it waits for, since when, why, and what to do about it."""

import shlex
import sys
from collections.abc import Sequence

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.render import printable
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Diagnosis


def why(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Why a thread stands where it stands: what it does and waits for, since when, the cause, and what to do."""

    async def go(client: Client) -> Diagnosis:
        return await client.why(thread)

    found = reaching(with_client(address, namespace, go), address=address, namespace=namespace)
    if as_json:
        print(found.model_dump_json())
        return
    print(printable(found.text))
    for problem in found.unread:
        print(f"not read: {printable(problem)}", file=sys.stderr)


def reaching(found: Diagnosis, *, address: str | None, namespace: str | None) -> Diagnosis:
    """The diagnosis with commands that reach the cluster that was asked, as it was named for this one."""
    named = [*(["--address", address] if address else []), *(["--namespace", namespace] if namespace else [])]
    commands = {command: _with(command, named) for command in found.commands}
    next = found.next
    for command, whole in commands.items():
        next = next.replace(f"`{command}`", f"`{whole}`")
    return found.model_copy(update={"next": next, "commands": tuple(commands.values())})


def _with(command: str, named: Sequence[str]) -> str:
    """Ours take options before threads, which may come after a `--`; Temporal's take them at the end."""
    program, verb, *rest = shlex.split(command)
    return shlex.join([program, verb, *named, *rest] if program == "wakeful" else [program, verb, *rest, *named])
