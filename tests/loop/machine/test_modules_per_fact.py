"""How many modules of the loop handle one fact: a reader must not have to follow more of them."""

from benchmarks.grain import childs_end, decision, one_tool_run


def test_a_run_with_one_tool_call_uses_at_most_fifteen_modules_of_the_loop() -> None:
    assert one_tool_run().modules <= 15


def test_the_end_of_a_child_uses_at_most_eleven_modules() -> None:
    assert childs_end().modules <= 11


def test_a_decision_uses_at_most_ten_modules() -> None:
    assert decision().modules <= 10
