"""Ask why until the answer is the one that a test stages, and try the commands that it names."""

import asyncio
import shlex

import typer

from tests.support.waiting import BOUND_SECONDS
from wakeful.cli.app import app
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause, Diagnosis


async def until_cause(client: Client, thread_id: str, cause: Cause, *words: str) -> Diagnosis:
    """The first diagnosis that names this cause in these words; what was said instead, if none does in time."""
    said: Diagnosis | None = None
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while said is None or said.cause is not cause or not all(word in said.text for word in words):
                if said is not None:
                    await asyncio.sleep(0.2)
                said = await client.why(thread_id)
    except TimeoutError:
        raise AssertionError(f"not {cause} with {words} but {said}") from None
    for command in said.commands:
        assert f"`{command}`" in said.next
        assert_parses(command)
    return said


def assert_parses(command: str) -> None:
    """A command of ours is one that our command line understands."""
    program, *arguments = shlex.split(command)
    if program != "wakeful":
        assert program == "temporal"
        return
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    context = group.make_context("wakeful", arguments)
    name, found, rest = group.resolve_command(context, arguments)
    assert name is not None
    assert found is not None
    found.make_context(name, rest, parent=context)
