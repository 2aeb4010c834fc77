"""The users of a thread, and how the search attribute `WakefulUsers` shows them."""

import json
from collections.abc import Sequence

from wakeful.contract.base import Few, Wire

MAX_USERS = 50
"""How many users a thread knows by name: lists, statuses and snapshots have all of them."""

OTHERS = " and others"
NO_USER = " none"
"""What the search attribute has beside names, or instead of any: a name has no space at its ends, so no user is called
that. Without `NO_USER`, a thread that no user wrote to would look like one of a release that showed no users."""


class Users(Wire):
    """The users who wrote to a thread, or for whom it was opened."""

    names: Few[tuple[str, ...]] = ()
    """In the order in which they wrote first."""
    more: Few[bool] = False
    """There were others, or a release that did not record users ran the thread before."""

    def adding(self, user: str | None) -> "Users":
        """With this user, too, or marked as incomplete."""
        if user is None or user in self.names or (self.more and self.is_full):
            return self
        return Users(names=self.names, more=True) if self.is_full else Users(names=(*self.names, user), more=self.more)

    @property
    def is_full(self) -> bool:
        return len(self.names) >= MAX_USERS


def shown_users(users: Users, *, limit: int) -> list[str]:
    """The users as entries of the search attribute, as many as fit so many bytes."""
    shown, room, more = list[str](), limit - len(json.dumps(OTHERS)), users.more
    for name in users.names:
        if (size := len(json.dumps(name))) <= room:
            shown.append(name)
            room -= size
        else:
            more = True
    return [*shown, OTHERS] if more else shown or [NO_USER]


def parse_shown(entries: Sequence[str]) -> Users:
    """The users that the search attribute shows."""
    return Users(names=tuple(each for each in entries if each not in (OTHERS, NO_USER)), more=OTHERS in entries)
