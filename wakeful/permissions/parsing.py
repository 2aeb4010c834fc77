"""Parse a pattern of tool calls.

shell                                   this tool, with any arguments; also `shell(*)`
read_*   mcp_[ab]?                      every tool whose name matches the glob
/^(read|list)_/                         every tool whose name contains a match of the regular expression
shell(git *)                            the primary argument matches the glob
pay(memo =~ "^[A-Z]{2}")                a field matches; several conditions, separated by commas, must all hold
pay(amount > 100)                       a number: = != > >= < <=
pay(country not in ["DE", "AT"])        texts or numbers in a list: in, not in
mail(to[*].address !~ "*@example.org")  a path: fields, `[0]`, `[*]` for every element, `*` for every field
pay($tenant = "acme")                   of the run, not of the arguments: `$tenant`, `$user`, `$metadata.field`
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from wakeful.permissions.patterns import CONTEXT_FIELDS, OPERATORS, Condition, Every, Step, ToolPattern
from wakeful.permissions.text_matcher import Kind, PatternError, TextMatcher
from wakeful.permissions.value_tests import COMPARISONS, MAX_MEMBERS, Number, NumberTest, OneOf

_FIELD = r"(?:[A-Za-z0-9_-]+|\*)"
_PATH = re.compile(rf"\$?{_FIELD}(?:\[[^\]]*\])*(?:\.{_FIELD}(?:\[[^\]]*\])*)*")
_STEP = re.compile(r"\.?([A-Za-z0-9_-]+)|\.?(\*)|\[\s*(\d{1,9})\s*\]|\[\s*(\*)\s*\]")


def _one_of(signs: Iterable[str]) -> str:
    return "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))


_TEXT_OPERATOR = re.compile(_one_of(OPERATORS))
_THEN_TEXT_OPERATOR = re.compile(rf"\s*(?:{_TEXT_OPERATOR.pattern})")
_NUMBER_SIGNS = (*COMPARISONS, "!=")
_SIGNS = dict.fromkeys((*OPERATORS, *_NUMBER_SIGNS))
_IN = r"(?:not\s+)?in\s*(?=[\[\"({])"
_OPERATOR = re.compile(rf"{_one_of(_SIGNS)}|{_IN}")
_THEN_OPERATOR = re.compile(rf"\s*(?:{_one_of(_SIGNS)})|\s+{_IN}")
_ALL_OPERATORS = f"{' '.join(_SIGNS)} in not in"
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,18})?(?=\s*[,)\]]|\s*$)")
_LIKE_NUMBER = re.compile(r"[-+.]?\d[^,)\]]*")
_LIST_OPEN, _LIST_CLOSE = re.compile(r"\["), re.compile(r"\s*\]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_REGEX_TOOL = re.compile(r"/((?:[^/\\]|\\.)*)/", re.DOTALL)
_PLAIN_TOOL = re.compile(r"[^\s(]+")
_SPACE = re.compile(r"\s*")
_CONTEXT_FIELD = re.compile(rf"\$\s*(?:{'|'.join(CONTEXT_FIELDS)})\b")
_OPEN, _COMMA, _CLOSE = re.compile(r"\("), re.compile(r"\s*,\s*"), re.compile(r"\s*\)")


def parse_pattern(text: str) -> ToolPattern:
    """The pattern that `text` describes. Its globs and regular expressions are compiled once.

    Raises:
        PatternError: it is malformed; the message says how, and at which character.
    """
    return _parsed(text, typed=True)


def parse_untyped_pattern(text: str) -> ToolPattern:
    """The pattern as runs before `revisions.TYPED_CONDITIONS` read it: `pay(amount > 5)` was a glob.

    Raises:
        PatternError: it is malformed.
    """
    return _parsed(text, typed=False)


def parse_path(text: str) -> tuple[tuple[Step, ...], bool]:
    """A path alone, such as `to[0].name` or `$user`, and whether it is of the run.

    Raises:
        PatternError: it is malformed.
    """
    return _Parser(text, typed=True).whole_path()


@lru_cache(maxsize=4096)
def _parsed(text: str, *, typed: bool) -> ToolPattern:
    return _Parser(text, typed=typed).pattern()


def naming(tool_name: str) -> str:
    """A pattern that matches only this tool, whatever characters its name has."""
    try:
        if parse_pattern(tool_name).whole_tool == tool_name:
            return tool_name
    except PatternError:
        pass
    escaped = re.escape(tool_name).replace("/", r"\/")
    return rf"/\A{escaped}\z/"


class _Parser:
    """A text and the position that is parsed next."""

    def __init__(self, text: str, *, typed: bool) -> None:
        self._text = text
        self._position = 0
        self._operator = _OPERATOR if typed else _TEXT_OPERATOR
        self._then_operator = _THEN_OPERATOR if typed else _THEN_TEXT_OPERATOR

    def pattern(self) -> ToolPattern:
        self._take(_SPACE)
        tool = self._tool()
        self._take(_SPACE)
        arguments = self._arguments() if self._take(_OPEN) else None
        self._take(_SPACE)
        if self._position < len(self._text):
            raise self._error(f"unexpected {self._text[self._position :]!r} at the end")
        return ToolPattern(tool, arguments)

    def _tool(self) -> TextMatcher:
        at = self._position
        if self._text.startswith("/", at):
            regex = self._take(_REGEX_TOOL)
            if regex is None:
                raise self._error("a regular expression for the tool's name ends with '/'")
            if not regex[1]:
                raise self._error("the regular expression for the tool's name is empty", at=at)
            return self._matcher(Kind.REGEX, regex[1], at=at)
        name = self._take(_PLAIN_TOOL)
        if name is None:
            raise self._error("the tool's name is missing")
        return self._matcher(Kind.GLOB if set("*?[") & set(name[0]) else Kind.EXACT, name[0], at=at)

    def _arguments(self) -> TextMatcher | tuple[Condition, ...] | None:
        self._take(_SPACE)
        path = _PATH.match(self._text, self._position)
        if path and self._then_operator.match(self._text, path.end()):
            conditions = [self._condition()]
            while self._take(_COMMA):
                conditions.append(self._condition())
            if not self._take(_CLOSE):
                raise self._error("expected ',' and another condition, or ')'")
            return tuple(conditions)
        if _CONTEXT_FIELD.match(self._text, self._position):
            # As a glob of the primary argument it would match no call, and a rule that denies would deny nothing.
            raise self._error(
                'a condition on the run is a path, an operator and a string in double quotes, as in $user = "ann" or '
                f'$metadata.region ~ "eu-*"; operators: {_ALL_OPERATORS}. For an argument that begins with $, '
                'name its field, as in command ~ "$user*"'
            )
        return self._primary()

    def _primary(self) -> TextMatcher | None:
        """A glob, up to the closing parenthesis; parentheses inside come in pairs."""
        at, depth = self._position, 1
        for end in range(at, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[end], 0)
            if depth == 0:
                break
        else:
            raise self._error("the '(' is never closed", at=len(self._text))
        self._position = end + 1
        glob = self._text[at:end].strip()
        if not glob:
            raise self._error("there is nothing between the parentheses; write (*) for any arguments", at=at)
        return None if glob == "*" else self._matcher(Kind.GLOB, glob, at=at)

    def whole_path(self) -> tuple[tuple[Step, ...], bool]:
        of_run = self._text.startswith("$")
        path = self._path(of_run=of_run)
        if self._position < len(self._text):
            raise self._error(f"unexpected {self._text[self._position :]!r} after the path")
        return path, of_run

    def _condition(self) -> Condition:
        of_run = self._text.startswith("$", self._position)
        path = self._path(of_run=of_run)
        self._take(_SPACE)
        found = self._take(self._operator)
        if found is None:
            raise self._error(f"expected one of {_ALL_OPERATORS}")
        sign = " ".join(found[0].split())
        self._take(_SPACE)
        if sign in ("in", "not in"):
            return Condition(path, self._list(sign), sign == "not in", of_run)
        at, quoted = self._position, self._quoted()
        if quoted is not None and sign in OPERATORS:
            kind, negated = OPERATORS[sign]
            return Condition(path, self._matcher(kind, quoted, at=at), negated, of_run)
        if quoted is not None:
            raise self._error(
                f"{sign} compares numbers: write the number without quotes, as in {sign} 5; a text, such as "
                '"5 EUR", is never compared as a number',
                at=at,
            )
        if sign in _NUMBER_SIGNS and self._operator is _OPERATOR and (number := self._number()) is not None:
            return Condition(path, NumberTest("=" if sign == "!=" else sign, number), sign == "!=", of_run)
        raise self._error(_expected_after(sign))

    def _list(self, sign: str) -> OneOf:
        if not self._take(_LIST_OPEN):
            raise self._error(f'expected a list in brackets after {sign}, as in {sign} ["DE", "AT"]')
        members: list[str | Number] = []
        while True:
            self._take(_SPACE)
            text = self._quoted()
            member = self._number() if text is None else text
            if member is None:
                raise self._error("expected a string in double quotes, or a number")
            members.append(member)
            if len(members) > MAX_MEMBERS:
                raise self._error(f"the list has more than {MAX_MEMBERS:,} members")
            if self._take(_LIST_CLOSE):
                return OneOf(tuple(members))
            if not self._take(_COMMA):
                raise self._error("expected ',' and another member of the list, or ']'")

    def _quoted(self) -> str | None:
        quoted = self._take(_QUOTED)
        return None if quoted is None else re.sub(r'\\(["\\])', r"\1", quoted[1])

    def _number(self) -> Number | None:
        number = self._take(_NUMBER)
        if number is not None:
            return float(number[0]) if "." in number[0] else int(number[0])
        if like := _LIKE_NUMBER.match(self._text, self._position):
            raise self._error(
                f"{like[0]!r} is not a number as in -1 or 12.50, without a unit, separators or an exponent"
            )
        return None

    def _path(self, *, of_run: bool) -> tuple[Step, ...]:
        path = _PATH.match(self._text, self._position)
        if path is None:
            raise self._error("expected a path to an argument, as in a.b[0].c")
        at, steps = self._position, list[Step]()
        self._position += of_run
        while self._position < path.end():
            step = self._take(_STEP)
            if step is None:
                raise self._error("expected a number or * between [ and ]")
            field, every_field, number, _ = step.groups()
            steps.append(field or (int(number) if number else Every.FIELD if every_field else Every.ELEMENT))
        if of_run and steps[0] not in CONTEXT_FIELDS:
            raise self._error(f"a run has {' '.join(f'${name}' for name in CONTEXT_FIELDS)}", at=at)
        return tuple(steps)

    def _matcher(self, kind: Kind, text: str, *, at: int) -> TextMatcher:
        try:
            return TextMatcher(kind, text)
        except PatternError as error:
            raise self._error(str(error), at=at) from error

    def _take(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        found = expected.match(self._text, self._position)
        if found is not None:
            self._position = found.end()
        return found

    def _error(self, message: str, *, at: int | None = None) -> PatternError:
        position = (self._position if at is None else at) + 1
        return PatternError(f"{self._text!r}, character {position}: {message}")


def _expected_after(sign: str) -> str:
    text, number = (
        f'a string in double quotes after {sign}, as in {sign} "text"',
        f"a number after {sign}, as in {sign} 5",
    )
    if sign not in OPERATORS:
        return f"expected {number}"
    return f"expected {text}, or {number}" if sign in _NUMBER_SIGNS else f"expected {text}"
