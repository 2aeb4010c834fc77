"""What a shell offers on Tab for arguments and options: names that the cluster of the command line knows.

`candidates.py` finds them; it is imported late, because Temporal's client takes long to import.
"""

import typer


def complete_thread(ctx: typer.Context, incomplete: str) -> list[str]:
    from wakeful.cli.candidates import open_threads

    return open_threads(ctx.params, incomplete)


def complete_ticket(ctx: typer.Context, incomplete: str) -> list[str]:
    from wakeful.cli.candidates import pending_tickets

    return pending_tickets(ctx.params, incomplete)


def complete_agent(ctx: typer.Context, incomplete: str) -> list[str]:
    from wakeful.cli.candidates import recent_agents

    return recent_agents(ctx.params, incomplete)


def complete_schedule(ctx: typer.Context, incomplete: str) -> list[str]:
    from wakeful.cli.candidates import all_schedules

    return all_schedules(ctx.params, incomplete)
