"""How `wakeful doctor` shows its report."""

import textwrap
from collections.abc import Iterator
from itertools import groupby

from wakeful.cli.terminal.text import printable
from wakeful.client.diagnosis.wording import counted
from wakeful.doctor.report import CheckStatus, Level, SetupCheck, SetupReport

MARKS = {CheckStatus.OK: "✓", CheckStatus.WARNING: "!", CheckStatus.ERROR: "✗", CheckStatus.SKIPPED: "·"}
INDENT = "    "
WIDTH = 110


def report_lines(report: SetupReport, *, width: int = WIDTH) -> Iterator[str]:
    """A line per check, with its problems and what to do about each, and the sum of it."""
    widest = max(len(check.name) for check in report.checks)
    for why, group in groupby(report.checks, key=lambda check: check.summary if check.skipped else None):
        checks = list(group)
        if why is None:
            for check in checks:
                yield from _check_lines(check, widest, width)
        else:
            names = ", ".join(check.name for check in checks)
            yield from _wrapped(f"{names:{widest}}  not checked: {why}", width, "· ", " " * (widest + 4))
    yield ""
    yield _sum(report)


def _check_lines(check: SetupCheck, widest: int, width: int) -> Iterator[str]:
    first = f"{MARKS[check.status]} {check.name:{widest}}"
    if not check.problems:
        yield f"{first}  {printable(check.summary)}".rstrip()
        return
    yield first.rstrip()
    for problem in check.problems:
        yield from _wrapped(printable(problem.what), width, INDENT, INDENT)
        yield from _wrapped(printable(problem.next), width, f"{INDENT}→ ", f"{INDENT}  ")


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    """Lines of text; no word is broken, so that ids and options can be copied."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _sum(report: SetupReport) -> str:
    made = [check for check in report.checks if not check.skipped]
    left = len(report.checks) - len(made)
    others = f", {left} not made" if left else ""
    checks = f"{counted(len(made), 'check')}{others}"
    errors = sum(problem.level is Level.ERROR for problem in report.problems)
    warnings = len(report.problems) - errors
    if not report.problems:
        return f"healthy: {checks}"
    found = [counted(errors, "problem")] if errors else []
    found += [counted(warnings, "warning")] if warnings else []
    return f"{' and '.join(found)} in {checks}"
