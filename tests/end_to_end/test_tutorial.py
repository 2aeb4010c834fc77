"""The tutorial is true: its files become the example, and its commands print what it shows."""

import contextlib
from pathlib import Path

import pytest

from tests.support.page import blocks_of, save
from tests.support.processes import ROOT
from tests.support.reader import Reader

TUTORIAL = blocks_of(ROOT / "docs" / "tutorial.md", since="## 2. ")
EXAMPLE = ROOT / "examples" / "tutorial"


def files_in(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if file.suffix in (".py", ".ini")}


def test_the_files_of_the_tutorial_become_the_example(tmp_path: Path) -> None:
    for block in TUTORIAL:
        save(block, tmp_path)
    assert files_in(tmp_path) == files_in(EXAMPLE)


@pytest.mark.integration
async def test_a_reader_who_follows_the_tutorial_sees_what_it_shows(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as terminals:
        reader = Reader(tmp_path, terminals)
        for block in TUTORIAL:
            await reader.follow(block)
    assert files_in(tmp_path) == files_in(EXAMPLE)
