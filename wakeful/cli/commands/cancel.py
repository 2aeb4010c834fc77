"""`wakeful cancel`: stop the run of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def cancel(
    thread: options.ThreadArgument,
    reason: options.RecordedReasonOption = None,
    wait: Annotated[bool, typer.Option(help="Wait until the run, or the tasks of an idle thread, have ended.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Cancel the run of a thread and everything it started."""
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.outage_notice import OutageNotice, warn
    from wakeful.cli.terminal.result_lines import stopped_lines
    from wakeful.client.cancel import cancel_and_wait

    async def go(client: Client) -> str:
        if not wait:
            await client.cancel(thread, reason=reason)
            return "cancel sent"
        async with OutageNotice(client, thread, warn) as notice:
            stopped = await cancel_and_wait(client, thread, reason=reason, on_trouble=notice.on_trouble)
        return "\n".join(stopped_lines(stopped))

    print(f"thread {thread}: {with_client(options.Cluster(address, namespace, client_factory), go)}")
