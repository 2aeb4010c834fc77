"""How a diagnosis is worded: lengths of time, clock times, and the commands that a person types."""

import shlex
from datetime import UTC, datetime

LONGEST = 400


def duration(seconds: float) -> str:
    """A length of time in its two biggest units, as finely as a person needs who waits: `42s`, `2m14s`, `2h05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def clock(at: int, now: int) -> str:
    """A time of day, with its date if that is another."""
    moment, today = _utc(at), _utc(now)
    return f"{moment:%H:%M:%S} UTC" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M} UTC"


def ago(at: int, now: int) -> str:
    return f"{duration((now - at) / 1000)} ago ({clock(at, now)})"


def lasting(since: int | None, now: int) -> str:
    """` for 2m14s (since 14:02:11 UTC)`; nothing if nobody knows since when."""
    return "" if since is None else f" for {duration((now - since) / 1000)} (since {clock(since, now)})"


def since_then(since: int | None, now: int) -> str:
    """` since 14:02:11 UTC (2m14s)`, for what has happened more than once."""
    return "" if since is None else f" since {clock(since, now)} ({duration((now - since) / 1000)})"


def until(at: int, now: int) -> str:
    """`in 14s (14:02:11 UTC)`, or `now`."""
    return f"in {duration((at - now) / 1000)} ({clock(at, now)})" if at > now else "now"


def seconds(length: float) -> str:
    """A timeout as it was written."""
    return f"{length:g}s" if length < 600 else duration(length)


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def plain(text: str) -> str:
    """What somebody said, in one line and not too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 1]}…"


def said(text: str) -> str:
    """The same within a sentence: without the stop at its end."""
    return plain(text).rstrip(".")


def wakeful(verb: str, *targets: str) -> str:
    """A command of ours; after `--` nothing is taken for an option, whatever a thread is called."""
    end_of_options = ["--"] if any(target.startswith("-") for target in targets) else []
    return shlex.join(["wakeful", verb, *end_of_options, *targets])


def start_worker(queue: str, default: str) -> str:
    named = [] if queue == default else ["--task-queue", queue]
    return shlex.join(["wakeful", "worker", "--app", "module:registry", *named])


def go_on(thread_id: str) -> str:
    return wakeful("send", thread_id, "Please go on.")


def temporal(*words: str) -> str:
    return shlex.join(["temporal", *words])


def code(command: str) -> str:
    return f"`{command}`"


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
