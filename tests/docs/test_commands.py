"""The commands on every page exist: `wakeful` with these arguments and options, `make` with these targets.

The command line is parsed as the program parses it; it does not run. The README's and some other commands run in tests
of their own, which compare what they print.
"""

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.support.processes import ROOT
from wakeful.cli.app import load_command

PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "examples/*/README.md")
PROMPT = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Each command line of a program in the console blocks: where it is, and its words."""
    for page in (page for pages in PAGES for page in sorted(ROOT.glob(pages))):
        text = page.read_text()
        for block in re.finditer(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            for line in PROMPT.finditer(block[1]):
                where = text.count("\n", 0, block.start(1) + line.start()) + 1
                for words in pieces(line[1].replace("\\\n", " ")):
                    if words[:1] == [program]:
                        yield f"{page.relative_to(ROOT)}:{where}", words[1:]


def pieces(line: str) -> Iterator[list[str]]:
    """The commands of a shell's line, without the variables that are set for one of them."""
    words: list[str] = []
    for word in [*shlex.split(line, comments=True), ";"]:
        if word in (";", "&&", "||", "|", "&"):
            yield words
            words = []
        elif words or not re.match(r"[A-Z_]+=", word):
            words.append(word)


@pytest.mark.parametrize("words", [pytest.param(words, id=where) for where, words in commands("wakeful")])
def test_wakeful_takes_these_arguments(words: list[str]) -> None:
    name, *rest = words
    command = load_command(name)
    if hasattr(command, "commands"):  # of its own
        assert rest[0] in command.commands
        command, name, rest = command.commands[rest[0]], rest[0], rest[1:]
    command.make_context(name, rest)


@pytest.mark.parametrize("words", [pytest.param(words, id=where) for where, words in commands("make")])
def test_make_has_this_target(words: list[str]) -> None:
    targets = [word for word in words if "=" not in word]
    assert [
        target for target in targets if not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    ] == []
