"""`wakeful send`: a message to a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def send(
    thread: options.ThreadArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            help="The agent that answers; required for a new thread.",
            autocompletion=completion.complete_agent,
        ),
    ] = None,
    on_busy: Annotated[
        options.OnBusyChoice, typer.Option(help="What to do with the message while a run is active.")
    ] = "enqueue",
    message_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Makes sending idempotent: a repeated ID is ignored.")
    ] = None,
    permission: options.PermissionOption = None,
    frontend_tools: options.FrontendToolsOption = None,
    budget_tokens: options.BudgetTokens = None,
    budget_cost: options.BudgetCost = None,
    budget_turns: options.BudgetTurns = None,
    budget_tool_calls: options.BudgetToolCalls = None,
    budget_seconds: options.BudgetSeconds = None,
    tenant: options.TenantOption = None,
    user: options.UserOption = None,
    metadata: options.MetadataOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
) -> None:
    """Send a message to a thread, and do not wait for the answer.

    A new thread is created, and a closed one wakes up. While a run is active, --on-busy says what happens. Rules,
    tools and budgets are for the run that the message begins.
    """
    from wakeful.cli.run_settings import parse_budget, parse_permissions, read_frontend_tools
    from wakeful.cli.session import with_client

    budget = parse_budget(
        tokens=budget_tokens,
        cost=budget_cost,
        turns=budget_turns,
        tool_calls=budget_tool_calls,
        seconds=budget_seconds,
    )
    given = options.parse_metadata(metadata)
    rules, tools = parse_permissions(permission), read_frontend_tools(frontend_tools)

    async def go(client: Client) -> str:
        return await client.send(
            thread,
            text,
            agent_id=agent,
            on_busy=on_busy,
            message_id=message_id,
            permissions=rules,
            frontend_tools=tools,
            budget=budget,
            tenant=tenant,
            user=user,
            metadata=given,
        )

    sent = with_client(options.Cluster(address, namespace, client_factory), go, task_queue=task_queue)
    print(f"sent: message {sent} to thread {thread}")
