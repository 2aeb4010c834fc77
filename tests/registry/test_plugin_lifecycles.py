"""Setup and shutdown of plugins in a worker."""

import pytest

from wakeful import Plugin
from wakeful.registry.plugin_lifecycles import PluginLifecycles


async def test_plugins_are_set_up_in_order_and_shut_down_in_reverse() -> None:
    calls: list[str] = []

    class Server(Plugin):
        def __init__(self, name: str, *, fails: bool = False) -> None:
            self.name, self.fails = name, fails

        async def setup(self) -> None:
            calls.append(f"+{self.name}")
            if self.fails:
                raise ConnectionError(self.name)

        async def shutdown(self) -> None:
            calls.append(f"-{self.name}")

    async with PluginLifecycles().running([Server("a"), Server("b")]):
        calls.append("work")
    assert calls == ["+a", "+b", "work", "-b", "-a"]
    calls.clear()
    with pytest.raises(ConnectionError):
        async with PluginLifecycles().running([Server("a"), Server("b", fails=True), Server("c")]):
            calls.append("work")
    assert calls == ["+a", "+b", "-a"]
