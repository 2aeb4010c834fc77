"""docs/errors.md tells the truth: each mistake on the page raises one of our errors, with the message that it shows.

Run `python -m tests.client.test_newcomer_mistakes` to write the messages of a changed page; read what it has changed.
"""

import ast
import asyncio
import contextlib
import inspect
import logging
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from types import CodeType
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

import wakeful
from tests.conftest import worker_settings
from tests.support.processes import ROOT
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import Client, Registry, RunStatus, WakefulError, running_worker
from wakeful.client import worker_warning
from wakeful.contract import errors
from wakeful.testing import runtime

PAGE = ROOT / "docs/errors.md"
AT_LEAST = 20
QUEUE = "newcomers"

_MISTAKE = re.compile(
    r"\*\*(?P<title>[^*\n]+)\*\*\n\n<!-- mistake: \S+ -->\n```python\n(?P<code>.*?)```\n\n```text\n(?P<message>.*?)```",
    re.DOTALL,
)
_SETUP = re.compile(r"```python\n(from datetime .*?)```", re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")


def mistakes() -> Iterator[tuple[str, str, str]]:
    for found in _MISTAKE.finditer(PAGE.read_text()):
        yield found["title"], found["code"], found["message"]


def prepared(client: Client | None = None) -> dict[str, Any]:
    """The names that the page's examples use."""
    (setup,) = _SETUP.findall(PAGE.read_text())
    names: dict[str, Any] = {"__name__": __name__, "client": client}
    exec(compile(setup, str(PAGE), "exec"), names)
    return names


async def message_of(code: str, names: dict[str, Any]) -> str:
    """What the example raises, as the page shows it."""
    compiled: CodeType = compile(code, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        result = eval(compiled, names)
        if inspect.iscoroutine(result):
            await result
    except WakefulError as error:
        return _TIME.sub("2026-11-18 14:02 UTC", f"{type(error).__name__}: {error}\n")
    raise AssertionError("it raises nothing")


@pytest.fixture(scope="module")
async def newcomer(temporal: TemporalClient) -> AsyncIterator[dict[str, Any]]:
    """The names of the page, with a client of a worker that serves its registry. Its examples share their threads."""
    registry: Registry = prepared()["registry"]
    async with (
        running_worker(temporal, registry, worker_settings(task_queue=QUEUE)),
        Client(temporal, task_queue=QUEUE) as client,
    ):
        yield prepared(client)
        with contextlib.suppress(WakefulError):
            await client.cancel("restock")


async def test_each_mistake_on_the_page_raises_our_error_with_the_message_that_it_shows(
    newcomer: dict[str, Any],
) -> None:
    wrong = {}
    async with asyncio.timeout(2 * BOUND_SECONDS):
        for title, code, message in mistakes():
            if '"1-1"' in code or "9-9" in code:
                await until_status(newcomer["client"], "restock", RunStatus.WAITING)
            if (raised := await _quietly(code, newcomer)) != message:
                wrong[title] = (message, raised)
    assert wrong == {}


async def _quietly(code: str, names: dict[str, Any]) -> str:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        return await message_of(code, names)


def test_the_page_has_enough_of_them_and_each_names_an_error_that_is_public() -> None:
    listed = list(mistakes())
    assert len(listed) >= AT_LEAST
    assert len({title for title, _, _ in listed}) == len(listed)
    raised = {message.partition(":")[0] for _, _, message in listed}
    assert raised <= {name for name in wakeful.__all__ if _is_error(getattr(wakeful, name))}


def _is_error(exported: object) -> bool:
    return isinstance(exported, type) and issubclass(exported, WakefulError)


def test_the_page_draws_every_error_that_is_public() -> None:
    (tree,) = re.findall(r"```text\n(WakefulError\n.*?)```", PAGE.read_text(), re.DOTALL)
    drawn = set(re.findall(r"(?m)^[ │├└─]*(\w+)", tree))
    public = {name for name in wakeful.__all__ if _is_error(getattr(wakeful, name)) and not name.startswith("Profile")}
    assert drawn == public


def test_the_page_says_of_each_error_where_it_is_in_the_tree() -> None:
    (tree,) = re.findall(r"```text\n(WakefulError\n.*?)```", PAGE.read_text(), re.DOTALL)
    parents: list[str] = []
    for line in tree.splitlines():
        found = re.match(r"([ │├└─]*)(\w+)", line)
        assert found is not None
        depth = len(found[1]) // 4
        parents[depth:] = [found[2]]
        if depth:
            assert issubclass(getattr(wakeful, found[2]), getattr(wakeful, parents[depth - 1]))


async def test_a_wait_without_a_worker_logs_what_to_do(
    temporal: TemporalClient, thread_id: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_warning, "AFTER_SECONDS", 0.1)
    async with Client(temporal, task_queue="nowhere") as client:
        with caplog.at_level(logging.WARNING, logger="wakeful"):
            waiting = asyncio.create_task(client.run("buyer", "Hello.", thread_id=thread_id))
            async with asyncio.timeout(BOUND_SECONDS):
                while not caplog.messages:
                    await asyncio.sleep(0.05)
        waiting.cancel()
        await client.handle(thread_id).terminate()
    (shown,) = re.findall(r"(?m)^no worker takes .*$", PAGE.read_text())
    assert caplog.messages == [shown.replace("restock", thread_id).replace("'wakeful'", "'nowhere'")]


def test_no_error_of_ours_is_left_without_its_place_in_the_tree() -> None:
    drawn = set(re.findall(r"(?m)^    [ │├└─]*(\w+)", errors.__doc__ or ""))
    ours = {name for name, kind in vars(errors).items() if _is_error(kind)} - {"IllegalTransition"}
    assert ours <= drawn


async def _write() -> None:
    """Write the messages that the examples raise into the page."""
    async with runtime(prepared()["registry"]) as client:
        names, text = prepared(client), PAGE.read_text()
        for title, code, message in mistakes():
            if '"1-1"' in code or "9-9" in code:
                await until_status(client, "restock", RunStatus.WAITING)
            before = f"**{title}**\n\n```python\n{code}```\n\n```text\n"
            text = text.replace(f"{before}{message}```", f"{before}{await _quietly(code, names)}```")
        PAGE.write_text(text)


if __name__ == "__main__":
    asyncio.run(_write())
