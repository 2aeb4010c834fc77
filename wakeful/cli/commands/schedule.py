"""`wakeful schedule`: run an agent at set times, by Temporal's own schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from temporalio.client import ScheduleSpec

    from wakeful.client.client import Client
    from wakeful.client.schedules import ScheduleEntry

OverlapChoice = Literal["skip", "buffer-one", "buffer-all", "cancel-other", "terminate-other", "allow-all"]
"""The values of Temporal's `ScheduleOverlapPolicy`."""

ScheduleArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SCHEDULE",
        help="One or more schedules, by the ids that `list` prints.",
        autocompletion=completion.complete_schedule,
    ),
]

schedule = typer.Typer(
    name="schedule",
    help="Run an agent at set times: create, list and delete schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@schedule.command()
@options.taking_run_options
def create(
    agent: options.AgentArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message to the agent.")],
    cron: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPRESSION", help="A cron expression, like '0 9 * * MON-FRI'. Repeatable."),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="When: at intervals, such as 90s, 15m or 1d.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Of --cron, such as Europe/Berlin. [default: UTC]")
    ] = None,
    jitter: Annotated[str | None, typer.Option(metavar="TIME", help="Delay each firing by up to so much.")] = None,
    schedule_id: Annotated[
        str | None, typer.Option("--id", metavar="SCHEDULE", help="The schedule's id. [default: the agent's id]")
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            metavar="THREAD",
            help="Send the message to this thread. [default: each firing starts a thread of its own]",
            autocompletion=completion.complete_thread,
        ),
    ] = None,
    on_busy: Annotated[
        options.OnBusyChoice, typer.Option(help="With --thread: what to do with the message while a run is active.")
    ] = "enqueue",
    overlap: Annotated[
        OverlapChoice, typer.Option(help="What a firing does while what the one before has started still runs.")
    ] = "skip",
    on_error: options.OnErrorOption = "fail",
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    *,
    given: options.RunOptionValues,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
) -> None:
    """Create a schedule.

    Each firing starts a thread of its own, whose id is the schedule's with the time appended. With --thread, it sends
    the message to that thread as `wakeful send` does. `temporal schedule` triggers, pauses and changes schedules.
    """
    from temporalio.client import ScheduleOverlapPolicy, SchedulePolicy

    from wakeful.cli.run_settings import parse_run_options
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.outage_notice import warn_without_worker

    spec = _spec(cron or [], every, time_zone, jitter)
    settings = parse_run_options(given)

    async def go(client: Client) -> str:
        created = await client.schedules.create(
            agent,
            text,
            spec=spec,
            schedule_id=schedule_id,
            thread_id=thread,
            on_busy=on_busy,
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy[overlap.upper().replace("-", "_")]),
            on_error=on_error,
            paused=paused,
            **settings,
        )
        await warn_without_worker(client)
        return created

    created = with_client(options.Cluster(address, namespace, client_factory), go, task_queue=task_queue)
    print(f"created: schedule {created}")


@schedule.command("list")
def list_schedules(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT", help="Only this agent's. [default: all]", autocompletion=completion.complete_agent
        ),
    ] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the schedules of all agents, or of one."""
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.schedule_lines import schedule_lines

    async def go(client: Client) -> list[ScheduleEntry]:
        return [each async for each in client.schedules.list(agent_id=agent)]

    found = with_client(options.Cluster(address, namespace, client_factory), go)
    lines = [each.model_dump_json() for each in found] if as_json else schedule_lines(found)
    if lines or not as_json:
        print("\n".join(lines) or "no schedules")


@schedule.command()
def delete(
    schedules: ScheduleArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Delete schedules.

    What their firings have started stays.
    """
    from wakeful.cli.session import with_client

    async def go(client: Client) -> None:
        for each in schedules:
            await client.schedules.delete(each)
            print(f"deleted: schedule {each}", flush=True)

    with_client(options.Cluster(address, namespace, client_factory), go)


def _spec(cron: list[str], every: str | None, time_zone: str | None, jitter: str | None) -> ScheduleSpec:
    from temporalio.client import ScheduleIntervalSpec, ScheduleSpec

    from wakeful.cli.session import parse_duration
    from wakeful.contract.errors import CallerError

    if not cron and every is None:
        raise CallerError("say when it fires: with --cron '0 9 * * MON-FRI', or --every 6h")
    return ScheduleSpec(
        cron_expressions=cron,
        intervals=[ScheduleIntervalSpec(every=parse_duration("--every", every))] if every else [],
        time_zone_name=time_zone,
        jitter=parse_duration("--jitter", jitter) if jitter else None,
    )
