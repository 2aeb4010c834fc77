"""The code on every page is true: it runs and prints what the page says, or a comment says why it does not run.

All of it is type-checked, whether it runs or not (`test_snippet_types.py`).
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import Snippet, of_page, snippets
from tests.support.processes import ROOT
from wakeful.connection import EmbeddedServer
from wakeful.testing import fresh_namespace, runtimes

SNIPPETS = snippets()
PAGES = sorted({snippet.page for snippet in SNIPPETS if snippet.level is None})
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE")


@pytest.fixture
def shared_server(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each program a namespace of its own on the session's server, where it would start a server."""

    @contextlib.asynccontextmanager
    async def in_a_namespace(**_: bool) -> AsyncIterator[EmbeddedServer]:
        yield EmbeddedServer(await fresh_namespace(server.address), server.address, None)

    monkeypatch.setattr(runtimes, "embedded_server", in_a_namespace)


@pytest.mark.server
@pytest.mark.usefixtures("shared_server")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks run in order, and share their names: as a reader would copy them into one file."""
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in of_page(page):
        if snippet.level is None:
            names["__name__"] = "__main__" if snippet.is_program else snippet.module
            exec(compile(snippet.program if snippet.is_program else snippet.code, str(snippet), "exec"), names)
            assert capsys.readouterr().out == snippet.printed, snippet


def test_a_fragment_says_what_the_reader_has() -> None:
    """Code that uses names which its page does not define cannot run as it stands."""
    unmarked = []
    for page in PAGES:
        bound: set[str] = set()
        for snippet in of_page(page):
            if snippet.level is None and (missing := snippet.unbound - bound):
                unmarked.append(
                    f"{snippet} uses {sorted(missing)}: define them, or write <!-- fragment: … --> above it"
                )
            bound |= snippet.bound
    assert unmarked == []


@pytest.mark.parametrize("snippet", [each for each in SNIPPETS if each.level in ("tested", "mistake")], ids=str)
def test_the_test_that_a_page_names_reads_that_page(snippet: Snippet) -> None:
    assert snippet.page.stem in (ROOT / snippet.reason).read_text()


def test_no_block_of_python_is_overlooked() -> None:
    written = sum(page.read_text().count("```python\n") for page in {snippet.page for snippet in SNIPPETS})
    assert len(SNIPPETS) == written
