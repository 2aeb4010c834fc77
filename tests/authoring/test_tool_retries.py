"""Which errors of a tool are retried, and which options `@tool` refuses."""

import math
from typing import Any

import pytest

from wakeful import ConfigurationError, RetryLater, ToolError, tool
from wakeful.authoring.tool_retries import ToolRetries


def fetch() -> None:
    """Fetch."""


def test_the_delay_doubles_up_to_a_minute_and_a_tool_can_ask_for_another() -> None:
    retries = ToolRetries(limit=200, on=(OSError,), delay=0.5)
    assert [retries.wait(TimeoutError(), raised=n) for n in (1, 2, 3, 8, 200)] == [0.5, 1, 2, 60, 60]
    assert retries.wait(RetryLater("busy"), raised=2) == 1
    assert retries.wait(RetryLater("busy", after=3600), raised=2) == 3600


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError(), 1), (ToolError("no"), 1), (OSError(), 3), (RetryLater("x", after=1), 3)]
)
def test_other_errors_and_those_after_the_last_retry_are_for_the_model(error: Exception, raised: int) -> None:
    on = (Exception,) if isinstance(error, ToolError) else (OSError,)
    assert ToolRetries(limit=2, on=on).wait(error, raised=raised) is None


@pytest.mark.parametrize(
    ("options", "retries"),
    [
        ({}, ToolRetries(3)),
        ({"retries": 0}, ToolRetries(0)),
        ({"retries": 5, "retry_delay": 0.1}, ToolRetries(5, (), 0.1)),
        ({"read_only": True, "retry_on": OSError}, ToolRetries(3, (OSError,))),
        (
            {"idempotent": True, "background": True, "retry_on": [OSError, KeyError]},
            ToolRetries(3, (OSError, KeyError)),
        ),
        ({"read_only": True, "local": True}, ToolRetries(0)),
        ({"task_queue": "shop"}, ToolRetries(0)),
        ({"task_queue": "shop", "read_only": True, "retries": 2}, ToolRetries(2)),
    ],
)
def test_a_tool_has_three_retries_unless_it_says_otherwise_or_cannot_wait(
    options: dict[str, Any], retries: ToolRetries
) -> None:
    assert tool(**options)(fetch).retries == retries


def test_the_descriptor_has_only_the_retries_that_temporal_counts() -> None:
    """What is recorded of tools without a task queue is what older releases recorded."""
    assert tool(retries=5)(fetch).descriptor == tool(fetch).descriptor
    assert tool(retries=5, task_queue="shop", read_only=True)(fetch).descriptor.retries == 5


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retries": -1}, "has -1 retries: use 0 for none"),
        ({"retry_delay": math.inf}, "has a retry_delay of inf: use a number of seconds"),
        ({"retry_on": OSError}, "has retry_on: it must be read_only or idempotent, .* or it raises RetryLater"),
        ({"read_only": True, "retry_on": OSError, "retries": 0}, "has retry_on and retries=0"),
        ({"read_only": True, "retry_on": (KeyboardInterrupt,)}, "has .*KeyboardInterrupt.* in retry_on, which is not"),
        ({"read_only": True, "retry_on": ("OSError",)}, "has 'OSError' in retry_on, which is not a type"),
        ({"read_only": True, "retry_on": ToolError}, "has ToolError in retry_on: the model reads a ToolError at once"),
        ({"read_only": True, "local": True, "retries": 1}, "is local, and cannot wait for a retry"),
        ({"read_only": True, "local": True, "retry_on": OSError}, "is local, and cannot wait for a retry"),
        ({"task_queue": "shop", "retries": 1}, "has retries on its own task_queue: it must be read_only or idempotent"),
        (
            {"task_queue": "shop", "read_only": True, "retry_on": OSError},
            "has a task_queue, where errors have no Python types",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"tool 'fetch' {problem}"):
        tool(**options)(fetch)


@pytest.mark.parametrize("after", [-1, math.inf, math.nan, 31 * 86_400])
def test_a_retry_follows_within_a_month(after: float) -> None:
    with pytest.raises(ValueError, match="a retry can follow after 0 to 2,592,000 seconds"):
        RetryLater("busy", after=after)
