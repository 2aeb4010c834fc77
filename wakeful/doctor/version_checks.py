"""Installed versions: what Wakeful requires, and whether the workers run the release that is installed here."""

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from wakeful.client.diagnosis.evidence import TaskQueue
from wakeful.client.diagnosis.wording import listed
from wakeful.doctor.report import SetupCheck, SetupProblem, error, warning

PACKAGE = "wakeful"
BUILD = f"{PACKAGE}-"
"""How the build id of a worker begins that was given none of its own."""

SHOWN = (PACKAGE, "temporalio", "pydantic", "httpx", "opentelemetry-sdk")

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?P<limits>[^;]*)(?P<marker>;.*)?")
_LIMIT = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9.]+)")


def check_versions(queues: Iterable[TaskQueue | str]) -> SetupCheck:
    """Whether the packages fit together, and the workers are of this release."""
    problems = [*_unfit_packages(), *_other_workers(queues)]
    shown = ", ".join(f"{name} {version(name)}" for name in SHOWN if _installed(name))
    python = ".".join(map(str, sys.version_info[:3]))
    return SetupCheck(name="versions", summary=f"{shown}, Python {python}", problems=tuple(problems))


def _unfit_packages() -> Iterator[SetupProblem]:
    for requirement in requires(PACKAGE) or ():
        match = _REQUIREMENT.fullmatch(requirement.strip())
        if match is None or match["marker"]:  # of an extra, or of another platform
            continue
        name, limits = match["name"], match["limits"].strip()
        install = f"`pip install '{name}{limits}'`"
        if (found := _installed(name)) is None:
            yield error(f"Package {name} is not installed, and Wakeful needs it.", f"{install}.", name)
        elif not fits(found, limits):
            what = f"Package {name} is installed as {found}, and Wakeful needs {limits}: it may fail in any place."
            yield error(what, f"{install}, here and where the workers run.", name)


def fits(found: str, limits: str) -> bool:
    """Whether a version is within limits such as `>=1.35,<2`."""
    own = _numbers(found)
    for sign, written in _LIMIT.findall(limits):
        limit = _numbers(written)
        width = max(len(own), len(limit))
        left, right = own + (0,) * (width - len(own)), limit + (0,) * (width - len(limit))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }[sign]
        if not holds:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: those of a pre-release count as its release."""
    numbers = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _other_workers(queues: Iterable[TaskQueue | str]) -> Iterator[SetupProblem]:
    here = f"{BUILD}{version(PACKAGE)}"
    builds = {
        poller.build
        for queue in queues
        if isinstance(queue, TaskQueue)
        for poller in queue.pollers
        if poller.build.startswith(BUILD) and poller.build != here
    }
    if builds:
        others = listed([build.removeprefix(BUILD) for build in sorted(builds)])
        yield warning(
            f"Workers run Wakeful {others}, and {version(PACKAGE)} is installed here: commands that read threads may "
            "have to ask a worker.",
            "Install the release of the workers here, or deploy this one; run `wakeful replay` first.",
            *sorted(builds),
        )
