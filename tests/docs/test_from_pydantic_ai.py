"""The example of docs/from-pydantic-ai.md passes, and is short."""

import re
from typing import Any

from tests.docs.snippets import of_page
from tests.support.processes import ROOT
from wakeful.testing import WakefulRuntime

PAGE = ROOT / "docs/from-pydantic-ai.md"


async def test_the_example_passes_and_has_less_than_60_lines(wakeful_runtime: WakefulRuntime) -> None:
    (example,) = [snippet for snippet in of_page(PAGE) if snippet.level == "tested"]
    names: dict[str, Any] = {"__name__": example.module}
    exec(compile(example.code, str(example), "exec"), names)
    (test,) = re.findall(r"def (test_\w+)", example.code)
    await names[test](wakeful_runtime)
    assert len([line for line in example.code.splitlines() if line]) < 60
