"""Ids and sources that history records: their spelling never changes, and only `ids.py` makes and parses them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.contract import ids
from wakeful.contract.budgets import Budget

ROOT = Path(__file__).parents[2]

WORK: tuple[tuple[ids.Work, str], ...] = (
    (ids.Resolve(1), "resolve-1"),
    (ids.ResolveHandoff(2), "handoff-2"),
    (ids.Infer(3), "infer-3"),
    (ids.CancelRemote(3), "cancel_remote-3"),
    (ids.Compact(4), "compact-4"),
    (ids.Hooks(5), "hooks-5"),
    (ids.CallTool("3-1"), "tool-3-1"),
    (ids.CallTool("3-1", 2), "tool.2-3-1"),
    (ids.Delegate("3-1"), "delegate-3-1"),
    (ids.Delegate("3-1", 2), "delegate.2-3-1"),
    (ids.Task(0), "bg_0"),
    (ids.CancelTask("3-1"), "cancel-3-1"),
    (ids.SendMessage("3-1"), "send-3-1"),
    (ids.ResendMessage("msg_1"), "resend-msg_1"),
    (ids.ReturnMessage("msg_1"), "return-msg_1"),
    (ids.RequestBudget("tokens", 1000), "budget_request-tokens-1000"),
    (ids.RequestBudget("cost", 0.5), "budget_request-cost-0.5"),
    (ids.GrantBudget("bg_0", "tokens-2000"), "budget_grant-bg_0:tokens-2000"),
    (ids.NotifyParent(), "notify_parent"),
    (ids.Restore(), "restore_thread"),
    (ids.DescribeWorker(), "describe_worker"),
    (ids.FindStopping(), "find_stopping_ancestor"),
    (ids.Archive(2), "archive-2"),
)
SOURCES: tuple[tuple[ids.Location, str], ...] = (
    (ids.FromActivity("infer-3"), "infer-3"),
    (ids.FromInput(0), "input:0"),
    (ids.FromSubmit(2, 1), "submit:2:1"),
    (ids.FromSnapshot("submit:2:1"), "snapshot:submit:2:1"),
    (ids.FromChild("delegate-3-1"), "child:delegate-3-1"),
    (ids.FromMail("msg_1"), "mail:msg_1"),
)

number = st.integers(min_value=0, max_value=10**18 - 1)
# Parts of ids, so that call ids look like other ids as often as possible.
pieces = (
    "tool",
    "delegate",
    "infer",
    "bg_0",
    "budget_grant",
    "child",
    "input",
    "submit",
    *"-.:/_0129",
    "\n",
    "é",
    "\u0661",
)
name = st.text() | st.lists(st.sampled_from(pieces)).map("".join)
executions = st.integers(min_value=1, max_value=999)
work = st.one_of(
    *(st.builds(kind, number) for kind in (ids.Resolve, ids.ResolveHandoff, ids.Infer, ids.Compact, ids.Hooks)),
    st.builds(ids.Task, number),
    *(st.builds(kind, name, executions) for kind in (ids.CallTool, ids.Delegate)),
    *(st.builds(kind, name) for kind in (ids.CancelTask, ids.SendMessage, ids.ResendMessage, ids.ReturnMessage)),
    st.builds(
        ids.RequestBudget, st.sampled_from(list(Budget.model_fields)), number | st.floats(0, allow_infinity=False)
    ),
    st.builds(ids.GrantBudget, name, name.map(lambda text: text.replace(":", ""))),
    st.builds(ids.NotifyParent),
    st.builds(ids.Restore),
    st.builds(ids.DescribeWorker),
    st.builds(ids.FindStopping),
    st.builds(ids.Archive, st.integers(0, 10**18 - 1)),
)
location = st.one_of(
    st.builds(ids.FromActivity, work.map(ids.work_id)),
    st.builds(ids.FromInput, number),
    st.builds(ids.FromSubmit, number, number),
    *(st.builds(kind, name) for kind in (ids.FromSnapshot, ids.FromChild, ids.FromMail)),
)


@pytest.mark.parametrize(("work", "id"), WORK, ids=str)
def test_the_spelling_of_work_ids_never_changes(work: ids.Work, id: str) -> None:
    assert (ids.work_id(work), ids.parse_work(id)) == (id, work)


@pytest.mark.parametrize(("location", "written"), SOURCES, ids=str)
def test_the_spelling_of_sources_never_changes(location: ids.Location, written: str) -> None:
    assert (ids.source(location), ids.parse_source(written)) == (written, location)


def test_every_kind_of_work_and_every_location_is_pinned() -> None:
    assert {type(work) for work, _ in WORK} == set(get_args(ids.Work))
    assert {type(location) for location, _ in SOURCES} == set(get_args(ids.Location))


def test_the_spelling_of_other_ids_never_changes() -> None:
    """B-530"""
    assert {
        "run_id": (ids.run_id("r", 1), ids.run_id("r", 2)),
        "lineage": ids.lineage(-2),
        "lineage_after": ids.lineage_after("run-1"),
        "step_label": ids.step_label(3, ids.lineage(0x1234567890)),
        "call_id": ids.call_id(ids.step_label(3), 1),
        "call_id after a reset": ids.call_id(ids.step_label(3, "7f3a2c"), 1),
        "relabelled": [ids.relabelled(id, "7f3a2c") for id in ("3-1", "3.0b1c2d-1", "chosen")],
        "idempotency_key": ids.idempotency_key("r.2", "3-1"),
        "suspension_id": ids.suspension_id("3-1"),
        "permission_suspension_id": ids.permission_suspension_id("3-1"),
        "distinct_suspension_id": ids.distinct_suspension_id("chosen", "3-1"),
        "ticket_id": ids.ticket_id("t1", "3-1"),
        "message_id": ids.message_id("r.2", 7),
        "submitted_message_id": ids.submitted_message_id(2, 1),
        "child_message_id": ids.child_message_id("t1/clerk-0190"),
        "interrupted_message_id": ids.interrupted_message_id("3-1"),
        "agent_message_id": ids.agent_message_id("t1", "r", "3-1"),
        "remote_message_id": ids.remote_message_id("0191", "infer-3"),
        "remote_context_id": ids.remote_context_id("0191", "infer-3"),
        "task_event_id": ids.task_event_id("t1/report-0190", "e", 4),
        "context_message_id": ids.context_message_id("clock"),
        "child_thread_id": ids.child_thread_id("t1/clerk-0190", "t1", "Ada's clerk", "0191a2b3c4"),
        "request_thread_id": [ids.request_thread_id("partner/clerk", "r1", tenant=each) for each in (None, "acme")],
        "request_message_id": ids.request_message_id("r1"),
        "text_message_id": ids.text_message_id("hello", 2),
    } == {
        "run_id": ("r", "r.2"),
        "lineage": "fffffe",
        "lineage_after": "4e65d3",
        "step_label": "3.567890",
        "call_id": "3-1",
        "call_id after a reset": "3.7f3a2c-1",
        "relabelled": ["3.7f3a2c-1", "3.7f3a2c-1", "chosen"],
        "idempotency_key": "r.2:3-1",
        "suspension_id": "suspend_3-1",
        "permission_suspension_id": "perm_3-1",
        "distinct_suspension_id": "chosen:3-1",
        "ticket_id": "t1/3-1",
        "message_id": "r.2:7",
        "submitted_message_id": "submit:2:1",
        "child_message_id": "child_settled:t1/clerk-0190",
        "interrupted_message_id": "interrupted:3-1",
        "agent_message_id": "msg_7cac20fb2c0e5db4d9b4fcd2",
        "remote_message_id": "9427ac55-13c0-8af2-9013-240fc9ceab55",
        "remote_context_id": "5ddcc775-75d8-8557-b635-2beb25a5a247",
        "task_event_id": "t1/report-0190:e:4",
        "context_message_id": "context:clock",
        "child_thread_id": "t1/clerk-0190/Ada-s-clerk-0191a2b3",
        "request_thread_id": [
            "mcp-partner-clerk-f7aa9d288b169949318b4d17-4247e76cacc380e6",
            "mcp-partner-clerk-f7aa9d288b169949318b4d17-6afba9678c6aec9e",
        ],
        "request_message_id": "request_82f3e9c695dc6b8d1b11818d",
        "text_message_id": "text_e3bb7222125a242ed759af40",
    }


@pytest.mark.parametrize(
    ("ticket", "readings"),
    [
        ("t1/3-1", [("t1", "3-1")]),
        ("t1/child/3-1", [("t1/child", "3-1"), ("t1", "child/3-1")]),
        ("t1", []),
        ("/3-1", []),
    ],
)
def test_a_ticket_is_read_with_the_longest_thread_id_first(ticket: str, readings: list[tuple[str, str]]) -> None:
    assert list(ids.ticket_readings(ticket)) == readings


def test_every_function_that_spells_an_id_is_pinned() -> None:
    """A new function belongs in one of the tests above."""
    spelled = {
        name for name, value in vars(ids).items() if callable(value) and _is_defined_here(value) and name.islower()
    }
    assert {name for name in spelled if not name.startswith("_")} == {
        *("work_id", "parse_work", "source", "parse_source"),
        *(
            "mcp_tool_ids",
            "mcp_tools_prefix",
            "run_id",
            "lineage",
            "lineage_after",
            "step_label",
            "call_id",
            "relabelled",
            "idempotency_key",
            "suspension_id",
        ),
        *("ticket_id", "message_id"),
        *("permission_suspension_id", "distinct_suspension_id", "ticket_readings", "submitted_message_id"),
        *(
            "child_message_id",
            "interrupted_message_id",
            "agent_message_id",
            "remote_message_id",
            "remote_context_id",
            "task_event_id",
            "context_message_id",
            "child_thread_id",
            "request_thread_id",
            "request_message_id",
            "text_message_id",
        ),
        *(
            "asking_inference",
            "lineage_of",
            "is_task_message",
            "is_child",
            "is_descendant",
            "is_request_thread",
            "thread_id_problem",
            "archive_prefix",
            "archive_id",
            "last_archive_id",
            "archived_thread_id",
            "a2a_thread_id",
            "a2a_context_id",
            "push_id",
            "pushed_thread_id",
            "notification_id",
        ),
    }


def _is_defined_here(value: object) -> bool:
    return getattr(value, "__module__", None) == ids.__name__ and not isinstance(value, type)


@given(work)
def test_parsing_a_work_id_is_the_inverse_of_making_it(work: ids.Work) -> None:
    assert ids.parse_work(ids.work_id(work)) == work


@given(location)
def test_parsing_a_source_is_the_inverse_of_making_it(location: ids.Location) -> None:
    assert ids.parse_source(ids.source(location)) == location


@given(work, work)
def test_two_pieces_of_work_never_share_an_id(one: ids.Work, other: ids.Work) -> None:
    assert (ids.work_id(one) == ids.work_id(other)) == (one == other)


@given(name)
def test_an_id_that_parses_is_spelled_as_wakeful_spells_it(id: str) -> None:
    parsed = ids.parse_work(id)
    assert parsed is None or ids.work_id(parsed) == id
    assert ids.source(ids.parse_source(id)) == id


@pytest.mark.parametrize(
    "foreign",
    [
        *(
            "",
            "1",
            "look",
            "infer",
            "infer-",
            "infer-x",
            "infer-1 ",
            "infer-007",
            "infer-\u0661",
            "infer--1",
            "infer-1.0",
        ),
        *(
            "infer-" + "9" * 5000,
            "Infer-1",
            "my-infer-1",
            "tool",
            "toolbox-1",
            "tool.1-1-1",
            "tool.02-1-1",
            "tool.x-1-1",
        ),
        *(
            "bg_",
            "bg_x",
            "bg_00",
            "bg_0\n",
            "cancel",
            "notify_parent2",
            "budget_request-tokens",
            "budget_request-cost-.",
        ),
        *("budget_request-cost-1.50", "budget_request-cost-1e", "budget_request-cost-x", "budget_grant-bg_0"),
    ],
)
def test_a_foreign_id_names_no_work_and_is_an_activity_as_a_source(foreign: str) -> None:
    assert (ids.parse_work(foreign), ids.parse_source(foreign)) == (None, ids.FromActivity(foreign))


@pytest.mark.parametrize(
    "foreign", ["input:", "input:x", "input:-1", "input:01", "input:\u0661", "submit:1", "submit:1:x", "mail"]
)
def test_a_source_that_only_looks_like_one_is_an_activity(foreign: str) -> None:
    assert ids.parse_source(foreign) == ids.FromActivity(foreign)


def test_messages_of_a_task_are_recognised_by_its_thread() -> None:
    end, event = ids.child_message_id("t1/report-1"), ids.task_event_id("t1/report-1", "e", 1)
    assert [ids.is_task_message(id, "t1/report-1") for id in (end, event)] == [True, True]
    assert [ids.is_task_message(id, "t1/report") for id in (end, event, "msg_1")] == [False, False, False]


def test_a_child_and_a_descendant_are_recognised_by_their_thread_ids() -> None:
    child = ids.child_thread_id("t1", "t1", "clerk", "0191a2b3c4")
    assert [ids.is_descendant(thread, "t1") for thread in (child, f"{child}/x-1", "t1", "t12/clerk-1")] == [
        *(True, True, False, False)
    ]
    assert [ids.is_child(thread, "t1") for thread in (child, f"{child}/x-1", "t1", "t12/clerk-1")] == [
        *(True, False, False, False)
    ]


def test_a_thread_that_a_request_opened_is_recognised_by_its_tenant_and_its_user() -> None:
    owners = [(None, None), ("acme", None), (None, "acme"), ("acme", "ann"), ("acme", "bob"), ("acme-ann", None)]
    opened = [ids.request_thread_id("clerk", "r1", tenant=tenant, user=user) for tenant, user in owners]
    assert [
        [ids.is_request_thread(thread, tenant=tenant, user=user) for thread in opened] for tenant, user in owners
    ] == [[one == other for other in owners] for one in owners]
    foreign = ["", "mcp-", "t1", opened[0].removeprefix("mcp-"), f"{opened[0]}/clerk-0191a2b3", f"x{opened[0]}"]
    assert not any(ids.is_request_thread(thread, tenant=None, user=None) for thread in foreign)


@pytest.mark.parametrize(
    ("context_id", "tenant", "thread_id"),
    [
        ("c1", None, "a2a:c1"),
        ("c1", "acme", "a2a@acme:c1"),
        ("a/b%2F:c", None, "a2a:a%2Fb%252F:c"),
        ("a2a:c1", None, "a2a:a2a:c1"),
        ("c1", "b:/%", "a2a@b%3A%2F%25:c1"),
    ],
)
def test_the_thread_of_an_a2a_context_is_no_thread_of_the_application(
    context_id: str, tenant: str | None, thread_id: str
) -> None:
    assert ids.a2a_thread_id(context_id, tenant) == thread_id
    assert ids.a2a_context_id(thread_id) == context_id
    assert ids.a2a_context_id("order-1") == "order-1"


def test_push_notifications_are_named_after_their_thread_and_what_they_say() -> None:
    assert ids.push_id("t1") == "t1/a2a-push"
    assert [ids.pushed_thread_id(id) for id in ("t1/a2a-push", "t1/a2a-push/1", "t1")] == ["t1", "", ""]
    assert ids.notification_id("t1.5feceb66", "c1", "0123") == "58fe7703639f646f325ce5f98deea59c"


def test_an_archive_is_named_after_its_thread() -> None:
    assert ids.archive_prefix("t1") == "t1/archive/"
    assert ids.archive_id("t1", 2, "d1") == "t1/archive/2-d1"
    assert ids.last_archive_id("t1") == "t1/archive/last"
    assert ids.archived_thread_id("t1/archive/x/archive/2-d1") == "t1/archive/x"


@pytest.mark.parametrize(
    ("thread_id", "problem"),
    [
        ("", "a thread id must not be empty"),
        ("a\nb", "thread id 'a\\nb' has the character '\\n': leave out control characters, line breaks"),
        ('a "b"', """has the character '"'"""),
        ("a\\b", "has the character '\\\\'"),
        ("\ud800", "has the character '\\ud800'"),
        ("a\u2028b", "has the character '\\u2028'"),
        ("漢" * 67, f"thread id '{'漢' * 40}…' has 201 bytes: use at most 200"),
        ("t1/a2a-push", "is like that of push notifications: choose another end than '/a2a-push'"),
        ("t1/archive/last", "is like that of an archive: leave out '/archive/'"),
    ],
)
def test_a_thread_id_that_is_not_safe_has_a_problem(thread_id: str, problem: str) -> None:
    assert problem in (ids.thread_id_problem(thread_id) or "")


def test_whatever_is_made_of_a_thread_id_fits_the_stores_of_temporal() -> None:
    """They keep 255 characters of a workflow id: of archives, of sub-agents at any depth, and of their archives."""
    longest = "t" * ids.THREAD_ID_BYTES
    assert ids.thread_id_problem(longest) is None
    assert ids.thread_id_problem("it's 50%_! 漢字 👩‍🚀") is None
    parent = root = "t" * 100
    made = [longest]
    for _depth in range(20):
        parent = ids.child_thread_id(parent, root, "n" * 99, "0191a2b3c4d5e6f70191a2b3c4d5e6f7")
        assert ids.thread_id_problem(parent) is None
        made.append(parent)
    made.append(ids.child_thread_id(longest, longest, "n" * 99, "0191a2b3c4d5e6f70191a2b3c4d5e6f7"))
    assert max(len(ids.archive_id(id, 10**18, "d" * 12).encode()) for id in made) <= 255


def test_the_thread_id_of_a_deep_child_stays_short_enough_for_lists() -> None:
    """A path that gets too long starts again below the root, and then by itself."""
    root, parent = "r" * 150, "r" * 150 + "/" + "p" * 40
    assert ids.child_thread_id(parent, root, "clerk", "0191a2b3c4") == f"{root}/clerk-0191a2b3"
    assert ids.child_thread_id("p" * 200, "r" * 200, "clerk", "0191a2b3c4") == "clerk-0191a2b3c4"
    assert ids.child_thread_id("t1", "t1", "é" + "x" * 99, "0191a2b3c4") == f"t1/-{'x' * 39}-0191a2b3"
    assert ids.child_thread_id("t1", "t1", "", "0191a2b3c4") == "t1/task-0191a2b3"


WORDS = "resolve|handoff|infer|compact|hooks|tool|delegate|cancel|send|resend|return|budget_request|budget_grant"
PREFIX = re.compile(
    rf"(?:(?:{WORDS})-|(?:tool|delegate)\.|bg_|suspend_|msg_|(?:input|submit|snapshot|child|mail|context|child_settled):)"
)
"""What an id or a source starts with."""
PATTERN = re.compile(rf"\^?\(?(?:{PREFIX.pattern}|(?:tool|delegate)(?=\())[\\(\[.*+$%{{]")
"""A regular expression that matches ids: a prefix, and something that no id contains."""


def test_only_ids_py_makes_and_parses_ids() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for root in ("wakeful", "workflows", "activities")
        for path in sorted((ROOT / root).rglob("*.py"))
        if path != Path(ids.__file__)
        for line, text in spelled_ids(path.read_text())
    ]
    assert found == [], "make and parse ids with wakeful/contract/ids.py"


def spelled_ids(code: str) -> Iterator[tuple[int, str]]:
    """The strings outside docstrings that spell an id, or the start of one, with their lines."""
    tree = ast.parse(code)
    ignored = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            ignored.update(id(value) for value in node.values)
            first, *rest = node.values
            if isinstance(first, ast.Constant) and rest and PREFIX.fullmatch(str(first.value)):
                yield node.lineno, ast.unparse(node)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in ignored:
            continue
        text = node.value
        if isinstance(text, str) and (PREFIX.fullmatch(text) or PATTERN.match(text) or is_whole_id(text)):
            yield node.lineno, text


def is_whole_id(text: str) -> bool:
    """Ids that consist of a prefix and numbers; after other prefixes there may be any text, such as a name."""
    work, location = ids.parse_work(text), ids.parse_source(text)
    numbered = ids.Resolve | ids.ResolveHandoff | ids.Infer | ids.Compact | ids.Hooks | ids.Task | ids.NotifyParent
    return isinstance(work, numbered) or isinstance(location, ids.FromInput | ids.FromSubmit)


@pytest.mark.parametrize(
    "code",
    [
        *('f"infer-{step}"', 'f"tool.{n}-{call}"', 'f"bg_{n}"', 'f"mail:{id}"', 'f"suspend_{call}"', '"child:" + id'),
        *('id.startswith("infer-")', 're.compile(r"bg_\\d+")', 're.compile(r"tool(?:\\.\\d+)?-(.*)")', '"bg_%d" % n'),
        *('x == "notify_parent"', 'x = "bg_0"', 'x = "input:0"', 're.match(r"^(infer-[0-9]+)", x)'),
    ],
)
def test_the_scan_finds_ids_that_are_spelled_elsewhere(code: str) -> None:
    assert len(list(spelled_ids(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        *('"""bg_0"""', 'f"tool:{name}"', 'f"input: {problem}"', '"tool-call-progress"', '"return"', 'f"{a}-infer-"'),
        *('"restore_thread"', '"send-only"', 'f"{step}-{index}"', '"""f(f"infer-{x}")"""', '\'{"work_id": "bg_0"}\''),
    ],
)
def test_the_scan_finds_nothing_else(code: str) -> None:
    assert list(spelled_ids(code)) == []


def test_the_inference_that_asks_for_a_call_follows_from_the_calls_id() -> None:
    assert ids.asking_inference("3-1") == ids.asking_inference("3.1b08ef-1") == "infer-3"
    assert ids.asking_inference("toolu_1") is None
    assert [ids.lineage_of(id) for id in ("3-1", "3.1b08ef-1", "toolu.1-1")] == ["", "1b08ef", ""]


def test_tools_of_an_mcp_server_have_ids_of_their_own_in_the_characters_that_every_provider_accepts() -> None:
    """B-830"""
    long = "a" * 70
    made = ids.mcp_tool_ids("my.git", ["log", "git-log", "git log", "..", long])
    assert made["log"] == "mcp__my_git__log"
    assert (made["git log"], made["git-log"]) == ("mcp__my_git__git_log", "mcp__my_git__git_log_97d25961")
    assert made[".."] == "mcp__my_git__x"
    assert len(set(made.values())) == 5
    assert all(re.fullmatch(r"mcp__my_git__[A-Za-z0-9_]+", id) and len(id) <= 64 for id in made.values())


@given(st.sets(st.text("ab_-! ", max_size=3), min_size=1), st.booleans())
def test_a_tool_of_an_mcp_server_keeps_its_name_whatever_else_the_server_lists(names: set[str], is_long: bool) -> None:
    """B-830"""
    digests = {id.removeprefix("mcp__git__") for id in ids.mcp_tool_ids("git", names).values()}
    listed = [*names, *digests, *(["a" * 70, "a" * 71] if is_long else [])]
    made = ids.mcp_tool_ids("git", listed)
    assert len({*made.values()}) == len(made) == len({*listed})
    assert all(len(id) <= 64 for id in made.values())
    kept = [name for name in made if re.fullmatch("[A-Za-z0-9]+(_[A-Za-z0-9]+)*", name) and len(name) < 50]
    assert [made[name] for name in kept] == [f"mcp__git__{name}" for name in kept]
