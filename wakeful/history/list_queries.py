"""The spelling of Temporal's list queries."""

from collections.abc import Iterator, Sequence


def quoted(text: str) -> str:
    """A text as Temporal's list queries spell it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


IDS_PER_QUERY = 50
"""Ids in one condition: a query that is much longer, the server or a database behind it would reject."""


def any_of(field: str, values: Sequence[str]) -> Iterator[str]:
    """Conditions that together hold for a field with one of these values, as many in each as a query takes."""
    for start in range(0, len(values), IDS_PER_QUERY):
        yield f"{field} IN ({', '.join(map(quoted, values[start : start + IDS_PER_QUERY]))})"
