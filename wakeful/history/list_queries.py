"""The spelling of Temporal's list queries."""


def quoted(text: str) -> str:
    """A text as Temporal's list queries spell it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
