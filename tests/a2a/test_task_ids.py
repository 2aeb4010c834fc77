"""Task ids, which clients keep: their spelling never changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.a2a.task_ids import context_id, task_id, thread_of


def test_the_spelling_of_ids_never_changes() -> None:
    assert task_id("t-1", "m1") == "t-1.ca0df2c95aa144c1d0ff"
    assert task_id("a b/ü:1%", "m1") == "a=20b=2F=C3=BC=3A1=25.ca0df2c95aa144c1d0ff"
    assert context_id("clerk", "m1", b"hello") == "a2a-38783073e3d96a9fb2e0fd25"


@given(st.text(min_size=1).filter(lambda text: text.isprintable()), st.text())
def test_a_task_id_names_its_thread_and_fits_into_a_path(thread_id: str, message_id: str) -> None:
    id = task_id(thread_id, message_id)
    assert thread_of(id) == thread_id
    assert not set("/:%?# ") & set(id)


@pytest.mark.parametrize("id", ["", "t", "t.", f".{'0' * 20}", f"t/1.{'0' * 20}", f"=FF.{'0' * 20}", f"=74.{'0' * 20}"])
def test_what_is_no_task_id_names_no_thread(id: str) -> None:
    assert thread_of(id) is None
