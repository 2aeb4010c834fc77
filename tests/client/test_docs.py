"""docs/threads.md tells the truth: its examples run, and print what the page says."""

import asyncio
import re
import sys

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.integration

PAGE = (ROOT / "docs/threads.md").read_text()
EXAMPLES = re.findall(r"```python\n(import .*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=["threads", "ask"])
async def test_an_example_prints_what_the_page_says(code: str, printed: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert out.decode() == printed, err.decode()
