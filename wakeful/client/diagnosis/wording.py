"""How a diagnosis is worded: durations, times of day, and the commands that a person types."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from wakeful.contract.applied_decisions import DecisionAction
from wakeful.contract.views import Sent, SentKind

MAX_NAMED = 3
"""Things in a row that a sentence names."""

MAX_QUOTE = 400
"""Characters of a message that a diagnosis quotes."""


def duration(seconds: float) -> str:
    """A duration in its two largest units, as precise as a person needs: `42s`, `2m14s`, `2h05m`."""
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
    """` for 2m14s (since 14:02:11 UTC)`; empty if the time is not known."""
    return "" if since is None else f" for {duration((now - since) / 1000)} (since {clock(since, now)})"


def since_then(since: int | None, now: int) -> str:
    """` since 14:02:11 UTC (2m14s)`, for something that has happened more than once."""
    return "" if since is None else f" since {clock(since, now)} ({duration((now - since) / 1000)})"


def until(at: int, now: int) -> str:
    """`in 14s (14:02:11 UTC)`, or `now`."""
    return f"in {duration((at - now) / 1000)} ({clock(at, now)})" if at > now else "now"


def seconds(length: float) -> str:
    """A timeout as it was configured."""
    return f"{length:g}s" if length < 600 else duration(length)


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def sent_text(sent: Sent, now: int) -> str:
    """`a decision on 2-1 (approve) by ann, sent 12s ago (14:02:11 UTC)`."""
    by = f" by {sent.by}" if sent.by is not None else ""
    what = f"a {sent.kind.value}"
    if sent.kind is SentKind.DECISION:
        what += f" on {sent.target} ({'approve' if sent.action is DecisionAction.RESUME else 'deny'})"
    return f"{what}{by}, sent {ago(sent.at, now)}"


def sent_texts(sent: Sequence[Sent], now: int) -> str:
    """All of it, with the first few in words."""
    named = [sent_text(each, now) for each in sent[:MAX_NAMED]]
    others = [f"{len(sent) - MAX_NAMED:,} more"] if len(sent) > MAX_NAMED else []
    return "; ".join([*named, *others])


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def one_line(text: str) -> str:
    """A message from elsewhere in one line, cut if it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_QUOTE else f"{flat[: MAX_QUOTE - 1]}…"


def clause(text: str) -> str:
    """The same within a sentence: without its final full stop."""
    return one_line(text).rstrip(".")


def sentence(text: str) -> str:
    return f"{capital(clause(text))}."


def wakeful(verb: str, *targets: str) -> str:
    """A command of ours; after `--` no argument is taken for an option, whatever the thread's id is."""
    end_of_options = ["--"] if any(target.startswith("-") for target in targets) else []
    return shlex.join(["wakeful", verb, *end_of_options, *targets])


def start_worker(queue: str, default: str, *, inference: bool = False) -> str:
    option = [] if queue == default else ["--inference-queue" if inference else "--task-queue", queue]
    return shlex.join(["wakeful", "worker", "--app", "module:registry", *option])


def send_continue(thread_id: str) -> str:
    """The command that continues a conversation whose last run has ended."""
    return wakeful("send", thread_id, "Please continue.")


def temporal(*words: str) -> str:
    return shlex.join(["temporal", *words])


def code(command: str) -> str:
    return f"`{command}`"


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
