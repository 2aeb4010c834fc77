"""Parse a pattern of tool calls.

shell                                   this tool, with any arguments; also `shell(*)`
read_*   mcp_[ab]?                      every tool whose name matches the glob
/^(read|list)_/                         every tool whose name contains a match of the regular expression
shell(git *)                            the primary argument matches the glob
pay(amount =~ "^[0-9]{1,2}$")           a field matches; several conditions, separated by commas, must all hold
mail(to[*].address !~ "*@example.org")  a path: fields, `[0]`, `[*]` for every element, `*` for every field
pay($tenant = "acme")                   of the run, not of the arguments: `$tenant`, `$user`, `$metadata.field`
"""

import re
from functools import lru_cache

from wakeful.permissions.patterns import CONTEXT_FIELDS, OPERATORS, Condition, Every, Step, ToolPattern
from wakeful.permissions.text_matcher import Kind, PatternError, TextMatcher

_FIELD = r"(?:[A-Za-z0-9_-]+|\*)"
_PATH = re.compile(rf"\$?{_FIELD}(?:\[[^\]]*\])*(?:\.{_FIELD}(?:\[[^\]]*\])*)*")
_STEP = re.compile(r"\.?([A-Za-z0-9_-]+)|\.?(\*)|\[\s*(\d{1,9})\s*\]|\[\s*(\*)\s*\]")
_OPERATOR = re.compile("|".join(re.escape(sign) for sign in sorted(OPERATORS, key=len, reverse=True)))
_THEN_OPERATOR = re.compile(r"\s*(?:" + _OPERATOR.pattern + ")")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_REGEX_TOOL = re.compile(r"/((?:[^/\\]|\\.)*)/", re.DOTALL)
_PLAIN_TOOL = re.compile(r"[^\s(]+")
_SPACE = re.compile(r"\s*")
_CONTEXT_FIELD = re.compile(rf"\$\s*(?:{'|'.join(CONTEXT_FIELDS)})\b")
_OPEN, _COMMA, _CLOSE = re.compile(r"\("), re.compile(r"\s*,\s*"), re.compile(r"\s*\)")


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> ToolPattern:
    """The pattern that `text` describes. Its globs and regular expressions are compiled once.

    Raises:
        PatternError: it is malformed; the message says how, and at which character.
    """
    return _Parser(text).pattern()


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

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

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
        if path and _THEN_OPERATOR.match(self._text, path.end()):
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
                f'$metadata.region ~ "eu-*"; operators: {" ".join(OPERATORS)}. For an argument that begins with $, '
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

    def _condition(self) -> Condition:
        of_run = self._text.startswith("$", self._position)
        path = self._path(of_run=of_run)
        self._take(_SPACE)
        operator = self._take(_OPERATOR)
        if operator is None:
            raise self._error(f"expected one of {' '.join(OPERATORS)}")
        self._take(_SPACE)
        at, quoted = self._position, self._take(_QUOTED)
        if quoted is None:
            raise self._error(f'expected a string in double quotes after {operator[0]}, as in {operator[0]} "text"')
        kind, negated = OPERATORS[operator[0]]
        value = re.sub(r'\\(["\\])', r"\1", quoted[1])
        return Condition(path, self._matcher(kind, value, at=at), negated, of_run)

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
