"""How many modules of the loop a reader passes who follows one fact: the grain must not get finer again."""

from benchmarks.grain import childs_end, decision, one_tool_run


def test_a_run_with_one_tool_call_passes_at_most_fifteen_modules_of_the_loop() -> None:
    assert one_tool_run().modules <= 15


def test_a_childs_end_passes_at_most_ten() -> None:
    assert childs_end().modules <= 10


def test_a_decision_passes_at_most_ten() -> None:
    assert decision().modules <= 10
