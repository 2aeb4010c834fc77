"""Skills: how packages are read, listed, activated and used."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import Serving
from tests.plugins.world import World
from tests.support.app import Recording
from wakeful import (
    Agent,
    Behavior,
    ConfigurationError,
    DeferredTools,
    PermissionPolicy,
    Registry,
    Rule,
    Skills,
    call,
    say,
    tool,
)
from wakeful.plugins.skills.frontmatter import FrontmatterError, split
from wakeful.plugins.skills.packages import Skill, read_skills
from wakeful.plugins.skills.plugin import CATALOGUE_BYTES
from wakeful.plugins.skills.scripts import OUTPUT_LIMIT

INVOICES = """\
---
name: invoices
description: Write & check invoices.
when-to-use: "money: asked for, or owed"
allowed-tools: pay shell(git *) read_* look
argument-hint: the customer
---
Write an invoice for $ARGUMENTS.
"""


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def look(where: str) -> str:
    """Look."""
    return where


def write(directory: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.parent.name == "scripts":
            path.chmod(0o755)
    return directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    files = {
        "invoices/SKILL.md": INVOICES,
        "invoices/notes/taxes.md": "Taxes are 19 %.",
        "invoices/scripts/total.py": "import sys; print(sum(map(int, sys.argv[1:])))",
        "invoices/scripts/fail.sh": "#!/bin/sh\necho oh no >&2\nexit 3\n",
        "invoices/scripts/slow.py": "import time; print('x', flush=True); time.sleep(60)",
        "invoices/scripts/endless.py": "while True: print('x' * 65_535)",
        "invoices/scripts/long.py": "print('x' * 100_000)",
        "invoices/scripts/env.py": "import os; print(sorted(os.environ))",
        "greetings/SKILL.md": "---\nname: greetings\ndescription: Say hello.\n---\nBe kind.",
        "hidden/SKILL.md": "---\nname: hidden\ndescription: For people.\ndisable-model-invocation: true\n---\n",
        "secret.txt": "secret",
    }
    return write(tmp_path / "skills", files)


def agent(skills: Skills, settings: dict[str, Any] | None = None, **more: Any) -> Agent:
    more = {"plugins": [skills], **more}
    return Agent(id="a", model="m", tools=[pay, look], plugin_settings={"skills": settings or {}}, **more)


def test_front_matter_is_parsed() -> None:
    text = """---
# what it is
name: a  # its name
quoted: "a: \\"b\\" # c"
single: 'it''s'
folded: >
  one
  two

  three
kept: |-
  one
    two
list: [a, "b, c", 'd']
items:
  - one
  - "two: 2"
metadata:
  author: Ada
  version: "1"
empty:
---

The body.
"""
    assert split(text) == (
        {
            "name": "a",
            "quoted": 'a: "b" # c',
            "single": "it's",
            "folded": "one two\n\nthree",
            "kept": "one\n  two",
            "list": ["a", "b, c", "d"],
            "items": ["one", "two: 2"],
            "metadata": {"author": "Ada", "version": "1"},
            "empty": "",
        },
        "The body.",
    )


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("name", "line 2: 'name' is not 'key: value'"),
        ("a: b\na: c", "line 3: 'a' is repeated"),
        ("a: &anchor b", "line 2: '&anchor b' is not supported; put it in quotes"),
        ("a: {b: c}", "line 2: '{b: c}' is not supported; put it in quotes"),
        ("a: b: c", "line 2: 'b: c' has a colon; put it in quotes"),
        ('a: "b', "line 2: '\"b' is not supported; put it in quotes"),
        ('a: "\\x"', r"line 2: the escape '\x' is not supported"),
        ("a: [b", "line 2: a list in brackets must end on its line, with ']'"),
        ("a: [[b]]", "line 2: nested lists are not supported"),
        ("a:\n  - b\n  c: d", "line 4: every entry of a list must start with '- '"),
        ("a:\n  b: c\n    d: e", "line 4: its indentation differs from the line before it"),
    ],
)
def test_unsupported_front_matter_is_rejected_with_its_line(head: str, message: str) -> None:
    with pytest.raises(FrontmatterError) as raised:
        split(f"---\n{head}\n---\nbody")
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["", "name: a", "---\nname: a\n"])
def test_a_file_without_front_matter_is_rejected(text: str) -> None:
    with pytest.raises(FrontmatterError):
        split(text)


def test_packages_are_read(directory: Path) -> None:
    """B-820."""
    skills = read_skills(directory)
    assert list(skills) == ["greetings", "hidden", "invoices"]
    assert skills["invoices"] == Skill(
        id="invoices",
        description="Write & check invoices.",
        instructions="Write an invoice for $ARGUMENTS.",
        directory=directory / "invoices",
        when_to_use="money: asked for, or owed",
        argument_hint="the customer",
        allowed_tools=("pay", "look"),
    )
    assert list(Skills(directory).skills) == ["greetings", "invoices"]


def test_all_problems_of_packages_are_listed(tmp_path: Path) -> None:
    files = {
        "one/SKILL.md": "no front matter",
        "two/SKILL.md": "---\nname: other\ndescription: d\n---\n",
        "three/SKILL.md": "---\nname: three\n---\n",
        "four/SKILL.md": "---\nname: four\ndescription: d\nalowed-tools: pay\n---\n",
        "five/SKILL.md": "---\nname: five\ndescription: d\ndisable-model-invocation: maybe\n---\n",
        "Six/SKILL.md": "---\nname: Six\ndescription: d\n---\n",
        "seven/SKILL.md": "---\nname: seven\ndescription: [d]\n---\n",
    }
    with pytest.raises(ConfigurationError) as raised:
        Skills(write(tmp_path, files))
    assert len(raised.value.problems) == len(files)
    assert "unknown key 'alowed-tools'" in str(raised.value)
    with pytest.raises(ConfigurationError, match=r"the directory of skills .* does not exist"):
        Skills(tmp_path / "none")


async def test_requests_list_the_skills(directory: Path) -> None:
    """B-820."""
    world = World(agent(Skills(directory)))
    await world.infer()
    (catalogue, input) = world.request.messages
    assert catalogue.text.startswith(
        "<available_skills>\n"
        "<skill><id>greetings</id><description>Say hello.</description></skill>\n"
        "<skill><id>invoices</id><description>Write &amp; check invoices.</description>"
        "<when_to_use>money: asked for, or owed</when_to_use><args>the customer</args></skill>\n"
        "</available_skills>\nSkills are instructions"
    )
    usage = catalogue.text.partition("</available_skills>\n")[2]
    parts = ['skill{"skill": "<id>"} before you start', "from your next step on", "load_skill_resource", "listed here"]
    assert [part for part in parts if part not in usage] == []
    assert input.text == "go"
    assert world.shown == ["load_skill_resource", "look", "pay", "skill"]


def test_the_tools_of_skills_say_when_to_use_them_and_what_comes_back(directory: Path) -> None:
    described = {
        tool.name: f"{tool.descriptor.description} {tool.descriptor.parameters}" for tool in Skills(directory).tools
    }
    parts = {
        "skill": ["before you start", "From your next step on", "<available_skills>", "<args>"],
        "load_skill_resource": ["instructions refer to", "Returns its content", "relative to the skill's directory"],
        "skill_script": ["exit code, stdout and stderr", "scripts directory", "command line arguments"],
    }
    assert {name: [part for part in wanted if part not in described[name]] for name, wanted in parts.items()} == {
        "skill": [],
        "load_skill_resource": [],
        "skill_script": [],
    }


async def test_the_list_of_skills_has_limits(tmp_path: Path) -> None:
    """B-820."""

    def packages(folder: str, count: int, description: str) -> Path:
        head = "---\nname: s-{:03}\ndescription: {}\n---\n"
        files = {f"s-{n:03}/SKILL.md": head.format(n, description) for n in range(count)}
        return write(tmp_path / folder, files)

    for directory, entries in ((packages("many", 40, "short"), 32), (packages("long", 10, "é" * 2000), 4)):
        world = World(agent(Skills(directory)))
        await world.infer()
        catalogue = world.request.messages[0].text.partition("</available_skills>")[0]
        assert (catalogue.count("<skill>"), catalogue.count(f"<id>s-{entries - 1:03}</id>")) == (entries, 1)
        assert len(catalogue.encode()) <= CATALOGUE_BYTES + 100


async def test_an_agent_without_skills_has_no_tools_for_them(tmp_path: Path) -> None:
    world = World(agent(Skills(tmp_path)))
    await world.infer()
    assert (world.shown, len(world.request.messages)) == (["look", "pay"], 1)


async def test_requests_include_the_instructions_of_an_active_skill(directory: Path) -> None:
    """B-821."""
    world = World(agent(Skills(directory)))
    outcome = await world.call_tool("skill", {"skill": "invoices", "args": "Ada"})
    assert outcome.result.data == {"activated": True, "skill_id": "invoices"}
    await world.call_tool("skill", {"skill": "greetings", "args": "loudly"})
    await world.call_tool("skill", {"skill": "invoices", "args": "Bob"})
    await world.call_tool("skill", {"skill": "invoices", "args": "Ada"})
    for _ in range(2):
        await world.infer()
        assert [message.text for message in world.request.messages[1:]] == [
            '<skill id="greetings">\nBe kind.\n\nArguments: loudly\n</skill>',
            '<skill id="invoices">\nWrite an invoice for Ada.\n</skill>',
            "go",
        ]
    assert world.failures == []


@pytest.mark.parametrize("name", ["skill", "load_skill_resource", "skill_script"])
async def test_an_unknown_or_hidden_skill_is_an_error_with_a_code(directory: Path, name: str) -> None:
    """B-820."""
    world = World(agent(Skills(directory), {"allow_scripts": True}))
    more = {"load_skill_resource": {"path": "x"}, "skill_script": {"script": "x"}}.get(name, {})
    for skill in ("nothing", "hidden", "../skills/invoices"):
        outcome = await world.call_tool(name, {"skill": skill, **more})
        message = f"there is no skill {skill!r}; available skills: greetings, invoices"
        assert outcome.result.data == {"error": {"code": "unknown_skill", "message": message}}
    assert world.values == {}


async def test_an_active_skill_allows_its_tools_but_never_denied_ones(directory: Path) -> None:
    """B-821."""
    rules = (Rule(tool="look", behavior=Behavior.DENY),)
    world = World(agent(Skills(directory), permissions=PermissionPolicy(rules=rules)))
    outcome = await world.call_tool("pay", {"amount": 1})
    assert (outcome.result.status, outcome.gated) == ("pending", True)
    world.rules = (Rule(tool="skill", behavior=Behavior.ALLOW),)
    assert (await world.call_tool("skill", {"skill": "invoices"})).result.status == "success"
    assert (await world.call_tool("pay", {"amount": 1})).result.data == "paid 1"
    assert (await world.call_tool("look", {"where": "up"})).blocked == "Tool 'look' denied by permission rules"


async def test_an_active_skill_promotes_its_deferred_tools(directory: Path) -> None:
    """B-821."""
    made = agent(Skills(directory), plugins=[Skills(directory), DeferredTools()])
    made = made.model_copy(update={"plugin_settings": {"deferred_tools": {"keep": 0}}})
    world = World(made)
    await world.infer()
    assert world.shown == ["load_skill_resource", "skill", "tool_search"]
    await world.call_tool("skill", {"skill": "invoices"})
    await world.infer()
    assert world.shown == ["load_skill_resource", "look", "pay", "skill", "tool_search"]


async def test_only_files_of_a_skill_can_be_read(directory: Path, tmp_path: Path) -> None:
    """B-820."""
    package = directory / "invoices"
    (package / "link.txt").symlink_to(directory / "secret.txt")
    (package / "binary").write_bytes(b"\xff\xfe")
    (package / "long").write_text("x" * 200_000)
    world = World(agent(Skills(directory)))
    outcome = await world.call_tool("load_skill_resource", {"skill": "invoices", "path": "notes/taxes.md"})
    assert outcome.result.data == {"skill_id": "invoices", "path": "notes/taxes.md", "content": "Taxes are 19 %."}
    for path, code in {
        "../secret.txt": "invalid_path",
        "notes/../../secret.txt": "invalid_path",
        str(directory / "secret.txt"): "invalid_path",
        "link.txt": "invalid_path",
        "a\0b": "invalid_path",
        "x" * 5000: "invalid_path",
        "nothing.md": "unknown_resource",
        "notes": "unknown_resource",
        "binary": "not_a_text",
        "long": "resource_too_large",
    }.items():
        outcome = await world.call_tool("load_skill_resource", {"skill": "invoices", "path": path})
        assert isinstance(outcome.result.data, dict)
        assert (path[:40], outcome.result.data["error"]["code"]) == (path[:40], code)  # type: ignore[index, call-overload]


async def run(world: World, script: str, *args: str) -> Any:
    outcome = await world.call_tool("skill_script", {"skill": "invoices", "script": script, "args": list(args)})
    return outcome.result.data


async def test_scripts_are_not_allowed_by_default(directory: Path) -> None:
    world = World(agent(Skills(directory)))
    assert (await run(world, "total.py", "1"))["error"]["code"] == "scripts_not_allowed"
    other = Agent(id="a", model="m", tools=["skill_script"])
    registry = Registry(agents=[other], plugins=[Skills(directory)], models={"m": Recording([])})
    world.registry, world.agent = registry, registry.resolve("a")
    outcome = await world.call_tool("skill_script", {"skill": "invoices", "script": "total.py"})
    assert "does not use the plugin 'skills'" in outcome.result.text


async def test_scripts_are_processes_with_arguments(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    world = World(agent(Skills(directory), {"allow_scripts": True}))
    await world.infer()
    assert "skill_script" in world.shown
    assert await run(world, "total.py", "2", "3") == {"exit_code": 0, "stdout": "5\n", "stderr": ""}
    assert await run(world, "scripts/total.py", "2") == {"exit_code": 0, "stdout": "2\n", "stderr": ""}
    assert (await run(world, "total.py", "2; echo 3"))["error"]["code"] == "script_failed"
    assert "SOME_API_KEY" not in (await run(world, "env.py"))["stdout"]
    failed = (await run(world, "fail.sh"))["error"]
    assert failed == {"code": "script_failed", "message": "'fail.sh' exited with code 3\noh no\n"}
    for script in ("../SKILL.md", "/bin/ls"):
        assert (await run(world, script))["error"]["code"] == "invalid_path"
    assert (await run(world, "nothing"))["error"] == {
        "code": "unknown_resource",
        "message": "skill 'invoices' has no file 'nothing'; scripts of this skill: endless.py, env.py, fail.sh, "
        "long.py, slow.py, total.py",
    }
    os.chmod(directory / "invoices/scripts/fail.sh", 0o644)
    assert "cannot be started" in (await run(world, "fail.sh"))["error"]["message"]


async def test_a_script_that_takes_too_long_is_killed(directory: Path) -> None:
    world = World(agent(Skills(directory, script_timeout=0.5), {"allow_scripts": True}))
    async with asyncio.timeout(20):
        assert (await run(world, "slow.py"))["error"] == {
            "code": "script_timeout",
            "message": "'slow.py' took longer than 0.5 s and was killed",
        }


async def test_the_output_of_a_script_is_read_up_to_a_limit(directory: Path) -> None:
    world = World(agent(Skills(directory), {"allow_scripts": True}))
    await world.call_tool("skill", {"skill": "invoices"})
    long = (await run(world, "long.py"))["stdout"]
    assert long == f"{'x' * OUTPUT_LIMIT}\n[output truncated: it has 100,001 bytes]"
    assert (await run(world, "endless.py"))["error"] == {
        "code": "script_failed",
        "message": "'endless.py' was killed: it wrote more than 16,777,216 bytes. Run it in a way that writes less.",
    }


async def test_a_model_activates_a_skill_and_uses_it(serving: Serving, directory: Path, thread_id: str) -> None:
    turns = [
        call("skill", skill="invoices", args="Ada"),
        call("skill_script", skill="invoices", script="total.py", args=["1", "2"]),
        call("pay", amount=3),
        say("{result}"),
    ]
    model = Recording(turns)
    rules = (Rule(tool="skill*", behavior=Behavior.ALLOW),)  # pay needs an approval until the skill allows it
    made = agent(Skills(directory), {"allow_scripts": True}, permissions=PermissionPolicy(rules=rules))
    async with serving(Registry(agents=[made], models={"m": model})) as client:
        result = await client.run("a", "go", thread_id=thread_id)
        transcript = await client.transcript(thread_id)
    assert result.response == "paid 3"
    assert [message.text for message in transcript if message.tool_call_id] == [
        '{"activated":true,"skill_id":"invoices"}',
        '{"exit_code":0,"stdout":"3\\n","stderr":""}',
        "paid 3",
    ]
    told = [any("invoice for Ada" in message.text for message in request.messages) for request in model.requests]
    assert told == [False, True, True, True]
