"""A pin: a value, and the text it has been written as since the first release."""

from dataclasses import dataclass

from wakeful.contract.base import Wire, Written


@dataclass(frozen=True)
class Pin:
    value: Wire | Written
    json: str
