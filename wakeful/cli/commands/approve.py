"""`wakeful approve`: resume suspended tool calls."""

from typing import Annotated

import typer

from wakeful.cli import options


def approve(
    tickets: options.TicketArguments,
    result: options.ResultOption = None,
    arguments: Annotated[str | None, typer.Option(metavar="JSON", help="Replace the arguments of the call.")] = None,
    always: Annotated[bool, typer.Option("--always", help="Also allow such calls on this thread from now on.")] = False,
    reason: options.ReasonOption = None,
    actor: options.ActorOption = None,
    run: options.RunIdOption = None,
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Resume suspended tool calls."""
    from wakeful.cli.answers import Answer, answer_tickets, current_user
    from wakeful.cli.session import parse_json, parse_json_object
    from wakeful.contract.decisions import DecisionAction

    answer = Answer(
        DecisionAction.RESUME,
        result=parse_json("--result", result),
        reason=reason,
        arguments=parse_json_object("--arguments", arguments),
        always=always,
        actor=actor or current_user(),
        tenant=tenant,
        run_id=run,
    )
    answer_tickets(tickets, answer, options.Cluster(address, namespace, client_factory))
