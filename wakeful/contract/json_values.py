"""Count the values of a JSON text before it is parsed: parsers take time and memory for each, however short it is."""


class ValueCount:
    """Counts the values of a JSON text while it arrives, rather too many than too few. It does not check the text.

    The text has to be UTF-8, as JSON has to be that is sent: in other encodings, what is in a string counts as well.
    """

    def __init__(self) -> None:
        self.values = 1
        self._is_in_string = False
        self._is_escaped = False

    def add(self, chunk: bytes) -> int:
        """Count the next bytes; returns how many values there are so far."""
        if b"\0" in chunk:  # UTF-16 or UTF-32, where a byte like that of a quote need not be one
            self.values += _beginnings(chunk)
            return self.values
        if self._is_escaped:
            chunk = b"\\" + chunk
        self._is_escaped = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2 == 1
        texts = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        self.values += _beginnings(b"".join(texts[self._is_in_string :: 2]))
        self._is_in_string ^= len(texts) % 2 == 0
        return self.values


def _beginnings(text: bytes) -> int:
    """How many values begin: the first one of an object or an array, and one after each comma."""
    return len(text) - len(text.translate(None, b",[{"))
