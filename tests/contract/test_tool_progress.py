"""The progress of a call has its place in the tree of calls and runs."""

from wakeful.contract.tool_progress import progress_snapshot


def test_a_call_of_a_sub_agent_is_below_the_call_that_started_it() -> None:
    """B-241"""
    place = {"thread_id": "t/child", "run_id": "r1", "parent_call_id": "1-1", "parent_run_id": "r0"}
    shown = progress_snapshot("2-1", "build", "running", {"progress": 0.5}, **place)
    assert shown.content == {
        "schema": "tool-call-progress.v1",
        "node_id": "tool_call:2-1",
        "parent_node_id": "tool_call:1-1",
        "call_id": "2-1",
        "tool_name": "build",
        "status": "running",
        "progress": 0.5,
        **place,
    }
    root = progress_snapshot("2-1", "build", "done", {}, thread_id="t", run_id="r1").model_dump()["content"]
    assert (root["parent_node_id"], "parent_call_id" in root, "parent_run_id" in root) == ("run:r1", False, False)
