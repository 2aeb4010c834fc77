"""The wheel has three packages, and hides no package of another library."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_exactly_the_three_packages(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "wakeful",
        "wakeful_activities",
        "wakeful_workflows",
    }


def test_a_package_called_workflows_stays_importable_beside_ours(tmp_path: Path) -> None:
    """llama-index installs one; a `workflows/__init__.py` of ours would hide it where users' tools run."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "__init__.py").write_text("ORIGIN = 'theirs'")
    program = (
        "import worker, workflows, wakeful_workflows; print(workflows.ORIGIN, wakeful_workflows.AgentRun.__name__)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.stdout.strip(), ran.returncode) == ("theirs AgentRun", 0), ran.stderr
