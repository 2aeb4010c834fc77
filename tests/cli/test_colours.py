"""Colours are for people, and only if they want them."""

import pytest

from wakeful.cli.terminal.colours import Colours, colours_enabled


@pytest.mark.parametrize(
    ("environ", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_the_environment_and_the_terminal_enable_colours(environ: dict[str, str], terminal: bool, wanted: bool) -> None:
    assert colours_enabled(environ, terminal=terminal) is wanted


def test_a_line_is_known_by_its_mark() -> None:
    colours = Colours(on=True)
    assert colours.marked("✓ add: 5") == "\x1b[32m✓\x1b[0m add: 5"
    assert colours.marked("  ✗ no") == "  \x1b[31m✗\x1b[0m no"
    assert colours.marked("· thinking") == "\x1b[2m· thinking\x1b[0m"
    assert colours.marked("!important") == "!important"
    assert colours.marked("") == ""


def test_a_status_has_quiet_labels() -> None:
    colours = Colours(on=True)
    assert colours.labelled("status   done: idle") == "\x1b[2mstatus\x1b[0m   done: idle"
    assert colours.labelled("  approve:  wakeful approve t/c") == "  approve:  wakeful approve t/c"
    assert colours.labelled("waits for a decision: May I?") == "\x1b[33mwaits for a decision: May I?\x1b[0m"


def test_without_colours_everything_stays_as_it_is() -> None:
    plain = Colours(on=False)
    lines = ["✓ add: 5", "· thinking", "status   done"]
    assert [plain.marked(line) for line in lines] == lines
    assert [plain.labelled(line) for line in lines] == lines
    assert (plain.dim("x"), plain.bold("x")) == ("x", "x")
