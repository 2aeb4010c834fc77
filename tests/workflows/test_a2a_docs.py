"""The code in docs/a2a.md runs, and its settings are the ones that there are."""

import re
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.support.a2a_peer import running_peer
from tests.support.processes import ROOT
from wakeful import Registry
from wakeful.client.client import Client
from wakeful.worker import running_worker

PAGE = (ROOT / "docs/a2a.md").read_text()
SECTION = PAGE.partition("\n## Call remote agents\n")[2].partition("\n## ")[0]


async def test_the_code_that_calls_a_remote_agent_runs(
    temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_peer(token="s3cret") as peer:
        monkeypatch.setenv("WEATHER_URL", peer.url)
        monkeypatch.setenv("WEATHER_TOKEN", "s3cret")
        page: dict[str, Any] = {"__name__": "page"}
        exec("\n".join(re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)), page)
        settings = worker_settings(task_queue=thread_id, sweep_interval=None)
        async with running_worker(temporal, page["registry"], settings):
            assert await page["ask"](Client(temporal, task_queue=thread_id)) == "it rains in Rome"


def test_the_agent_file_of_the_page_is_valid(tmp_path: Any) -> None:
    [toml] = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "weather.toml").write_text(toml)
    assert Registry(agent_files=[tmp_path]).resolve("weather").endpoint is not None
