"""The page on limits leaves none out."""

from typing import get_args

from tests.support.processes import ROOT
from wakeful.contract.budgets import Budget
from wakeful.contract.stopping import StopCondition


def test_the_page_on_limits_compares_every_stop_condition_and_every_budget() -> None:
    table = (ROOT / "docs/bounding-runs.md").read_text().partition("## How they differ")[2]
    conditions = [condition.__name__ for condition in get_args(get_args(StopCondition)[0])]
    missing = [name for name in conditions if f"`{name}" not in table]
    assert missing + [limit for limit in Budget.model_fields if f"{limit}=" not in table] == []
