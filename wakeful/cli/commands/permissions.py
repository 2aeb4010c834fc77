"""`wakeful permissions`: the permission rules that apply to a thread, and which of them decides about a call."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeful.cli import completion, options


def permissions(
    thread: Annotated[
        str | None,
        typer.Argument(metavar="THREAD", help="The thread's id.", autocompletion=completion.complete_thread),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="CALL", help="Say which rule decides about a call, such as 'pay(amount=250)', and why."),
    ] = None,
    app: options.AppOption = None,
    agents: options.AgentsOption = None,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Without THREAD: of this agent alone, also as a sub-agent.")
    ] = None,
    permission: options.PermissionOption = None,
    tenant: options.ExplainedTenantOption = None,
    user: options.ExplainedUserOption = None,
    metadata: options.MetadataOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the permission rules of a thread, or explain a call.

    With --explain CALL and a THREAD, which may be a sub-agent's: what the rules of its newest run decide. Without
    THREAD: what those of your registry decide, for every agent that has the tool, also as a sub-agent.
    """
    from wakeful.cli.changes import permission_lines
    from wakeful.cli.explaining import Asked, in_registry, in_thread, lines_of
    from wakeful.cli.session import with_client

    cluster = options.Cluster(address, namespace, client_factory)
    if explain is not None:
        asked = Asked.parse(explain, permission, tenant, user, options.parse_metadata(metadata))
        if thread is None:
            from wakeful.cli.serving import registry_of

            explained = in_registry(asked, registry_of(app, agents), agent)
        else:
            explained = with_client(cluster, lambda client: in_thread(asked, client, thread))
        lines = lines_of(explained, as_json=as_json)
    elif thread is None:
        raise typer.BadParameter("name a thread, or a call with --explain", param_hint="THREAD")
    else:
        view = with_client(cluster, lambda client: client.permissions(thread))
        lines = [view.model_dump_json()] if as_json else permission_lines(thread, view)
    for line in lines:
        print(line)
