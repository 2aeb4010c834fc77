"""A Temporal reset counts steps again from the reset point: the lineage tells the new calls from the undone ones."""

from tests.loop.driving import Driver, asks, call, ok
from wakeful.loop.machine.commands import Infer
from wakeful.loop.machine.facts import HistoryReset


def test_every_inference_after_a_reset_has_the_lineage() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.feed(HistoryReset("7f3a2c"))
    assert driver.last.commands == ()
    driver.tool("c1", ok("sunny"))
    assert [command.lineage for command in driver.commands_of(Infer)] == ["", "7f3a2c"]


def test_the_next_reset_begins_another_lineage() -> None:
    driver = Driver()
    driver.feed(HistoryReset("7f3a2c"))
    driver.feed(HistoryReset("0b1c2d"))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    assert driver.commands_of(Infer)[-1].lineage == "0b1c2d"
    assert driver.thread.counters.lineage == "0b1c2d"
