"""mypy --strict and pyright's strict mode accept code against the wheel, in an environment with nothing but pytest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.integration

TIMEOUT_SECONDS = 900
"""Pyright checks Temporal's SDK and pydantic, too, on a machine that may be busy."""

PYRIGHT = "pyright[nodejs]==1.1.414"
"""Not a dependency for development: it brings all of Node."""

PLUGIN = """
[mypy]
strict = true
plugins = pydantic.mypy
[pydantic-mypy]
init_forbid_extra = true
init_typed = true
warn_required_dynamic_aliases = true
"""


def run(*command: str | Path, cwd: Path) -> None:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project: the example and what type checkers infer, beside an environment with the wheel."""
    folder = tmp_path_factory.mktemp("project")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    uv = Path(sys.executable).with_name("uv")
    run(uv, "venv", "--quiet", "--python", sys.executable, folder / ".venv", cwd=folder)
    tools = ("mypy", PYRIGHT, "pytest")
    constraints = ("-c", ROOT / "constraints.txt")
    run(uv, "pip", "install", "--quiet", "--python", folder / ".venv", *constraints, wheel, *tools, cwd=folder)
    shutil.copytree(
        ROOT / "examples/surface", folder / "examples/surface", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "tests/typing/asserted.py", folder / "asserted.py")
    return folder


def test_mypy_strict_accepts_it(project: Path) -> None:
    checked = ("-p", "examples.surface", "-m", "asserted")
    run(project / ".venv/bin/mypy", "--strict", "--warn-unused-ignores", *checked, cwd=project)


def test_mypy_with_the_strictest_settings_of_pydantic_s_plugin_accepts_it(project: Path) -> None:
    (project / "plugin.ini").write_text(PLUGIN)
    run(project / ".venv/bin/mypy", "--config-file", "plugin.ini", "-p", "examples.surface", cwd=project)


def test_pyright_strict_accepts_it(project: Path) -> None:
    settings = {"include": ["examples", "asserted.py"], "typeCheckingMode": "strict", "venvPath": ".", "venv": ".venv"}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    run(project / ".venv/bin/pyright", cwd=project)
