"""A client factory: what it is given, what it may return, and what stays of the client that it returns (B-670)."""

import dataclasses
from collections.abc import Awaitable
from pathlib import Path

import pytest
import temporalio.worker
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import CompositePayloadConverter, DataConverter, JSONPlainPayloadConverter
from temporalio.plugin import SimplePlugin

from tests.support.encrypted import Encryption
from wakeful import ConfigurationError, ConnectionFailed
from wakeful.client_factory import VARIABLE, call_factory
from wakeful.connection import Address, connect
from wakeful.contract.requests import RunRequest
from wakeful.storage import VARIABLE as STORE
from wakeful.undecodable import tolerant_client

HERE = "tests.test_client_factory"


async def lazily(address: str = "127.0.0.1:1", *, namespace: str = "default", **options: object) -> Client:
    return await Client.connect(address, namespace=namespace, lazy=True, **options)  # type: ignore[arg-type]  # a test's


async def with_default_converter(address: str, namespace: str) -> Client:
    return await lazily(address, namespace=namespace, data_converter=DataConverter(payload_codec=Encryption()))


async def without_parameters() -> Client:
    return await lazily(data_converter=pydantic_data_converter)


def awaitable() -> Awaitable[Client]:
    return lazily()


async def broken() -> Client:
    raise PermissionError("no certificate")


def text() -> str:
    return "a client"


class Plain(CompositePayloadConverter):
    """Converts what the standard library can."""

    def __init__(self) -> None:
        super().__init__(JSONPlainPayloadConverter(encoder=None))


async def without_pydantic() -> Client:
    return await lazily(data_converter=DataConverter(payload_converter_class=Plain))


async def test_what_the_options_say_reaches_the_factory_and_its_codec_stays() -> None:
    client = await call_factory(f"{HERE}:with_default_converter", {"address": "127.0.0.1:2", "namespace": "agents"})
    assert (client.service_client.config.target_host, client.namespace) == ("127.0.0.1:2", "agents")
    (payload,) = await client.data_converter.encode([RunRequest(agent_id="a", input="hello")])
    assert b"hello" not in payload.data
    assert await client.data_converter.decode([payload], [RunRequest]) == [RunRequest(agent_id="a", input="hello")]


@pytest.mark.parametrize("factory", ["without_parameters", "awaitable"])
async def test_a_factory_needs_no_parameters_and_may_return_an_awaitable(factory: str) -> None:
    assert (await call_factory(f"{HERE}:{factory}", {})).namespace == "default"


async def test_the_variable_names_a_factory_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "company_client.py"
    file.write_text(
        "from temporalio.client import Client\n"
        "async def connect(namespace):\n"
        "    return await Client.connect('127.0.0.1:1', namespace=namespace, lazy=True)\n"
    )
    monkeypatch.setenv(VARIABLE, f"{file}:connect")
    with pytest.raises(ConnectionFailed, match=r"cannot reach Temporal at 127\.0\.0\.1:1 \(namespace 'agents'\)"):
        await connect(Address(namespace="agents"))


@pytest.mark.parametrize(
    ("factory", "error", "says"),
    [
        ("connect", ConfigurationError, "--client 'connect' must be written as module:connect or path/to/file.py:conn"),
        ("nothing:connect", ConfigurationError, "--client 'nothing:connect': there is no module 'nothing' here or on"),
        (f"{HERE}:nothing", ConfigurationError, f"--client '{HERE}:nothing': 'nothing' is missing; it must be a func"),
        (f"{HERE}:HERE", ConfigurationError, f"--client '{HERE}:HERE': 'HERE' is a str; it must be a function"),
        (f"{HERE}:text", ConfigurationError, f"--client '{HERE}:text' returned a str; it must be a temporalio.client."),
        (f"{HERE}:broken", ConnectionFailed, f"--client '{HERE}:broken' failed: PermissionError: no certificate"),
        (
            f"{HERE}:without_pydantic",
            ConfigurationError,
            f"--client '{HERE}:without_pydantic': the payload converter 'Plain' does not convert pydantic models: use ",
        ),
    ],
)
async def test_a_factory_that_cannot_be_used_is_named(factory: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as raised:
        await call_factory(factory, {})
    assert str(raised.value).startswith(says)


async def test_an_option_that_the_factory_does_not_take_is_an_error() -> None:
    with pytest.raises(ConfigurationError) as raised:
        await call_factory(f"{HERE}:without_parameters", {"address": "a:1", "namespace": "n"})
    assert str(raised.value) == (
        f"--client '{HERE}:without_parameters' takes no address or namespace: leave --address and --namespace out, or "
        "add such a parameter to the function"
    )


async def test_a_payload_store_is_added_to_the_factory_s_converter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(STORE, f"dir:{tmp_path}")
    client = await call_factory(f"{HERE}:with_default_converter", {"address": "a:1", "namespace": "n"})
    assert client.data_converter.external_storage is not None
    assert isinstance(client.data_converter.payload_codec, Encryption)


async def test_the_plugins_of_a_client_configure_it_once_and_still_its_worker() -> None:
    calls: list[str] = []

    def converter(given: DataConverter | None) -> DataConverter:
        calls.append("client")
        return dataclasses.replace(given or pydantic_data_converter, payload_codec=Encryption())

    def workflows(given: object) -> list[type]:
        calls.append("worker")
        return []

    plugin = SimplePlugin("company", data_converter=converter, workflows=workflows)
    client = tolerant_client(await lazily(plugins=[plugin]))
    (copied,) = client.config()["plugins"]
    assert (calls, copied.name()) == (["client"], "company")
    assert isinstance(copied, temporalio.worker.Plugin)
    copied.configure_worker({"workflows": []})
    assert calls == ["client", "worker"]
