"""What a misspelt name was probably meant to be: the one helper behind every "did you mean"."""

import difflib
from collections.abc import Iterable, Mapping

SIMILARITY = 0.6
"""How similar two names must be, by difflib, for one to be a likely misspelling of the other."""

NO_SYNONYMS: Mapping[str, str] = {}


def nearest(name: str, known: Iterable[str], *, similarity: float = SIMILARITY) -> str | None:
    """The known name that is most like this one, whatever their case; None if none is like it."""
    by_folded = {each.casefold(): str(each) for each in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=similarity)
    return by_folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'instructions'?`, to follow a message; nothing if no known name is like this one."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


def registered(name: str, known: Iterable[str]) -> str:
    """`registered: buyer, seller; did you mean 'buyer'?`, to follow a message about a name that is not registered."""
    names = sorted(known)
    return f"registered: {', '.join(names) or 'none'}{did_you_mean(name, names)}"


def option_problem(
    option: str, value: object, options: Iterable[str], *, synonyms: Mapping[str, str] = NO_SYNONYMS
) -> str | None:
    """Why an option cannot have this value; None if it is one of the options.

    Args:
        synonyms: what people write, and the option that they mean.
    """
    known = [str(each) for each in options]
    if value in known:
        return None
    meant = did_you_mean(synonyms.get(value, value), known) if isinstance(value, str) else ""
    *most, last = map(repr, known)
    return f"{option} should be {', '.join(most)} or {last}, not {value!r}{meant}"
