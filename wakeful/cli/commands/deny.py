"""`wakeful deny`: cancel suspended tool calls."""

from wakeful.cli import options


def deny(
    tickets: options.TicketArguments,
    reason: options.ReasonOption = None,
    actor: options.ActorOption = None,
    run: options.RunIdOption = None,
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Cancel suspended tool calls.

    The model reads the reason.
    """
    from wakeful.cli.answers import Answer, answer_tickets, current_user
    from wakeful.contract.decisions import DecisionAction

    answer = Answer(DecisionAction.CANCEL, reason=reason, actor=actor or current_user(), tenant=tenant, run_id=run)
    answer_tickets(tickets, answer, options.Cluster(address, namespace, client_factory))
