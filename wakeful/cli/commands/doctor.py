"""`wakeful doctor`: what is wrong with an installation, and what to do about it."""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

import typer

from wakeful.cli import options
from wakeful.cli.process import run

if TYPE_CHECKING:
    from wakeful.doctor.report import SetupProblem, SetupReport

COMMAND = re.compile("`((?:wakeful|temporal) [^`]+)`")


def doctor(
    app: options.OptionalAppOption = None,
    agents: options.AgentsOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Check the installation, from Temporal to the models.

    It says what to do about each problem. Run it where your workers run, with their --app and environment. Exits with 1
    if something is wrong, with 3 if there is nothing worse than warnings.
    """
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.doctor_lines import WIDTH, report_lines
    from wakeful.connection import Address
    from wakeful.doctor.examination import Installation, examine

    # The report says what the SDK would log, and more briefly.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    registry = None
    if app or agents:
        from wakeful.worker import load_registry  # it imports everything that a worker needs

        registry = load_registry(app or None, agent_files=agents or ())
    where = Address(address=address, namespace=namespace, client=client_factory)
    report = run(examine(Installation(where, registry, task_queue)))
    report = with_cluster_options(report, options.Cluster(address, namespace, client_factory))
    if as_json:
        print(report.model_dump_json())
    else:
        paint = colours_of(sys.stdout)
        width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
        for line in report_lines(report, width=width):
            print(paint.marked(line))
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def with_cluster_options(report: SetupReport, cluster: options.Cluster) -> SetupReport:
    """The report, with commands that reach the same cluster as this one."""

    def completed(problem: SetupProblem) -> SetupProblem:
        return problem.model_copy(
            update={"next": COMMAND.sub(lambda found: _completed(found[1], cluster), problem.next)}
        )

    checks = [
        check.model_copy(update={"problems": tuple(map(completed, check.problems))}) if check.problems else check
        for check in report.checks
    ]
    return report.model_copy(update={"checks": tuple(checks)})


def _completed(command: str, cluster: options.Cluster) -> str:
    words = shlex.split(command)
    if words[:2] == ["wakeful", "dev"] or "--address" in words:
        return f"`{command}`"
    if "-n" in words:  # Temporal's commands about namespaces name theirs
        cluster = options.Cluster(cluster.address)
    return f"`{cluster.completing(command)}`"
