"""Change a frozen value: `replace`, as `dataclasses` has it, without running the constructor again.

A step makes some thirty small changes to a value of thirty fields, and the constructor of a frozen class sets each of
them through a function call. Copying the fields as a whole saves that, which was most of the loop's time.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, /, **changes):
        """A copy of a frozen value with these fields changed; the type checker sees that they are its fields."""
        copy = object.__new__(type(value))
        copy.__dict__.update(value.__dict__, **changes)
        return copy
