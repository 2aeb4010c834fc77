"""The pytest plugin and docs/testing-agents.md, as a user has them: in a project and a process of its own."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_provider.script import Answer, Call
from tests.support.fake_provider.server import fake_provider
from tests.support.processes import ROOT

PAGE = (ROOT / "docs/testing-agents.md").read_text()
FILES = dict(re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
AUTO = "--asyncio-mode=auto"
BOUND_SECONDS = 120


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the agents of the README."""
    for name in ("hello.py", "shop.py"):
        (tmp_path / name).write_text((ROOT / "examples" / name).read_text())
    return tmp_path


def run_pytest(project: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir=.", *arguments]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "OPENAI_"))}
    return subprocess.run(
        command, cwd=project, env={**inherited, **environ}, capture_output=True, text=True, timeout=BOUND_SECONDS
    )


@pytest.mark.integration
async def test_the_code_of_the_page_passes(project: Path) -> None:
    """Its tests, the recorded ones first with a provider's API, then without."""
    for name, code in FILES.items():
        (project / name).write_text(code)
    answers = Answer(calls=(Call("c1", "stock", '{"item": "espresso machine"}'),)), Answer(text="There are 3.")
    async with fake_provider(validate=False) as fake:
        fake.will(*answers)
        recording = {"WAKEFUL_RECORD": "1", "OPENAI_API_KEY": "sk-canary", "OPENAI_BASE_URL": fake.responses_url}
        recorded = await asyncio.to_thread(run_pytest, project, AUTO, "test_recorded.py", **recording)
        assert (recorded.returncode, len(fake.asked)) == (0, 2), recorded.stdout
    assert "sk-canary" not in (project / "stock.json").read_text()
    run = await asyncio.to_thread(run_pytest, project, AUTO)
    assert run.returncode == 0, run.stdout
    assert f"{''.join(FILES.values()).count('def test_')} passed" in run.stdout


@pytest.mark.integration
async def test_the_page_shows_what_a_script_that_is_over_says(project: Path) -> None:
    code = FILES["test_stock.py"].replace(', say("We have {result} of them.")', "")
    (project / "test_stock.py").write_text(code)
    run = await asyncio.to_thread(run_pytest, project, AUTO)
    (shown,) = re.findall(r"```text\nwakeful.authoring(.*?)```", PAGE, re.DOTALL)
    printed = " ".join(re.sub(r"^E +", "", run.stdout, flags=re.MULTILINE).split())
    assert run.returncode == 1
    assert " ".join(shown.split()) in printed


STRICT = """
import pytest
from hello import registry
from wakeful.testing import ScriptedModel, say


@pytest.mark.{mark}
@pytest.mark.parametrize("n", [1, 2])
async def test_hello(wakeful_runtime, n):
    async with wakeful_runtime(registry.copy(models={{"default": ScriptedModel([say("hi")])}})) as client:
        assert (await client.run("buyer", "hello", thread_id="same")).response == "hi"
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mark", "arguments"),
    [("asyncio", ["--asyncio-mode=strict"]), ("anyio", ["-p", "no:asyncio"]), ("asyncio", [AUTO, "-n", "2"])],
    ids=["pytest-asyncio strict", "anyio", "xdist"],
)
async def test_the_fixture_works_however_tests_are_run(project: Path, mark: str, arguments: list[str]) -> None:
    code = STRICT.format(mark=mark)
    if mark == "anyio":
        code += "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    (project / "test_hello.py").write_text(code)
    run = await asyncio.to_thread(run_pytest, project, *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


async def test_pytest_imports_nothing_of_wakeful_but_the_plugin_before_a_test_needs_it(project: Path) -> None:
    (project / "test_nothing.py").write_text(
        "import sys\n\n\ndef test_nothing(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.hasplugin('wakeful')\n"
        "    assert not {'temporalio', 'pydantic', 'wakeful.testing'} & set(sys.modules)\n"
    )
    run = await asyncio.to_thread(run_pytest, project, "-p", "no:hypothesispytest")
    assert run.returncode == 0, run.stdout + run.stderr
