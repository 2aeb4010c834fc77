"""An agent whose tool copies pages, makes a checkpoint after each, and writes to a journal which it copies."""

import asyncio

from tests.support.app import note
from wakeful import Agent, Registry, RetryLater, ScriptedModel, ToolContext, call, say, tool

PAGES = 10
STOPS_AFTER = 6
"""The page after which the first attempts stop: by an error that is retried, and then for ever."""


@tool(idempotent=True, retries=1, heartbeat_timeout=2)
async def copy_pages(ctx: ToolContext) -> str:
    """Copy all pages."""
    done = ctx.last_checkpoint if isinstance(ctx.last_checkpoint, int) else 0
    if ctx.attempt == 2:
        note(ctx, "retried", page=done)
    for page in range(done + 1, PAGES + 1):
        note(ctx, "copied", page=page)
        ctx.report(f"page {page}", progress=page / PAGES)
        ctx.checkpoint(page)
        if ctx.attempt == 1 and page == STOPS_AFTER // 2:
            raise RetryLater("the library is closed", after=0)
        if ctx.attempt == 2 and page == STOPS_AFTER:
            await asyncio.Event().wait()
    return f"copied {PAGES} pages, the last {PAGES - done} in attempt {ctx.attempt}"


registry = Registry(
    agents=[Agent(id="copyist", tools=[copy_pages])],
    models={"default": ScriptedModel([call("copy_pages"), say("{result}")])},
)
