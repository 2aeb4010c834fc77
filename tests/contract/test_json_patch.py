"""JSON Patch: operations of RFC 6902 on a copy of the document."""

import pytest
from pydantic import JsonValue

from wakeful.contract.json_patch import patched, pointer

DOCUMENT: JsonValue = {"a": {"b": [1, 2]}, "c/d~": "slash"}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/n", "value": None}, {"a": {"b": [1, 2]}, "c/d~": "slash", "n": None}),
        ({"op": "add", "path": "/a/b/1", "value": 9}, {"a": {"b": [1, 9, 2]}, "c/d~": "slash"}),
        ({"op": "add", "path": "/a/b/-", "value": 9}, {"a": {"b": [1, 2, 9]}, "c/d~": "slash"}),
        ({"op": "add", "path": "", "value": 9}, 9),
        ({"op": "replace", "path": "", "value": 9}, 9),
        ({"op": "replace", "path": "/a/b/0", "value": [3]}, {"a": {"b": [[3], 2]}, "c/d~": "slash"}),
        ({"op": "remove", "path": "/c~1d~0"}, {"a": {"b": [1, 2]}}),
        ({"op": "remove", "path": "/a/b/0"}, {"a": {"b": [2]}, "c/d~": "slash"}),
        ({"op": "move", "from": "/a/b", "path": "/b"}, {"a": {}, "b": [1, 2], "c/d~": "slash"}),
        ({"op": "copy", "from": "/a/b/0", "path": "/c~1d~0"}, {"a": {"b": [1, 2]}, "c/d~": 1}),
        ({"op": "test", "path": "/a/b", "value": [1, 2]}, DOCUMENT),
    ],
)
def test_an_operation_changes_a_copy_of_the_document(operation: JsonValue, expected: JsonValue) -> None:
    assert patched(DOCUMENT, [operation]) == expected
    assert DOCUMENT == {"a": {"b": [1, 2]}, "c/d~": "slash"}


@pytest.mark.parametrize(
    "operation",
    [
        "add",
        {"op": "add", "value": 1},
        {"op": "add", "path": "/n"},
        {"op": "add", "path": "n", "value": 1},
        {"op": "add", "path": 7, "value": 1},
        {"op": "add", "path": "/a/b/3", "value": 1},
        {"op": "add", "path": "/c~1d~0/x", "value": 1},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "replace", "path": "/a/b/-", "value": 1},
        {"op": "remove", "path": "/a/b/2"},
        {"op": "test", "path": "/a/b", "value": []},
        {"op": "merge", "path": "/a"},
    ],
)
def test_an_operation_that_does_not_fit_says_which_it_is(operation: JsonValue) -> None:
    fits: JsonValue = {"op": "test", "path": "", "value": DOCUMENT}
    with pytest.raises(ValueError, match="operation 2 of the patch"):
        patched(DOCUMENT, [fits, operation])


def test_the_path_of_a_member_is_escaped() -> None:
    path = pointer("a", "c/d~")
    assert (path, patched({"a": {}}, [{"op": "add", "path": path, "value": 1}])) == ("/a/c~1d~0", {"a": {"c/d~": 1}})
