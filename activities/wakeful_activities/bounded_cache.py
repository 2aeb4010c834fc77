"""A cache that is bounded by bytes, not by entries: one conversation can be as long as a thousand others."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key. When they are too large together, those that were used the longest time ago are evicted.

    The value that was put last stays, however large it is.

    Args:
        max_bytes: of all values together.
        size: the bytes of a value. It is measured when the value is put: put it again if it has grown.
    """

    def __init__(self, max_bytes: int, size: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self.bytes = 0
        """Of all values, as they were last measured."""

    def get(self, key: K) -> V | None:
        """The value, which is now the last one to be evicted."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Add a value, or one that has changed."""
        self.bytes -= self._sizes.get(key, 0)
        self._values[key], self._sizes[key] = value, self._size(value)
        self._values.move_to_end(key)
        self.bytes += self._sizes[key]
        while self.bytes > self._max_bytes and len(self._values) > 1:
            evicted, _ = self._values.popitem(last=False)
            self.bytes -= self._sizes.pop(evicted)
