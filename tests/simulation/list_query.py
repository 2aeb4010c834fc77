"""The part of Temporal's list queries that Wakeful uses, evaluated for one execution."""

import re
from collections.abc import Mapping
from operator import ge, gt, lt

_COMPARE = {">": gt, "<": lt, ">=": ge}
_TOKEN = re.compile(r"\s*('(?:[^'\\]|\\.)*'|[(),]|<=|>=|!=|=|<|>|[A-Za-z_]+)")


def matches(query: str, fields: Mapping[str, str | None]) -> bool:
    """Whether an execution with these fields is listed."""
    parser = _Parser(_TOKEN.findall(query), fields)
    found = parser.disjunction()
    if parser.tokens:
        raise NotImplementedError(f"the simulated visibility does not understand {parser.tokens} in {query!r}")
    return found


class _Parser:
    def __init__(self, tokens: list[str], fields: Mapping[str, str | None]) -> None:
        self.tokens = tokens
        self._fields = fields

    def disjunction(self) -> bool:
        found = self._conjunction()
        while self._take_if("OR"):
            found |= self._conjunction()
        return found

    def _conjunction(self) -> bool:
        found = self._condition()
        while self._take_if("AND"):
            found &= self._condition()
        return found

    def _condition(self) -> bool:
        if self._take_if("("):
            found = self.disjunction()
            self._expect(")")
            return found
        name = self.tokens.pop(0)
        if name not in self._fields:
            raise NotImplementedError(f"the simulated visibility has no field {name!r}")
        value, operator = self._fields[name], self.tokens.pop(0)
        match operator:
            case "IS":
                is_negated = self._take_if("NOT")
                self._expect("NULL")
                return (value is None) != is_negated
            case "IN":
                self._expect("(")
                values = [self._text()]
                while self._take_if(","):
                    values.append(self._text())
                self._expect(")")
                return value in values
            case "STARTS_WITH":
                return (value or "").startswith(self._text())
            case "=":
                return value == self._text()
            case ">" | "<" | ">=":
                bound = self._text()
                return value is not None and _COMPARE[operator](value, bound)
            case _:
                raise NotImplementedError(f"the simulated visibility has no operator {operator!r}")

    def _text(self) -> str:
        return re.sub(r"\\(.)", r"\1", self.tokens.pop(0)[1:-1])

    def _take_if(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._take_if(token):
            raise NotImplementedError(f"the simulated visibility expects {token!r} at {self.tokens}")
