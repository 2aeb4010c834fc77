"""Leave out of a failing schedule whatever is not needed for it to fail."""

from collections.abc import Callable, Sequence

from tests.simulation.schedule import Result, repeat
from tests.simulation.world import Options


def minimised(
    result: Result, *, options: Options | None = None, progress: Callable[[int, int], None] = lambda _done, _left: None
) -> list[str]:
    """The fewest moves that this finds with which the schedule fails for the same reason; the calm end follows them."""
    wanted = result.problem
    tries = 0

    def fails(keys: Sequence[str]) -> bool:
        nonlocal tries
        tries += 1
        progress(tries, len(keys))
        return repeat(result.seed, keys, options=options).problem == wanted

    keys = list(result.moves[: result.wild] if result.wild else result.moves)
    if not fails(keys):
        return keys  # it does not depend on these moves alone
    size = max(1, len(keys) // 2)
    while True:
        shorter = _without_chunks(keys, size, fails)
        if len(shorter) == len(keys) and size == 1:
            return keys
        keys = shorter
        size = max(1, size // 2)


def _without_chunks(keys: list[str], size: int, fails: Callable[[Sequence[str]], bool]) -> list[str]:
    start = 0
    while start < len(keys):
        without = keys[:start] + keys[start + size :]
        if fails(without):
            keys = without
        else:
            start += size
    return keys
