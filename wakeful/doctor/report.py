"""What the checks found: each problem says what is wrong, which object it concerns, and what to do."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import computed_field

from wakeful.contract.base import Few, Wire

EXIT_ERROR = 1
EXIT_WARNING = 3
"""Of a report with nothing worse than warnings; 2 is a wrong command line."""


class Level(StrEnum):
    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """Everything works, and something will not for long, or is slow."""


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


class SetupProblem(Wire):
    """Something that is wrong with the installation."""

    level: Level
    what: str
    next: str
    """What to do, with commands between backticks."""
    about: Few[tuple[str, ...]] = ()
    """The threads, task queues, search attributes, models or packages that it concerns."""


class SetupCheck(Wire):
    """One check: what it found to be in order, its problems, or why it was skipped."""

    name: str
    summary: str = ""
    problems: Few[tuple[SetupProblem, ...]] = ()
    skipped: Few[bool] = False

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know decorated properties
    @property
    def status(self) -> CheckStatus:
        if self.skipped:
            return CheckStatus.SKIPPED
        if not self.problems:
            return CheckStatus.OK
        return CheckStatus.ERROR if _has_error(self.problems) else CheckStatus.WARNING


class SetupReport(Wire):
    checks: tuple[SetupCheck, ...]

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know decorated properties
    @property
    def is_healthy(self) -> bool:
        return not self.problems

    @property
    def problems(self) -> tuple[SetupProblem, ...]:
        return tuple(problem for check in self.checks for problem in check.problems)

    @property
    def exit_code(self) -> int:
        if not self.problems:
            return 0
        return EXIT_ERROR if _has_error(self.problems) else EXIT_WARNING


def error(what: str, next: str, *about: str) -> SetupProblem:
    return SetupProblem(level=Level.ERROR, what=what, next=next, about=about)


def warning(what: str, next: str, *about: str) -> SetupProblem:
    return SetupProblem(level=Level.WARNING, what=what, next=next, about=about)


def skipped(name: str, why: str) -> SetupCheck:
    return SetupCheck(name=name, summary=why, skipped=True)


def _has_error(problems: Iterable[SetupProblem]) -> bool:
    return any(problem.level is Level.ERROR for problem in problems)
