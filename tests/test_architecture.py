"""The diagram in docs/architecture.md is the table of stages: `python -m tests.test_architecture` writes it anew."""

import re
from pathlib import Path

from wakeful.loop.machine.transitions import STAGE_EDGES, STAGES

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
DIAGRAM = re.compile(r"(<!-- stages:[^\n]*-->\n```mermaid\n).*?(```\n<!-- end of stages -->)", re.DOTALL)


def diagram() -> str:
    """The stages by the status that people see, and their edges."""
    lines = ["stateDiagram-v2", "  direction LR", "  [*] --> idle"]
    for before, follows in STAGE_EDGES.items():
        lines += [f"  {before} --> {after}" for after in STAGES if after in follows]
    lines += ["  done --> [*]: run mode, or closed"]
    statuses = sorted({status.value for status in STAGES.values()})
    for status in statuses:
        names = ", ".join(stage for stage, shown in STAGES.items() if shown.value == status)
        first = next(stage for stage in STAGES if STAGES[stage].value == status)
        lines += [f"  note right of {first}", f"    status {status}: {names}", "  end note"]
    return "\n".join(lines) + "\n"


def test_the_diagram_of_stages_is_the_table() -> None:
    found = DIAGRAM.search(PAGE.read_text())
    assert found is not None
    assert found[0] == f"{found[1]}{diagram()}{found[2]}", "run `python -m tests.test_architecture`"


if __name__ == "__main__":
    PAGE.write_text(DIAGRAM.sub(lambda found: f"{found[1]}{diagram()}{found[2]}", PAGE.read_text()))
