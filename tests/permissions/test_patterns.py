"""The language of patterns, operator by operator (B-804)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from wakeful.permissions.parsing import naming, parse_pattern, parse_untyped_pattern
from wakeful.permissions.patterns import CONTEXT_FIELDS, OPERATORS, Condition, Every, Specificity, Step, ToolPattern
from wakeful.permissions.text_matcher import TEXT_LIMIT, Kind, PatternError, TextMatcher
from wakeful.permissions.value_tests import COMPARISONS, MAX_MEMBERS, NumberTest, OneOf


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("shell", ToolPattern(TextMatcher(Kind.EXACT, "shell"))),
        ("  shell  ", ToolPattern(TextMatcher(Kind.EXACT, "shell"))),
        ("shell(*)", ToolPattern(TextMatcher(Kind.EXACT, "shell"))),
        ("shell( * )", ToolPattern(TextMatcher(Kind.EXACT, "shell"))),
        ("mcp:files/read", ToolPattern(TextMatcher(Kind.EXACT, "mcp:files/read"))),
        ("read_*", ToolPattern(TextMatcher(Kind.GLOB, "read_*"))),
        ("read_?", ToolPattern(TextMatcher(Kind.GLOB, "read_?"))),
        ("[rl]s", ToolPattern(TextMatcher(Kind.GLOB, "[rl]s"))),
        (r"/^(a|b)\/c/", ToolPattern(TextMatcher(Kind.REGEX, r"^(a|b)\/c"))),
        ("shell(git *)", ToolPattern(TextMatcher(Kind.EXACT, "shell"), TextMatcher(Kind.GLOB, "git *"))),
        ("shell($users *)", ToolPattern(TextMatcher(Kind.EXACT, "shell"), TextMatcher(Kind.GLOB, "$users *"))),
        (
            "shell (echo (a) (b(c)))",
            ToolPattern(TextMatcher(Kind.EXACT, "shell"), TextMatcher(Kind.GLOB, "echo (a) (b(c))")),
        ),
        (
            "shell(git commit -m x=y)",
            ToolPattern(TextMatcher(Kind.EXACT, "shell"), TextMatcher(Kind.GLOB, "git commit -m x=y")),
        ),
        (
            'pay(amount =~ "^[0-9]{1,2}$", to.iban!="X")',
            ToolPattern(
                TextMatcher(Kind.EXACT, "pay"),
                (
                    Condition(("amount",), TextMatcher(Kind.REGEX, "^[0-9]{1,2}$")),
                    Condition(("to", "iban"), TextMatcher(Kind.EXACT, "X"), negated=True),
                ),
            ),
        ),
        (
            r't(a-1.b[0].*[*][12] ~ "say \"hi\" \\ \d")',
            ToolPattern(
                TextMatcher(Kind.EXACT, "t"),
                (Condition(("a-1", "b", 0, Every.FIELD, Every.ELEMENT, 12), TextMatcher(Kind.GLOB, r'say "hi" \ \d')),),
            ),
        ),
        (
            't($metadata.region ~ "eu-*", $user != "ann")',
            ToolPattern(
                TextMatcher(Kind.EXACT, "t"),
                (
                    Condition(("metadata", "region"), TextMatcher(Kind.GLOB, "eu-*"), of_run=True),
                    Condition(("user",), TextMatcher(Kind.EXACT, "ann"), negated=True, of_run=True),
                ),
            ),
        ),
        (
            "pay(amount>100, fee != -0.50, $metadata.level <= 3)",
            ToolPattern(
                TextMatcher(Kind.EXACT, "pay"),
                (
                    Condition(("amount",), NumberTest(">", 100)),
                    Condition(("fee",), NumberTest("=", -0.5), negated=True),
                    Condition(("metadata", "level"), NumberTest("<=", 3), of_run=True),
                ),
            ),
        ),
        (
            'pay(country in ["DE", "A\\"T"], code  not  in [1,2.5 , "x"])',
            ToolPattern(
                TextMatcher(Kind.EXACT, "pay"),
                (
                    Condition(("country",), OneOf(("DE", 'A"T'))),
                    Condition(("code",), OneOf((1, 2.5, "x")), negated=True),
                ),
            ),
        ),
        ("shell(cat a > b)", ToolPattern(TextMatcher(Kind.EXACT, "shell"), TextMatcher(Kind.GLOB, "cat a > b"))),
        ("shell(log in x)", ToolPattern(TextMatcher(Kind.EXACT, "shell"), TextMatcher(Kind.GLOB, "log in x"))),
        (
            't(* = "x")',
            ToolPattern(TextMatcher(Kind.EXACT, "t"), (Condition((Every.FIELD,), TextMatcher(Kind.EXACT, "x")),)),
        ),
    ],
)
def test_a_pattern_is_parsed(text: str, pattern: ToolPattern) -> None:
    assert parse_pattern(text) == pattern
    assert parse_pattern(str(pattern)) == pattern


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'', character 1: the tool's name is missing"),
        ("  (x)", "'  (x)', character 3: the tool's name is missing"),
        ("/", "'/', character 1: a regular expression for the tool's name ends with '/'"),
        ("//", "'//', character 1: the regular expression for the tool's name is empty"),
        ("/(/", "'/(/', character 1: '(' is not a regular expression: unclosed group"),
        ("/a(?=b)/", "look-around, including look-ahead and look-behind, is not supported"),
        ("/a{9999}{9999}/", "'a{9999}{9999}' is too large"),
        ("a[b", "'a[b', character 1: the glob 'a[b' has a '[' without a ']'"),
        ("a[!]", "has a '[' without a ']'"),
        ("a[z-a]", "the glob 'a[z-a]' has the range 'z-a', which is backwards"),
        ("shell(git *", "'shell(git *', character 12: the '(' is never closed"),
        ("shell()", "'shell()', character 7: there is nothing between the parentheses; write (*) for any arguments"),
        ("shell(x) y", "'shell(x) y', character 10: unexpected 'y' at the end"),
        ("shell x", "'shell x', character 7: unexpected 'x' at the end"),
        (
            "pay(a = x)",
            "'pay(a = x)', character 9: expected a string in double quotes after =, as in = \"text\", or a ",
        ),
        ("pay(a = x)", "or a number after =, as in = 5"),
        ('pay(a = "5', "expected a string in double quotes after ="),
        ("pay(a ~ 5)", "'pay(a ~ 5)', character 9: expected a string in double quotes after ~, as in ~ \"text\""),
        ("pay(a > )", "character 9: expected a number after >, as in > 5"),
        (
            'pay(a >= "5 EUR")',
            "character 10: >= compares numbers: write the number without quotes, as in >= 5; a text, ",
        ),
        ("pay(a > 5 EUR)", "character 9: '5 EUR' is not a number as in -1 or 12.50, without a unit, separators or an"),
        ("pay(a > 1e3)", "'1e3' is not a number"),
        ("pay(a > 007)", "'007' is not a number"),
        ("pay(a > .5)", "'.5' is not a number"),
        ("pay(a > +5)", "'+5' is not a number"),
        (f"pay(a > {'9' * 19})", "is not a number"),
        ("pay(a > 5", "character 10: expected ',' and another condition, or ')'"),
        ('pay(a in ("x"))', 'character 10: expected a list in brackets after in, as in in ["DE", "AT"]'),
        ('pay(a not in "x")', "character 14: expected a list in brackets after not in"),
        ("pay(a in [])", "character 11: expected a string in double quotes, or a number"),
        ('pay(a in ["x", ])', "character 16: expected a string in double quotes, or a number"),
        ('pay(a in ["x" "y"])', "character 14: expected ',' and another member of the list, or ']'"),
        (f"pay(a in [{', '.join('1' for _ in range(MAX_MEMBERS + 1))}])", "the list has more than 1,000 members"),
        ('pay(a = "5" b)', "character 12: expected ',' and another condition, or ')'"),
        ('pay(a = "5", b)', "character 15: expected one of ~ = =~ !~ != !=~ > >= < <= in not in"),
        ('pay(a = "5", )', "character 14: expected a path to an argument, as in a.b[0].c"),
        ('pay($role = "x")', "character 5: a run has $tenant $user $metadata"),
        ('pay($user: "ann")', "character 5: a condition on the run is a path, an operator and a string in double"),
        ('pay($user is "ann")', 'as in $user = "ann" or $metadata.region ~ "eu-*"'),
        ('pay( $ tenant = "a")', "character 6: a condition on the run is"),
        ('pay($metadata["region"] is "eu")', "operators: ~ = =~ !~ != !=~ > >= < <= in not in"),
        ("shell($user*)", 'name its field, as in command ~ "$user*"'),
        ('pay(a[x] = "5")', "character 6: expected a number or * between [ and ]"),
        ('pay(a =~ "[")', "character 10: '[' is not a regular expression: unclosed character class"),
    ],
)
def test_a_malformed_pattern_is_reported_with_its_position(text: str, message: str) -> None:
    with pytest.raises(PatternError) as error:
        parse_pattern(text)
    assert message in str(error.value)


ARGUMENTS: JsonValue = {
    "command": "git push origin/main",
    "n": 5,
    "yes": True,
    "none": None,
    "a": {"b": [{"c": "x"}, {"c": "y"}], "d": {"c": "z"}},
    "list": ["one", "two"],
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ('command ~ "git *"', True),
        ('command ~ "git"', False),
        ('command ~ "git push *main"', True),
        ('command ~ "*[op]ush *[!a-m]"', True),
        ('command ~ "git ????*"', True),
        ('command ~ "GIT *"', False),
        ('command = "git push origin/main"', True),
        ('command = "git *"', False),
        ('command =~ "push"', True),
        ('command =~ "^push"', False),
        ('command =~ "(?i)PUSH"', True),
        ('command !~ "git *"', False),
        ('command !~ "rm *"', True),
        ('command != "ls"', True),
        ('command != "git push origin/main"', False),
        ('command !=~ "^rm"', True),
        ('command !=~ "main$"', False),
        ('n = "5"', True),
        ('n =~ "^[0-9]$"', True),
        ('yes = "true"', True),
        ('none = ""', True),
        ('a.b[0].c = "x"', True),
        ('a.b[1].c = "x"', False),
        ('a.b[*].c = "y"', True),
        ('a.*.c = "z"', True),
        ('a.*[*].c = "x"', True),
        ('*[1] = "two"', True),
        ('* = "5"', True),
        ('list = "[\\"one\\",\\"two\\"]"', True),
        ('list[*] != "one"', True),
        ('a.b = "x"', False),
        ('command ~ "git *", n = "5"', True),
        ('command ~ "git *", n = "6"', False),
    ],
)
def test_a_condition_matches_the_values_at_its_path(condition: str, holds: bool) -> None:
    assert parse_pattern(f"t({condition})").matches("t", ARGUMENTS) is holds


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("gone", ARGUMENTS),
        ("a.gone", ARGUMENTS),
        ("a.b[9].c", ARGUMENTS),
        ("command.x", ARGUMENTS),
        ("command[0]", ARGUMENTS),
        ("command[*]", ARGUMENTS),
        ("list.*", ARGUMENTS),
        ("*", {}),
        ("x[*]", {"x": []}),
        ("x", None),
        ("x", "text"),
    ],
)
def test_a_path_without_a_value_makes_any_condition_false(operator: str, path: str, arguments: JsonValue) -> None:
    assert not parse_pattern(f't({path} {operator} ".*")').matches("t", arguments)


@pytest.mark.parametrize(
    ("pattern", "tool", "matches"),
    [
        ("shell", "shell", True),
        ("shell", "shells", False),
        ("read_*", "read_", True),
        ("*_file", "fs/read_file", True),
        ("read_?", "read_ab", False),
        ("[!a-c]x", "dx", True),
        ("[!a-c]x", "bx", False),
        ("[]a]x", "]x", True),
        ("a[-z]", "a-", True),
        ("a.b*", "axb", False),
        ("/read/", "unread_all", True),
        (r"/\Aread_\w+\z/", "read_file", True),
        (r"/\Aread_\w+\z/", "unread_file", False),
    ],
)
def test_a_tool_is_matched_by_name_glob_or_regex(pattern: str, tool: str, matches: bool) -> None:
    assert parse_pattern(pattern).matches(tool, None) is matches


@pytest.mark.parametrize(
    ("glob", "arguments", "matches"),
    [
        ("npm *", {"command": "npm install"}, True),
        ("npm *", {"command": "npx"}, False),
        ("rm *", {"command": "rm -rf /home/me"}, True),
        ("rm *", {"command": "rm a\nrm b"}, True),
        ("5", {"n": 5}, True),
        ("*npm*", {"command": "npm install", "cwd": "/"}, True),
        ("npm *", {"command": "npm install", "cwd": "/"}, False),
        ('{"a":1,"b":"x"}', {"b": "x", "a": 1}, True),
        ("text", "text", True),
        ("{}", {}, True),
        ("src/**/*.py", {"path": "src/a.py"}, True),
        ("src/**/*.py", {"path": "src/a/b.py"}, True),
        ("src/**/*.py", {"path": "tests/a.py"}, False),
        ("**/.env", {"path": ".env"}, True),
        ("**/.env", {"path": "my.env"}, False),
        ("src/**", {"path": "src/a/b"}, True),
        ("a**/b", {"path": "axx/b"}, True),
    ],
)
def test_the_primary_argument_is_the_only_field_or_everything(glob: str, arguments: JsonValue, matches: bool) -> None:
    assert parse_pattern(f"t({glob})").matches("t", arguments) is matches


def test_a_pattern_without_conditions_matches_any_arguments() -> None:
    everything: list[JsonValue] = [None, {}, {"a": 1}, [1], "x"]
    assert all(parse_pattern("t").matches("t", arguments) for arguments in everything)
    assert not parse_pattern("t(?*)").matches("t", None)


@pytest.mark.parametrize("pattern", ["t(*needle*)", 't(x ~ "*needle*")', 't(x !~ "*needle*")', 't(x =~ "needle")'])
@pytest.mark.parametrize("unsure", [True, False])
def test_an_argument_that_is_too_long_to_search_matches_as_the_caller_says(pattern: str, unsure: bool) -> None:
    long: dict[str, JsonValue] = {"x": "y" * TEXT_LIMIT + "needle"}
    assert parse_pattern(pattern).matches("t", long, when_unsure=unsure) is unsure
    assert not parse_pattern(pattern).matches("other", long, when_unsure=unsure)
    assert parse_pattern('t(x ~ "*", y = "1")').matches("t", {**long, "y": 2}, when_unsure=unsure) is False
    assert parse_pattern('t(y = "1")').matches("t", {**long, "y": 1}, when_unsure=unsure) is True


def test_regular_expressions_run_in_linear_time() -> None:
    evil: JsonValue = {"x": "a" * (TEXT_LIMIT - 1) + "!"}
    assert not parse_pattern('t(x =~ "^(a+)+$")').matches("t", evil)
    assert not parse_pattern("t(" + "*a" * 100 + ")").matches("t", evil)


def test_a_lone_surrogate_does_not_slip_through() -> None:
    assert parse_pattern('t(x =~ "rm")').matches("t", {"x": "rm \ud800"})
    assert parse_pattern("t(rm*)").matches("t", {"x": "rm \ud800"})


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("/shell/", "sh*"),
        ("sh*(git *)", "shell"),
        ("shell", "shell(git *)"),
        ("shell(git *)", 'shell(a ~ "x", b ~ "x")'),
        ('shell(a =~ "x")', 'shell(a ~ "x")'),
        ('shell(a ~ "x")', 'shell(a = "x")'),
        ('shell(a !~ "x")', 'shell(a != "x")'),
        ('shell(a = "x")', 'shell(a =~ "x", b =~ "x")'),
    ],
)
def test_specificity_is_the_tool_then_conditions_then_their_precision(less: str, more: str) -> None:
    assert parse_pattern(less).specificity < parse_pattern(more).specificity


def test_a_primary_glob_counts_as_one_condition() -> None:
    assert (
        parse_pattern("t(x*)").specificity
        == Specificity(Kind.EXACT, True, 1, 2)
        == parse_pattern('t(a ~ "x")').specificity
        == parse_pattern("t(a > 5)").specificity
    )
    assert (
        parse_pattern("t(a = 5)").specificity
        == parse_pattern("t(a in [5])").specificity
        == parse_pattern('t(a = "x")').specificity
    )


@pytest.mark.parametrize("name", ["shell", "mcp:fs/read", "odd name", "a*b", "a[b", "/x/", "/", "f(x)", 'q"\\', "ä\n"])
def test_any_tool_name_has_a_pattern_of_its_own(name: str) -> None:
    pattern = parse_pattern(naming(name))
    assert pattern.matches(name, {"any": "thing"})
    assert not any(pattern.matches(other, None) for other in (name + "x", "x" + name, "axb", ""))


PAYMENT: JsonValue = {
    "amount": 100,
    "fee": 0.1,
    "huge": 10**400,
    "text": "5 EUR",
    "digits": "500",
    "yes": True,
    "none": None,
    "country": "DE",
    "items": [{"price": 5}, {"price": 50}, {"price": 500}],
    "odd": [{"price": 5}, {"price": "50"}, {}],
    "empty": [],
}

CERTAIN = [
    ("amount > 99.5", True),
    ("amount > 100", False),
    ("amount >= 100", True),
    ("amount < 100.01", True),
    ("amount <= 99", False),
    ("amount = 100.0", True),
    ("amount != 100", False),
    ("fee = 0.1", True),
    ("fee <= 0.1", True),
    ("huge > 5", True),
    ("amount in [1, 100.0]", True),
    ('amount not in [1, "DE"]', True),
    ('country in ["DE", "AT"]', True),
    ('country in ["de", 5]', False),
    ('country not in ["AT"]', True),
    ("empty[*].price > 5", False),
    ("empty[*].price <= 5", False),
]


@pytest.mark.parametrize(("condition", "holds"), CERTAIN)
@pytest.mark.parametrize("unsure", [True, False])
def test_numbers_are_compared_as_numbers_and_lists_by_their_members(condition: str, holds: bool, unsure: bool) -> None:
    assert parse_pattern(f"pay({condition})").matches("pay", PAYMENT, when_unsure=unsure) is holds


@pytest.mark.parametrize("path", ["text", "digits", "yes", "none", "items", "absent", "amount.x", "items[7].price"])
@pytest.mark.parametrize("test", ["> 5", "<= 5", "= 5", "!= 5", "in [5]", "not in [5]"])
@pytest.mark.parametrize("unsure", [True, False])
def test_what_is_absent_or_no_number_counts_against_the_call(path: str, test: str, unsure: bool) -> None:
    """B-806: a rule that denies or asks matches it, one that allows does not: "5 EUR" is no number, nor is "500"."""
    assert parse_pattern(f"pay({path} {test})").matches("pay", PAYMENT, when_unsure=unsure) is unsure
    assert parse_pattern(f"pay({path} {test})").matches("pay", None, when_unsure=unsure) is unsure


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_is_no_number(number: float) -> None:
    assert [
        parse_pattern("pay(n > 5)").matches("pay", {"n": number}, when_unsure=unsure) for unsure in (True, False)
    ] == [
        True,
        False,
    ]


@pytest.mark.parametrize("value", [5, True, None, ["DE"], {"a": "DE"}])
def test_a_value_of_another_type_than_the_list_counts_against_the_call(value: JsonValue) -> None:
    pattern = parse_pattern('pay(country in ["DE"])')
    assert [pattern.matches("pay", {"country": value}, when_unsure=unsure) for unsure in (True, False)] == [True, False]


@pytest.mark.parametrize(
    ("condition", "restricts", "allows"),
    [
        ("items[*].price > 100", True, False),
        ("items[*].price <= 500", True, True),
        ("items[*].price > 500", False, False),
        ("odd[*].price > 100", True, False),
        ("odd[*].price <= 50", True, False),
    ],
)
def test_of_several_values_one_that_matches_restricts_and_all_have_to_match_to_allow(
    condition: str, restricts: bool, allows: bool
) -> None:
    pattern = parse_pattern(f"pay({condition})")
    assert pattern.matches("pay", PAYMENT, when_unsure=True) is restricts
    assert pattern.matches("pay", PAYMENT, when_unsure=False) is allows


def test_runs_of_an_earlier_revision_read_numbers_and_lists_as_globs() -> None:
    text = "pay(amount > 5)"
    assert str(parse_untyped_pattern(text)) == text == str(parse_pattern(text))
    assert parse_untyped_pattern(text).arguments == TextMatcher(Kind.GLOB, "amount > 5")
    assert parse_untyped_pattern('pay(a in ["DE"])').arguments == TextMatcher(Kind.GLOB, 'a in ["DE"]')
    assert parse_untyped_pattern('pay(a = "5")') == parse_pattern('pay(a = "5")')
    with pytest.raises(PatternError, match='expected a string in double quotes after =, as in = "text"'):
        parse_untyped_pattern("pay(a = 5)")


words = st.text(max_size=20)
regexes = st.sampled_from(["a", "^x+$", r"\d", '"', r"\\", "(a|b)", "[x-z]", "é"])
globs = st.text("ab*?/.(\\\"' ", max_size=12)
fields = st.text("abz09_-", min_size=1, max_size=6)
steps: st.SearchStrategy[Step] = st.one_of(fields, st.integers(0, 999), st.sampled_from(list(Every)))
texts = st.one_of(
    st.builds(TextMatcher, st.just(Kind.EXACT), words),
    st.builds(TextMatcher, st.just(Kind.GLOB), globs),
    st.builds(TextMatcher, st.just(Kind.REGEX), regexes),
)


def paths(first: st.SearchStrategy[Step]) -> st.SearchStrategy[tuple[Step, ...]]:
    return st.tuples(first, st.lists(steps, max_size=4)).map(lambda path: (path[0], *path[1]))


numbers = st.one_of(
    st.integers(-(10**17), 10**17), st.decimals(-(10**6), 10**6, places=4).map(float), st.just(0.0000001)
)
tests = st.one_of(
    texts.flatmap(lambda text: st.tuples(st.just(text), st.booleans())),
    st.tuples(st.builds(NumberTest, st.just("="), numbers), st.booleans()),
    st.tuples(st.builds(NumberTest, st.sampled_from([*COMPARISONS]), numbers), st.just(False)),
    st.tuples(st.builds(OneOf, st.lists(st.one_of(words, numbers), min_size=1, max_size=4).map(tuple)), st.booleans()),
)
conditions = st.one_of(
    st.builds(lambda path, test: Condition(path, *test), paths(st.one_of(fields, st.just(Every.FIELD))), tests),
    st.builds(
        lambda path, test: Condition(path, test[0], test[1], of_run=True), paths(st.sampled_from(CONTEXT_FIELDS)), tests
    ),
)
tools = st.one_of(
    st.from_regex(r"[a-z:./_-]{1,12}", fullmatch=True)
    .filter(lambda t: t[0] != "/")
    .map(lambda t: TextMatcher(Kind.EXACT, t)),
    st.from_regex(r"[a-z_]{0,5}[*?][a-z*?]{0,5}", fullmatch=True).map(lambda t: TextMatcher(Kind.GLOB, t)),
    regexes.map(lambda t: TextMatcher(Kind.REGEX, t)),
)
patterns = st.builds(
    ToolPattern,
    tools,
    st.one_of(
        st.none(),
        st.lists(conditions, min_size=1, max_size=3).map(tuple),
        st.from_regex(r"[a-z]([a-z *?/]{0,8}[a-z])?", fullmatch=True).map(lambda t: TextMatcher(Kind.GLOB, t)),
    ),
)
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(fields, inner, max_size=3)),
    max_leaves=8,
)


@given(patterns)
def test_a_pattern_is_parsed_back_from_its_text(pattern: ToolPattern) -> None:
    assert parse_pattern(str(pattern)) == pattern


def wrong_in(text: str) -> str | None:
    try:
        assert parse_pattern(str(parse_pattern(text))) == parse_pattern(text)
    except PatternError as error:
        return str(error)
    return None


@given(st.text('shel*?[]!/()\\"=~., a0\ud800', max_size=24))
def test_any_text_is_a_pattern_or_an_error_with_a_position(text: str) -> None:
    wrong = wrong_in(text)
    assert wrong is None or f"{text!r}, character " in wrong


@given(patterns, words, values)
def test_any_pattern_can_be_matched_with_any_call(pattern: ToolPattern, tool: str, arguments: JsonValue) -> None:
    assert pattern.matches(tool, json.loads(json.dumps(arguments))) is pattern.matches(tool, arguments)


@given(words)
def test_a_glob_of_stars_matches_everything(text: str) -> None:
    assert TextMatcher(Kind.GLOB, "*").matches(text)
    assert TextMatcher(Kind.GLOB, "".join(c if c in "!^" else f"[{c}]" for c in text)).matches(text)
