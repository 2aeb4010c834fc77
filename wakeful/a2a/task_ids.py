"""Task ids, and the contexts of messages that name none. Both are made of what the client sent, and nothing is stored.

A task is named by its thread and the message that began it: so any server finds it, and knows it before a worker does.
"""

import hashlib
from urllib.parse import quote, unquote

DIGEST_LENGTH = 20


def task_id(thread_id: str, message_id: str) -> str:
    """The id of the task that a message begins. It can be a part of a path: it has no slash, colon or percent sign."""
    digest = hashlib.sha256(message_id.encode(errors="surrogatepass")).hexdigest()[:DIGEST_LENGTH]
    return f"{_escaped(thread_id)}.{digest}"


def thread_of(task_id: str) -> str | None:
    """The thread of a task; None of an id that `task_id` has not made."""
    escaped, dot, digest = task_id.rpartition(".")
    try:
        thread_id = unquote(escaped.replace("=", "%"), errors="strict")
    except UnicodeDecodeError:
        return None
    is_ours = bool(dot and thread_id) and len(digest) == DIGEST_LENGTH and _escaped(thread_id) == escaped
    return thread_id if is_ours else None


def context_id(agent_id: str, message_id: str, content: bytes) -> str:
    """The context of a message that names none: the same if the same message is sent again.

    Args:
        content: the message's parts, so that the messages of clients which only count theirs do not meet.
    """
    digest = hashlib.sha256(b"\n".join((agent_id.encode(), message_id.encode(errors="surrogatepass"), content)))
    return f"a2a-{digest.hexdigest()[:24]}"


def _escaped(thread_id: str) -> str:
    # Not the percent sign: servers decode it in a path.
    return quote(thread_id, safe="").replace("%", "=")
