"""The JSON of the pages on tools and clients in other languages is what the contract reads and writes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from wakeful.contract.requests import (
    parse_cancel,
    parse_decisions,
    parse_edit,
    parse_outcomes,
    parse_page,
    parse_request,
    parse_revoke,
    parse_submission,
    parse_withdraw,
)
from wakeful.contract.runs import RunResult
from wakeful.contract.tools import ToolCallInput, ToolStatus, tool_outcome

DOCS = Path(__file__).parents[2] / "docs"
TOOLS, CLIENTS = (DOCS / "foreign-tools.md").read_text(), (DOCS / "foreign-clients.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def in_row(page: str, name: str) -> str:
    """The JSON of a table's row."""
    (written,) = re.findall(rf"^\| `{name}` \| `(\{{.*?\}})`", page, re.MULTILINE)
    return str(written)


def assert_reads(kind: type[BaseModel], written: str) -> None:
    """Every field that is shown exists, and has this name."""
    shown, read = json.loads(written), kind.model_validate_json(written).model_dump(mode="json")
    assert shown.items() <= {name: _as_shown(value, shown.get(name)) for name, value in read.items()}.items()


def _as_shown(value: object, shown: object) -> object:
    if not isinstance(value, dict) or not isinstance(shown, dict):
        return value
    return {name: value.get(name) for name in shown}


def test_the_input_of_a_tool_is_as_the_page_shows_it() -> None:
    assert_reads(ToolCallInput, blocks(TOOLS, "json")[0])


def test_the_results_of_the_page_are_outcomes() -> None:
    success, pending = (tool_outcome("refund", json.loads(written)).result for written in blocks(TOOLS, "json")[1:])
    assert (success.status, success.data, success.text) == (ToolStatus.SUCCESS, {"refunded": 20}, "Refunded 20.")
    assert pending.status is ToolStatus.PENDING
    assert pending.suspension is not None
    assert pending.suspension.pending.arguments == {"order": "7", "amount": 20}


@pytest.mark.parametrize("written", blocks(CLIENTS, "json start"))
def test_the_requests_of_the_page_start_a_run(written: str) -> None:
    assert parse_request(json.loads(written)).agent_id == "clerk"


@pytest.mark.parametrize(
    ("name", "parse"),
    [
        ("submit", parse_submission),
        ("decide", parse_decisions),
        ("cancel", parse_cancel),
        ("edit", parse_edit),
        ("withdraw", parse_withdraw),
        ("revoke", parse_revoke),
        ("transcript", parse_page),
        ("events", parse_page),
        ("outcomes", parse_outcomes),
        ("queued", parse_page),
    ],
)
def test_the_signals_and_queries_of_the_page_are_accepted(name: str, parse: Callable[[object], object]) -> None:
    parse(json.loads(in_row(CLIENTS, name)))


def test_the_result_of_a_run_is_as_the_page_shows_it() -> None:
    assert_reads(RunResult, blocks(CLIENTS, "json")[0])
