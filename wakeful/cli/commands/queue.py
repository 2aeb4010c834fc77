"""`wakeful queue`: the messages that wait in a thread."""

from __future__ import annotations

from wakeful.cli import options


def queue(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the messages of a thread that no run has read."""
    from wakeful.cli.changes import queued_lines
    from wakeful.cli.session import with_client

    cluster = options.Cluster(address, namespace, client_factory)
    queued = with_client(cluster, lambda client: client.queued(thread))
    lines = [each.model_dump_json() for each in queued] if as_json else queued_lines(thread, queued)
    for line in lines:
        print(line)
