"""Commands on threads: run, send, status, show, cancel."""

import sys
from typing import Annotated

import typer
from temporalio.client import WorkflowExecutionStatus

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.colours import colours_of
from wakeful.cli.terminal.follow import Showing, follow
from wakeful.cli.terminal.render import message_lines, send_command, state_lines, status_lines
from wakeful.cli.terminal.task_lines import ended_words, family_lines, receipt_lines, result_lines
from wakeful.client.branching.steps import steps_of
from wakeful.client.client import Client
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.wake import describe
from wakeful.contract.budgets import Budget
from wakeful.contract.errors import CallerError, NoAnswer
from wakeful.contract.runs import NaturalEnd, OnBusy, RunResult
from wakeful.contract.views import StatusView


def run(
    agent: options.AgentArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to tell it.")],
    thread: Annotated[str | None, typer.Option(help="The thread's id. [default: a new one]")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Start over on a thread that is closed: the run knows nothing of before.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Stay when the run suspends, until it goes on.")] = True,
    budget_tokens: options.BudgetTokens = None,
    budget_cost: options.BudgetCost = None,
    budget_turns: options.BudgetTurns = None,
    budget_tool_calls: options.BudgetToolCalls = None,
    budget_seconds: options.BudgetSeconds = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Start a run, show what happens, and print its answer."""
    limits = Budget(
        tokens=budget_tokens,
        cost=budget_cost,
        turns=budget_turns,
        tool_calls=budget_tool_calls,
        seconds=budget_seconds,
    )
    budget = None if limits == Budget() else limits

    async def go(client: Client) -> RunResult | None:
        if thread is not None:
            await _refuse_taken(client, thread, again=again)
        thread_id = await client.start(agent, text, thread_id=thread, budget=budget)
        if not as_json:
            print(f"thread {thread_id}", file=sys.stderr)
        return await follow(client, thread_id, wait=wait, as_json=as_json)

    result = with_client(address, namespace, go, task_queue=task_queue)
    if result is not None:
        tell_result(result, as_json=as_json)


def tell_result(result: RunResult, *, as_json: bool, last: str | None = None) -> None:
    """Print what a followed run came to, and `last` for a person.

    Raises:
        CallerError: it did not come to its natural end.
    """
    if as_json:
        print(result.model_dump_json(), flush=True)
    else:
        if not Showing.usual(as_json=False).live:  # on a terminal it has been written as it came
            print(result.response, flush=True)
        for line in [*result_lines(result), *([last] if last else [])]:
            print(line, file=sys.stderr)
    if not isinstance(result.termination, NaturalEnd):
        raise CallerError(ended_words(result))


def send(
    thread: options.ThreadArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    agent: Annotated[str | None, typer.Option(help="Who should answer; needed for a new thread.")] = None,
    on_busy: Annotated[OnBusy, typer.Option(help="What becomes of it while a run is under way.")] = OnBusy.ENQUEUE,
    message_id: Annotated[str | None, typer.Option(help="Sending the same id again changes nothing.")] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
) -> None:
    """Say something to a thread that stays: it is created, woken, restored, or the message waits its turn."""

    async def go(client: Client) -> str:
        return await client.send(thread, text, agent_id=agent, on_busy=on_busy, message_id=message_id)

    print(f"sent: message {with_client(address, namespace, go, task_queue=task_queue)} to thread {thread}")


def status(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Where a thread's run stands, and what it waits for."""

    async def go(client: Client) -> None:
        view = await client.status(thread, within=QUERY_TIMEOUT)
        if as_json:
            print(view.model_dump_json())
        else:
            lines = [*status_lines(thread, view), *await _family(client, thread, view)]
            print("\n".join(colours_of(sys.stdout).labelled(line) for line in lines))

    with_client(address, namespace, go)


def show(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """The whole conversation of a thread; then its state, tasks, dead letters and what sub-agents wait for, if any.

    The numbers of its steps are those that `fork` and `rewind` take.
    """

    async def go(client: Client) -> None:
        messages = await client.transcript(thread)
        marks = {step.start: colours_of(sys.stdout).dim(f", step {step.number}") for step in steps_of(messages)}
        for place, message in enumerate(messages):
            lines = message_lines(message, mark=marks.get(place, ""))
            print(message.model_dump_json() if as_json else "\n".join(lines))
        if as_json:
            return
        view = await client.status(thread)
        lines = [*state_lines(await client.state(thread)), *await _family(client, thread, view)]
        if view.active_agent not in (None, view.identity.agent_id):
            lines.insert(0, f"agent    {view.active_agent}")
        if lines:
            print("\n".join(["", *lines]))

    with_client(address, namespace, go)


def cancel(
    thread: options.ThreadArgument,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until everything has stopped.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Cancel a thread's run and everything it has in flight."""

    async def go(client: Client) -> str:
        await client.cancel(thread, reason=reason)
        if not wait:
            return "cancel sent"
        result = await client.result(thread)
        return "\n".join([result.status_reason, *(f"  {line}" for line in receipt_lines(result))])

    print(f"thread {thread}: {with_client(address, namespace, go)}")


async def _refuse_taken(client: Client, thread_id: str, *, again: bool) -> None:
    """Who names a thread that is there most likely wants to go on with it, and a new run would not."""
    described = await describe(client.temporal, thread_id)
    if described is None:
        return
    send_to_it = f"`{send_command(thread_id)}`"
    if described.status is WorkflowExecutionStatus.RUNNING:
        try:
            doing = f" ({(await client.status(thread_id, within=QUERY_TIMEOUT)).doing})"
        except NoAnswer:
            doing = ""
        raise CallerError(f"thread {thread_id!r} is open{doing}: {send_to_it} says something to it")
    if not again:
        has_one = f"thread {thread_id!r} has a conversation already"
        raise CallerError(f"{has_one}: {send_to_it} goes on with it, or `--again` starts over")


async def _family(client: Client, thread_id: str, view: StatusView) -> list[str]:
    """What there is of others; the decisions below are looked for only if something runs there."""
    waiting = [pending async for pending in client.inbox(thread_id=thread_id)] if view.children else []
    return family_lines(thread_id, view, [pending for pending in waiting if pending.thread_id != thread_id])
