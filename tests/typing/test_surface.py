"""examples/surface uses every public name, and what it defines works."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wakeful
import wakeful.testing
import wakeful.workflow
from examples.surface.agents import clerk, lasting, make_registry, partners, problems_of, with_budget
from examples.surface.rehearsal import rehearse
from examples.surface.shop import Ticket
from tests.support.processes import ROOT
from wakeful import Budget

SURFACE = ROOT / "examples/surface"
TIMEOUT_SECONDS = 300


def used_names() -> dict[str, set[str]]:
    """The names that the example imports and uses, by the module they come from."""
    used: dict[str, set[str]] = {}
    for file in SURFACE.glob("*.py"):
        tree = ast.parse(file.read_text())
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names if (alias.asname or alias.name) in read}
                used.setdefault(node.module or "", set()).update(names)
    return used


@pytest.mark.parametrize("module", [wakeful, wakeful.testing, wakeful.workflow])
def test_the_example_uses_every_public_name(module: object) -> None:
    exported: list[str] = getattr(module, "__all__")  # noqa: B009
    assert set(exported) - used_names()[getattr(module, "__name__")] == set()  # noqa: B009


def test_the_registry_of_the_example_is_valid(tmp_path: Path) -> None:
    registry = make_registry(sources=partners())
    assert sorted(registry.agents) == ["clerk", "courier", "florist", "night"]
    assert registry.undiscovered == ("partner",)
    assert lasting() == ["shop.seen (appends)"]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/SKILL.md").write_text("no front matter")
    assert any("SKILL.md" in problem for problem in problems_of(tmp_path))


def test_a_budget_that_makes_no_sense_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    limited = with_budget(clerk, tokens=1000, cost=0.5)
    assert limited is not None
    assert limited.budget == Budget(tokens=1000, cost=0.5)
    assert with_budget(clerk, tokens=-1, cost=0.5) is None
    assert "tokens should be greater than or equal to 0, not -1" in capsys.readouterr().out


@pytest.mark.integration
async def test_the_example_runs_offline() -> None:
    assert await rehearse() == Ticket(summary="There are 3 grinders left.")


@pytest.mark.integration
def test_the_tests_of_the_example_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "examples/surface"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
