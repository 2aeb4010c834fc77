"""`wakeful permissions`: the permission rules that apply to a thread."""

from __future__ import annotations

from wakeful.cli import options


def permissions(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the permission rules that apply to a thread."""
    from wakeful.cli.changes import permission_lines
    from wakeful.cli.session import with_client

    cluster = options.Cluster(address, namespace, client_factory)
    view = with_client(cluster, lambda client: client.permissions(thread))
    for line in [view.model_dump_json()] if as_json else permission_lines(thread, view):
        print(line)
