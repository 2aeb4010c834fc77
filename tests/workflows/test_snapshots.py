"""A thread that is too large to continue as new stays in its execution."""

import logging

import pytest

from tests.loop.driving import idle, snapshot_of
from wakeful.contract.base import replace
from wakeful.contract.decisions import Refusal
from wakeful_workflows import continue_as_new
from wakeful_workflows.continue_as_new import SNAPSHOT_LIMIT, Snapshots


def test_a_thread_that_is_too_large_is_not_packed_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continue_as_new, "logger", logging.getLogger("outside of a workflow"))
    long = replace(idle().thread, refusals=(Refusal(signal="submit", reason="x" * SNAPSHOT_LIMIT, at=1),))
    snapshots = Snapshots()
    with caplog.at_level(logging.WARNING):
        assert [snapshots.pack(snapshot_of(long)) for _ in range(2)] == [None, None]
        assert snapshots.pack(snapshot_of(idle().thread)) is not None
    said = [record.getMessage() for record in caplog.records]
    assert [text.startswith("the thread is too large for continue-as-new") for text in said] == [True]
