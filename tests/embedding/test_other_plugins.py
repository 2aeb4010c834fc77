"""The plugin beside those of other agent frameworks, in any order: the real packages, each in a fresh environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
PACKAGES = {
    "openai-agents": ["temporalio-openai-agents"],
    "langgraph": ["temporalio-langgraph"],
    "pydantic-ai": ["pydantic-ai-slim"],
}


@pytest.mark.parametrize("name", PACKAGES)
def test_agents_run_on_a_worker_that_has_the_plugin_of(name: str, tmp_path: Path) -> None:
    uv, python = [sys.executable, "-m", "uv"], str(tmp_path / "env" / "bin" / "python")
    install = [
        *uv,
        "pip",
        "install",
        "-q",
        "--python",
        python,
        "-c",
        "constraints.txt",
        "-e",
        ".[dev]",
        *PACKAGES[name],
    ]
    for command in ([*uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "env")], install):
        subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    # A client of the OpenAI SDK is made with the plugin, and never used.
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "unused"}
    program = [python, "tests/support/other_plugins.py", name]
    ran = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["hi", "hi"], ran.stderr
