"""The awaken runtime's own test of its resolver, under its name."""

import pytest

from wakeful import Agent, ConfigurationError, Registry


def test_resolver_returns_ref() -> None:
    """An unknown agent is reported with the registered ones."""
    with pytest.raises(ConfigurationError, match="agent not found: 'b'; registered: a"):
        Registry(agents=[Agent(id="a")]).resolve("b")
