"""The steps of a thread, counted over its runs."""

from wakeful.client.branching.steps import Step, steps_of
from wakeful.contract.messages import Message, MessageMetadata, Role


def message(role: Role, run_id: str | None = None, index: int = 0) -> Message:
    metadata = MessageMetadata(run_id=run_id, step_index=index) if run_id else None
    return Message(id="m", role=role, metadata=metadata)


def test_a_step_is_an_answer_with_the_results_of_its_calls() -> None:
    messages = [
        message(Role.USER),
        message(Role.ASSISTANT, "r", 1),
        message(Role.TOOL, "r", 1),
        message(Role.TOOL, "r", 1),
        message(Role.ASSISTANT, "r", 2),
    ]
    assert steps_of(messages) == (Step(1, "r", 1, start=1, end=4), Step(2, "r", 2, start=4, end=5))


def test_steps_are_counted_over_all_runs_of_a_thread() -> None:
    messages = [
        message(Role.USER),
        message(Role.ASSISTANT, "r", 1),
        message(Role.USER),
        message(Role.ASSISTANT, "r.2", 1),
    ]
    assert [(step.number, step.run_id, step.start) for step in steps_of(messages)] == [(1, "r", 1), (2, "r.2", 3)]


def test_messages_that_the_loop_added_between_two_steps_belong_to_neither() -> None:
    """A step whose answer was discarded has left no message, and is not counted."""
    messages = [
        message(Role.USER),
        message(Role.ASSISTANT, "r", 1),
        message(Role.USER, "r", 1),
        message(Role.ASSISTANT, "r", 3),
    ]
    assert steps_of(messages) == (Step(1, "r", 1, start=1, end=2), Step(2, "r", 3, start=3, end=4))


def test_a_thread_without_an_answer_has_no_steps() -> None:
    assert steps_of([message(Role.USER)]) == ()
