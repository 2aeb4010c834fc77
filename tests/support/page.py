"""A page of the documentation as its reader takes it: what it tells to save, to change and to run, in order."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    before: str
    """The prose since the block before."""
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the block shows or changes: the one that the prose names last, just before it."""
        named = re.search(r"`([\w.]+\.\w+)`:\n\n(?:<!--.*-->\n)?$", self.before)
        return named[1] if named else None

    @property
    def commands(self) -> list["Command"]:
        """The commands of a block of a shell, each with what it prints."""
        lines = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [Command(*line.partition("\n")[::2]) for line in lines]


@dataclass(frozen=True)
class Command:
    line: str
    prints: str

    def has_printed(self, text: str) -> bool:
        """Whether this is what the page shows. `…` stands for what differs from run to run; so do durations."""
        pattern = re.escape(_without_durations(self.prints)).replace("…", ".*")
        return re.fullmatch(pattern, _without_durations(text)) is not None


def _without_durations(text: str) -> str:
    return re.sub(r" +\d+\.\d+s$", "", text.strip(), flags=re.MULTILINE)


def blocks_of(page: Path, *, since: str = "") -> list[Block]:
    """The blocks of a page, from this heading on."""
    text = page.read_text()
    found = re.finditer(r"(.*?)^```(\w+)\n(.*?)^```$", text[text.index(since) :], re.DOTALL | re.MULTILINE)
    return [Block(*each.groups()) for each in found]


def save(block: Block, folder: Path) -> None:
    """Do what the block says with its file."""
    if block.file is None:
        return
    file = folder / block.file
    file.write_text(patched(file.read_text(), block.text) if block.language == "diff" else block.text)


def patched(text: str, diff: str) -> str:
    """The text after a diff without line numbers, whose hunks are separated by `@@`."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old, new = (
            "".join(line[1:] if line[0] in f" {sign}" else line for line in lines if line[0] != other)
            for sign, other in ("-+", "+-")
        )
        assert text.count(old) == 1, f"{text.count(old)} places in\n{text}\nfor\n{old}"
        text = text.replace(old, new)
    return text
