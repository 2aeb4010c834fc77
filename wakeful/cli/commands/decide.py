"""`wakeful decide`: a decision on one tool call, which need not have suspended yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.approvals import PendingDecision
    from wakeful.client.client import Client

ActionChoice = Literal["resume", "cancel"]
"""The values of `DecisionAction`, whose module takes long to import."""


def decide(
    thread: options.ThreadArgument,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The id of the call, or of its suspension.")],
    action: Annotated[ActionChoice, typer.Argument(metavar="ACTION", help="Resume the call, or cancel it.")],
    result: options.ResultOption = None,
    reason: options.ReasonOption = None,
    decision_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Makes the decision idempotent: a repeated ID is ignored.")
    ] = None,
    actor: options.ActorOption = None,
    run: options.RunIdOption = None,
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Resume or cancel one tool call, even before it suspends."""
    from wakeful.cli.answers import Answer, current_user, find_pending, send_answer
    from wakeful.cli.session import parse_json, with_client
    from wakeful.contract.decisions import DecisionAction
    from wakeful.contract.errors import NoAnswer

    answer = Answer(
        DecisionAction(action),
        result=parse_json("--result", result),
        reason=reason,
        actor=actor or current_user(),
        tenant=tenant,
        decision_id=decision_id,
        run_id=run,
    )

    async def go(client: Client) -> str:
        shown: PendingDecision | NoAnswer | None
        try:
            shown = await find_pending(client, thread, call)
        except NoAnswer as error:
            shown = error
        return await send_answer(client, thread, call, answer, shown=shown)

    print(with_client(options.Cluster(address, namespace, client_factory), go))
