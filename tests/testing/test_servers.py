"""The server that tests share, and their namespaces."""

from pathlib import Path

import pytest

from tests.testing.desk import desk
from wakeful import ConfigurationError, ConnectionFailed
from wakeful.connection import free_port
from wakeful.testing import WakefulRuntime, fresh_namespace, say
from wakeful.testing.servers import shared_server


async def test_a_test_does_not_reach_the_cluster_that_the_environment_names(
    wakeful_runtime: WakefulRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "WAKEFUL_CLIENT"):
        monkeypatch.setenv(variable, "production")
    registry, _ = desk(say("hi"))
    async with wakeful_runtime(registry) as client:
        assert (await client.run("buyer", "hello")).response == "hi"


async def test_a_server_that_does_not_answer_is_an_error() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionFailed, match=f"cannot reach Temporal at {address}"):
        await fresh_namespace(address)


def test_a_server_that_cannot_start_raises_in_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ConfigurationError, match="the `temporal` command is missing"), shared_server():
        pytest.fail("it has started")
