"""Commands that a person can paste: each is quoted for a shell, and an id that begins with a dash stays an id."""

import shlex
from collections.abc import Sequence


def shell_command(verb: str, *options: str, ids: Sequence[str]) -> str:
    """A `wakeful` command with its options, then the ids that it is about."""
    end_of_options = ["--"] if any(id.startswith("-") for id in ids) else []
    return shlex.join(["wakeful", verb, *options, *end_of_options, *ids])


def approve_command(ticket: str) -> str:
    return shell_command("approve", ids=[ticket])


def deny_command(ticket: str) -> str:
    return shell_command("deny", ids=[ticket])


def send_command(thread_id: str) -> str:
    """The command that sends a message to a thread, up to the message."""
    return f"{shell_command('send', ids=[thread_id])} …"
