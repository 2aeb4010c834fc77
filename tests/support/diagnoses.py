"""Diagnose until the cause is the one that a test stages, and parse the commands that it names."""

import asyncio
import shlex

import typer

from tests.support.waiting import BOUND_SECONDS
from wakeful.cli.app import app
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause, Diagnosis


async def until_cause(client: Client, thread_id: str, cause: Cause, *words: str) -> Diagnosis:
    """The first diagnosis with this cause and these words; without one in time, the assertion shows the last."""
    found: Diagnosis | None = None
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while found is None or found.cause is not cause or not all(word in found.text for word in words):
                if found is not None:
                    await asyncio.sleep(0.2)
                found = await client.why(thread_id)
    except TimeoutError:
        raise AssertionError(f"not {cause} with {words} but {found}") from None
    for command in found.commands:
        assert f"`{command}`" in found.next
        assert_parses(command)
    return found


def assert_parses(command: str) -> None:
    """Our command line parses a command of ours."""
    program, *arguments = shlex.split(command)
    if program != "wakeful":
        assert program == "temporal"
        return
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    context = group.make_context("wakeful", arguments)
    name, verb, rest = group.resolve_command(context, arguments)
    assert name is not None
    assert verb is not None
    verb.make_context(name, rest, parent=context)
