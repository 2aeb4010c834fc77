"""What the people at the desk do with a client: ask, decide, correct, and look."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from examples.surface.shop import CONFIRM, Ticket
from wakeful import (
    Adapter,
    AlreadyDecided,
    Answer,
    CallerError,
    Changed,
    ChangeRefused,
    Client,
    Decision,
    DecisionAction,
    DecisionNeeded,
    DecisionRecord,
    DecisionRefused,
    ExpiryAction,
    InputMessage,
    MessageRefused,
    NoAnswer,
    NotAnswered,
    OnBusy,
    OtherTenant,
    OutputMismatch,
    PendingDecision,
    PermissionsView,
    QueuedMessage,
    ResumeMode,
    RuleScope,
    RunBlocked,
    RunCancelled,
    RunFailed,
    RunResult,
    RunStatus,
    RunStopped,
    ScopedRule,
    StatusView,
    TextBlock,
    ThreadBusy,
    ThreadExists,
    ThreadExpired,
    ThreadMode,
    ThreadNotFound,
    ThreadRun,
    ThreadSummary,
)


async def open_thread(client: Client, question: str, *, tenant: str | None = None) -> str:
    """Start a thread that stays open for more questions."""
    written = InputMessage(content=[TextBlock(text=question)], role="user")
    try:
        return await client.start(
            "clerk", [written], mode="thread", frontend_tools=[CONFIRM], on_error="complete", tenant=tenant
        )
    except (ThreadBusy, ThreadExists, ThreadExpired) as error:
        raise CallerError(f"choose another thread: {error}") from error


async def ask(client: Client, thread_id: str, question: str) -> Ticket | None:
    """The clerk's answer; None if there is none, and the reason on the terminal."""
    try:
        async with asyncio.timeout(600):
            answer: Answer[Ticket] = await client.ask(
                thread_id, question, output=Ticket, agent_id="clerk", on_busy="steer", on_decision="raise"
            )
    except DecisionNeeded as needed:
        await decide_all(client, needed.pending)
        answer = await client.ask(thread_id, question, output=Ticket, message_id=needed.message_id)
    except (RunFailed, RunCancelled, RunBlocked, RunStopped) as ended:
        print(f"the run ended: {ended.reason}")
        return None
    except OutputMismatch as mismatch:
        print(f"not a ticket: {mismatch}")
        return None
    except (NotAnswered, MessageRefused, OtherTenant) as error:
        print(f"no answer: {error}")
        return None
    print(answer.text, answer.usage.total_tokens, answer.cost)
    return answer.output


async def decide_all(client: Client, pending: tuple[PendingDecision, ...]) -> None:
    """Approve what waits, one decision at a time."""
    for each in pending:
        if each.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT:
            await client.decide(each.thread_id, each.call_id, "resume", result={"confirmed": True})
            continue
        try:
            await client.decide(each.thread_id, each.call_id, DecisionAction.RESUME, actor="ann", confirm=True)
        except AlreadyDecided as error:
            print(f"{each.ticket}: {error.actor or 'someone'} was faster: {error.action}")
        except (DecisionRefused, NoAnswer) as error:
            print(f"{each.ticket}: {error}")


async def deny_together(client: Client, thread_id: str, call_ids: list[str]) -> None:
    """Deny several calls of one thread, all or none."""
    decisions = [Decision(target=call_id, action="cancel", reason=ExpiryAction.DENY.value) for call_id in call_ids]
    await client.decide_many(thread_id, decisions)


async def correct(client: Client, thread_id: str, wording: str) -> Changed | None:
    """Reword the first message that waits, and withdraw the others."""
    waiting: list[QueuedMessage] = await client.queued(thread_id)
    if not waiting:
        return None
    first, *others = waiting
    try:
        await client.edit(thread_id, first.message.id, wording)
        return await client.withdraw(thread_id, [each.message.id for each in others], confirm=True)
    except ChangeRefused as error:
        print(error.reason)
        return None


async def revoke_all(client: Client, thread_id: str) -> list[ScopedRule]:
    """Revoke every rule that someone has added with `always`; those that stay are of the agent or of the run."""
    view: PermissionsView = await client.permissions(thread_id)
    added = [each.rule.tool for each in view.rules if each.scope is RuleScope.THREAD]
    if added:
        await client.revoke(thread_id, added)
    return [each for each in view.rules if each.scope is not RuleScope.THREAD]


async def interrupt(client: Client, thread_id: str, text: str) -> str:
    return await client.send(thread_id, text, on_busy=OnBusy.INTERRUPT, adapter=Adapter.AG_UI, confirm=True)


async def branch(client: Client, thread_id: str, *, after_step: int, message: str) -> RunResult:
    """What would have happened, had the customer said something else?"""
    fork = await client.fork(thread_id, at=after_step, message=message, mode=ThreadMode.RUN)
    return await client.result(fork)


async def busy_threads(client: Client, *, tenant: str) -> AsyncIterator[str]:
    async for thread in client.threads(status="waiting", tenant=tenant, details=True):
        yield line_of(thread)


def line_of(thread: ThreadSummary) -> str:
    return f"{thread.thread_id}: {thread.title} ({thread.status or RunStatus.CREATED})"


async def who_decided(client: Client, *, tenant: str) -> list[DecisionRecord]:
    return [record async for record in client.decisions(tenant=tenant, since=timedelta(days=1))]


async def last_runs(client: Client, thread_id: str) -> list[ThreadRun]:
    try:
        status: StatusView = await client.status(thread_id)
    except ThreadNotFound:
        return []
    return await client.runs(thread_id, limit=3 if status.status is RunStatus.DONE else 4)
