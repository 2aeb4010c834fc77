"""`wakeful close`: complete the workflow of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def close(
    thread: options.ThreadArgument,
    reason: options.RecordedReasonOption = None,
    wait: Annotated[bool, typer.Option(help="Wait until the thread is closed.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Cancel the run of a thread, if any, and close the thread.

    Its workflow completes. The conversation stays, and `wakeful send` wakes the thread again.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.outage_notice import wait_for_result
    from wakeful.cli.terminal.result_lines import receipt_lines
    from wakeful.client.wake import describe

    async def go(client: Client) -> str:
        await describe(client.temporal, thread)  # fails if the result, for which this waits, could not be decoded
        await client.close(thread, reason=reason)
        if not wait:
            return "close sent"
        result = await wait_for_result(client, thread)
        return "\n".join(["closed", *(f"  {line}" for line in receipt_lines(result.receipt))])

    print(f"thread {thread}: {with_client(options.Cluster(address, namespace, client_factory), go)}")
