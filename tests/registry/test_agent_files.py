"""Agents in files: every field that is data, and all problems at once, with file and line."""

import asyncio
import re
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import BaseModel

from wakeful import (
    Agent,
    Behavior,
    Budget,
    ConfigurationError,
    GateCall,
    McpServer,
    Price,
    Registry,
    Secret,
    ToolMode,
    gate,
    tool,
)
from wakeful.authoring.plugin import Plugin
from wakeful.contract.context import ContextPolicy
from wakeful.registry.agent_files import read_agents
from wakeful.registry.located_files import KeyPath, LocatedFile, read_located_file
from wakeful.registry.reloading import (
    Refused,
    Reloaded,
    ReloadOutcome,
    Unchanged,
    describe_outcome,
    reload,
    reloading_on_change,
)


@tool
def look(where: str) -> str:
    """Look."""
    return where


@gate
def careful(call: GateCall) -> None:
    """Look twice."""


class AuditSettings(BaseModel):
    level: int = 1


class Audit(Plugin[AuditSettings]):
    id = "audit"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip("\n"))
    return path


def problems(directory: Path, registry: Registry | None = None) -> list[str]:
    """The problems of a registry with the agent files of a directory, with locations relative to it."""
    with pytest.raises(ConfigurationError) as error:
        (registry or Registry(tools=[look], gates=[careful], plugins=[Audit()])).copy(agent_files=[directory])
    return [problem.replace(f"{directory}/", "") for problem in error.value.problems]


def test_every_field_that_is_data_can_be_written_in_a_file(tmp_path: Path) -> None:
    """B-624."""
    write(tmp_path / "prompts" / "clerk.md", "Be exact.\nBe kind.\n")
    write(
        tmp_path / "clerk.toml",
        """
        [agent.clerk]
        instructions_file = "prompts/clerk.md"
        model = "main"
        fallbacks = ["default"]
        settings = { temperature = 0.5 }
        retry.max_retries = 5
        tools = ["look"]
        tool_mode = "parallel"
        gates = ["careful"]
        plugins = ["audit"]
        delegates = ["helper"]
        messages = true
        max_rounds = 3
        output = { type = "object" }

        [agent.clerk.permissions]
        default_behavior = "allow"
        rules = [{ tool = "look", behavior = "ask" }]

        [agent.clerk.budget]
        cost = 1.5

        [agent.clerk.context]
        max_context_tokens = 50_000

        [agent.clerk.plugin_settings.audit]
        level = 2

        [agent.helper]
        """,
    )
    prices = {"main": Price(input=1, output=2), "default": Price(input=0, output=0)}
    parts = Registry(tools=[look], gates=[careful], plugins=[Audit()], models={"main": "openai/big"}, prices=prices)
    registry = parts.copy(agent_files=[tmp_path])
    assert dict(registry.agents["clerk"]) == dict(
        Agent.model_validate(
            {
                "id": "clerk",
                "instructions": "Be exact.\nBe kind.",
                "model": "main",
                "fallbacks": ["default"],
                "settings": {"temperature": 0.5},
                "retry": {"max_retries": 5},
                "tools": ["look"],
                "tool_mode": ToolMode.PARALLEL,
                "gates": ["careful"],
                "plugins": ["audit"],
                "delegates": ["helper"],
                "messages": True,
                "max_rounds": 3,
                "output": {"type": "object"},
                "permissions": {"default_behavior": Behavior.ALLOW, "rules": [{"tool": "look", "behavior": "ask"}]},
                "budget": Budget(cost=1.5),
                "context": ContextPolicy(max_context_tokens=50_000),
                "plugin_settings": {"audit": {"level": 2}},
            }
        )
    )
    assert registry.resolve("clerk").plugins[0].settings == {"level": 2}
    assert [path.name for path in registry.files_read] == ["clerk.toml", "clerk.md"]


@pytest.mark.parametrize(
    "text",
    ['[[agent]]\nid = "a"\n[[agent]]\nid = "b"', "[agent.a]\n[agent.b]", '[agent.a]\nid = "a"\n[agent]\nb = {}'],
)
def test_a_file_has_several_agents(tmp_path: Path, text: str) -> None:
    write(tmp_path / "two.toml", text)
    assert sorted(Registry(agent_files=[tmp_path]).agents) == ["a", "b"]


def test_a_file_has_one_agent_or_none(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "one.toml", '[agent]\nid = "a"\n[agent.settings]\ntemperature = 1')
    write(tmp_path / "none.toml", "# nothing yet")
    write(tmp_path / ".hidden" / "other.toml", '[agent]\nid = "b"')
    write(tmp_path / "readme.md", "no agent")
    assert sorted(Registry(agent_files=[tmp_path]).agents) == ["a"]
    assert sorted(Registry(agent_files=[str(tmp_path / "deep" / "one.toml")]).agents) == ["a"]


def test_all_problems_of_all_files_are_listed_with_file_and_line(tmp_path: Path) -> None:
    """B-621, B-622, B-624."""
    write(
        tmp_path / "a.toml",
        '''
        titel = "agents"

        [[agent]]
        id = "clerk"
        instruction = """
        max_rounds = "this is text"
        """
        max_rounds = "many"
        tools = [
            "look",
            "fly",   # there is no such tool
        ]
        settings.temprature = 1
        model = "gpt"

        [[agent]]
        instructions = "Who am I?"
        ''',
    )
    write(
        tmp_path / "b.toml",
        """
        [agent.clerk]
        delegates = ["unknown"]

        [agent.auditor]
        plugins = ["audit", "gone"]
        gates = ["gone"]
        handoffs = ["auditor"]
        permissions.rules = [
            { tool = "look", behavior = "never" },
        ]

        [agent.auditor.plugin_settings.audit]
        level = "high"

        [agent.coded]
        state = ["visits"]
        output = "text"
        instructions_file = "missing.md"
        """,
    )
    code = Registry(agents=[Agent(id="coded")], tools=[look], plugins=[Audit()])
    assert problems(tmp_path, code) == [
        "a.toml:1: unknown key 'titel'; a file has [[agent]], [agent.<id>], [mcp.<name>] and [source.<name>] tables",
        "a.toml:5: agent 'clerk': unknown key 'instruction'; did you mean 'instructions'?",
        "a.toml:8: agent 'clerk': max_rounds should be a valid integer, unable to parse string as an integer, "
        "not 'many'",
        "a.toml:11: agent 'clerk' names unknown tool 'fly'; registered: look",
        "a.toml:13: agent 'clerk': unknown key 'temprature' in settings",
        "a.toml:14: agent 'clerk' names unknown model 'gpt'; registered: default",
        "a.toml:16: 'id' is missing",
        "b.toml:1: agent 'clerk' is registered twice: here and at a.toml:4",
        "b.toml:5: agent 'auditor' names unknown plugin 'gone'; registered: audit",
        "b.toml:6: agent 'auditor' names unknown gate 'gone'; registered: none",
        "b.toml:7: agent 'auditor' hands off to itself; remove it from its handoffs",
        "b.toml:9: agent 'auditor': permissions.rules[0].behavior should be 'allow', 'ask' or 'deny', not 'never'",
        "b.toml:12: agent 'auditor': the settings of plugin 'audit' are invalid: level: Input should be a valid "
        "integer, unable to parse string as an integer",
        "b.toml:15: agent 'coded' is registered twice: here and in code",
        "b.toml:16: agent 'coded': state[0] can only be set in code",
        "b.toml:17: agent 'coded': output must be a table with a JSON schema; use code for a type",
        "b.toml:18: instructions_file 'missing.md' cannot be read: No such file or directory",
    ]


def test_an_unreadable_file_is_reported_and_its_agents_do_not_count_as_unknown(tmp_path: Path) -> None:
    write(tmp_path / "a.toml", '[agent.a]\ndelegates = ["b"]\ntools = ["fly"]')
    write(tmp_path / "b.toml", '[agent.b]\n\ninstructions = "Be\nbrief."')
    write(tmp_path / "c.toml", "[agent.c]\ntools = [")
    assert problems(tmp_path) == [
        "a.toml:3: agent 'a' names unknown tool 'fly'; registered: look",
        "b.toml:3: not TOML: Illegal character '\\n'",
        "c.toml:2: not TOML: Invalid value",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent = 3", "a.toml:1: 'agent' is not an agent: write [[agent]] or [agent.<id>]"),
        ("[agent]\nmodel = 'x'", "a.toml:2: 'model' is not an agent: write [[agent]] or [agent.<id>]"),
        ("[agent.a]\nid = 'b'", "a.toml:2: agent 'a' has the id 'b'; remove one of the two"),
        ("[agent.a]\ninstructions = 'x'\ninstructions_file = 'y'", "a.toml:3: agent 'a' has instructions and an"),
        ("[agent.a]\ninstructions_file = 3", "a.toml:2: instructions_file must be a path, not 3"),
        ("[agent.a]\ntools = 'look'", "a.toml:2: agent 'a': tools: 'str' instances are not allowed as a Sequence"),
        ("[agent.a]\ntools = [3]", "a.toml:2: agent 'a': tools[0] should be a valid string, not 3"),
    ],
)
def test_invalid_agents_are_rejected(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "a.toml", text)
    (found,) = problems(tmp_path)
    assert found.startswith(problem), found


ODD_TOML = '''# a comment with [brackets] and "quotes
"quoted.name" = "]#" # another
text = """
[no.table]
no = "key" \\""" still text""""
literal = \'\'\'
it's [[no]] table\'\'\'
when = 1979-05-27 07:32:00
[[agent]]
list = [ # a comment, with ]
  "one", [2.5,
  3], { a = 1, b.c = [true] },
]
[[agent.inner]]
x = 1
[[agent.inner]]
  [agent.inner."deep.er".still]
  y = {}
[[agent]]
list = []
[agent.inner]
z = -inf
'''


def test_every_key_of_a_toml_file_has_its_line(tmp_path: Path) -> None:
    file = read_located_file(write(tmp_path / "odd.toml", ODD_TOML))
    assert isinstance(file, LocatedFile)
    assert set(keys(tomllib.loads(ODD_TOML))) == set(file.lines)
    assert [
        file.lines[key]
        for key in [
            ("quoted.name",),
            ("literal",),
            ("when",),
            ("agent", 0, "list", 1, 1),
            ("agent", 0, "list", 2, "b", "c", 0),
            ("agent", 0, "inner", 1),
            ("agent", 0, "inner", 1, "deep.er", "still", "y"),
            ("agent", 1, "inner", "z"),
        ]
    ] == [2, 6, 8, 12, 12, 16, 18, 22]


def keys(data: object, key: KeyPath = ()) -> list[KeyPath]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for name, value in inner for found in ((*key, name), *keys(value, (*key, name)))]


def test_the_agents_in_the_docs_are_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "registries.md").read_text()
    block, remote = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    write(tmp_path / "support.toml", block)
    write(tmp_path / "remote.toml", remote)
    write(tmp_path / "support.md", "Be kind.")
    assert problems(tmp_path, Registry(plugins=[Audit()], models={"main": "openai/big"}, tools=[look])) == [
        "support.toml:5: agent 'support' names unknown tool 'refund'; registered: look",
        "support.toml:5: agent 'support' names unknown tool 'order'; registered: look",
        "support.toml:5: agent 'support' names unknown tool 'give_up'; registered: look",
        "support.toml:6: agent 'support' names unknown gate 'office_hours'; registered: none",
    ]


def test_stop_conditions_and_tool_choices_are_data(tmp_path: Path) -> None:
    write(
        tmp_path / "a.toml",
        """
        [agent.clerk]
        tools = ["look"]
        allowed_tools = ["lok"]
        stop_conditions = [
            { type = "max_rounds", rounds = 3 },
            { type = "content_match", pattern = "(" },
        ]
        """,
    )
    choice, pattern = problems(tmp_path)
    assert choice.startswith("a.toml:3: agent 'clerk': 'lok' in allowed_tools matches no tool of the agent")
    assert pattern.startswith("a.toml:6: agent 'clerk': content_match: ")


def test_a_path_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    assert [str(problem) for problem in read_agents([tmp_path / "typo"]).problems] == [
        f"{tmp_path}/typo: no such file or directory"
    ]


def test_yaml_is_read_with_its_lines(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    write(
        tmp_path / "a.yaml",
        """
        agent:
          clerk:
            instructions: |
              Be exact.
              Be kind.
            tools:
              - look
              - fly
          helper:
            max_round: 3
        """,
    )
    write(tmp_path / "b.yml", "agent:\n  - id: c\n    id: d\n")
    write(tmp_path / "c.yml", "agent: [\n")
    assert problems(tmp_path) == [
        "a.yaml:8: agent 'clerk' names unknown tool 'fly'; registered: look",
        "a.yaml:10: agent 'helper': unknown key 'max_round'; did you mean 'max_rounds'?",
        "b.yml:3: not YAML: the key 'id' is repeated",
        "c.yml:2: not YAML: expected the node content, but found '<stream end>'",
    ]


def test_a_reload_lists_the_changes_and_puts_them_in_force(tmp_path: Path) -> None:
    write(tmp_path / "a.toml", '[agent.a]\ninstructions = "Be brief."\n[agent.b]\n')
    registry = Registry(agents=[Agent(id="coded")], agent_files=[tmp_path])
    write(tmp_path / "a.toml", '# only moved\n[agent.a]\ninstructions = "Be brief."\n[agent.b]\n')
    assert reload(registry) == Unchanged(1)
    write(tmp_path / "a.toml", '[agent.a]\ninstructions = "Be kind."\n[agent.c]\n')
    outcome = reload(registry)
    assert outcome == Reloaded(2, added=("c",), changed=("a",), removed=("b",))
    assert describe_outcome(outcome) == "agents reloaded, version 2 is in force: added c; changed a; removed b"
    assert registry.resolve("a").instructions == "Be kind."


def test_a_reload_with_problems_leaves_the_old_version_in_force(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "[agent.a]\n")
    registry = Registry(agent_files=[tmp_path])
    write(file, '[agent.a]\nmodel = "gpt"\n[agent.b]\n')
    outcome = reload(registry)
    assert outcome == Refused(1, (f"{file}:2: agent 'a' names unknown model 'gpt'; registered: default",))
    assert describe_outcome(outcome) == (
        "agents not reloaded, version 1 stays in force:\n"
        f"  {file}:2: agent 'a' names unknown model 'gpt'; registered: default"
    )
    assert registry.snapshot().agents == ("a",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "agent:\n  a:\n    instructions: 2024-13-45\n", "the file cannot be read: month must be in 1..12"),
        ("a.yaml", "agent:\n  a:\n    plugin_settings: &x\n      y: *x\n", "nested too deeply or recursively"),
        (
            "a.toml",
            f"[agent.a]\nplugin_settings = {'{a=' * 2000}1{'}' * 2000}\n",
            "nested too deeply or recursively",
        ),
        ("a.toml", '[agent.a]\ninstructions_file = "a\\u0000b"\n', "cannot be read: embedded null byte"),
    ],
)
def test_what_parsers_raise_is_a_problem_of_the_file(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    (problem,) = read_agents([tmp_path]).problems
    assert message in problem.message
    assert problem.location is not None
    assert problem.location.file == str(tmp_path / name)


async def test_polling_survives_every_failure_of_a_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[agent.a]\ninstructions = "one"\n')
    registry = Registry(agent_files=[file], models={"default": "openai/big"})

    def broken() -> Registry:
        raise ZeroDivisionError("oh no")

    outcomes: asyncio.Queue[ReloadOutcome] = asyncio.Queue()
    async with reloading_on_change(registry, outcomes.put_nowait, every=0.01):
        with monkeypatch.context() as patched:
            patched.setattr(registry, "copy", broken)
            file.write_text('[agent.a]\ninstructions = "two"\n')
            refused = await asyncio.wait_for(outcomes.get(), 5)
        assert refused == Refused(1, ("the agents cannot be read: ZeroDivisionError: oh no",))
        file.write_text('[agent.a]\ninstructions = "three"\n')
        assert await asyncio.wait_for(outcomes.get(), 5) == Reloaded(2, changed=("a",))


def test_mcp_servers_are_tables_that_agents_refer_to_by_name(tmp_path: Path) -> None:
    """B-830"""
    write(
        tmp_path / "desk.toml",
        """
        [agent.clerk]
        mcp = ["git", "desk"]
        excluded_tools = ["mcp__git__push*"]

        [mcp.git]
        command = ["uvx", "mcp-server-git"]
        env = { GIT_TOKEN = { env = "GIT_TOKEN" }, LANG = "C" }
        permissions = { "reset*" = "deny" }

        [mcp.desk]
        url = "https://desk.example.com/mcp"
        token = { env = "DESK_TOKEN" }
        """,
    )
    registry = Registry(agent_files=[tmp_path])
    assert [server.name for server in registry.mcp_servers_of("clerk")] == ["git", "desk"]
    assert registry.mcp_servers["git"] == McpServer(
        name="git",
        command=["uvx", "mcp-server-git"],
        env={"GIT_TOKEN": Secret(env="GIT_TOKEN"), "LANG": "C"},
        permissions={"reset*": Behavior.DENY},
    )
    assert registry.mcp_servers["desk"].token == Secret(env="DESK_TOKEN")


def test_problems_with_mcp_servers_are_located(tmp_path: Path) -> None:
    """B-830"""
    write(
        tmp_path / "a.toml",
        """
        [agent.clerk]
        mcp = ["git", "gone"]

        [mcp.git]
        command = ["x"]
        tols = []

        [mcp.both]
        command = ["x"]
        url = "http://x/mcp"
        """,
    )
    write(tmp_path / "b.toml", 'mcp = ["git"]')
    assert problems(tmp_path) == [
        "a.toml:2: agent 'clerk' names unknown MCP server 'git'; registered: none",
        "a.toml:2: agent 'clerk' names unknown MCP server 'gone'; registered: none",
        "a.toml:6: MCP server 'git': unknown key 'tols'; did you mean 'tools'?",
        "a.toml:8: MCP server 'both': give command, a program to start, or url, an endpoint",
        "b.toml:1: mcp is not a table of servers: write [mcp.<name>] and the settings under it",
    ]


def test_mcp_servers_in_code_are_checked_against_each_other() -> None:
    """B-830"""

    @tool(name="mcp__git__log")
    def log() -> None:
        """Take a name of a server's tools."""

    git = McpServer(name="git", command=["a"])
    agents = [Agent(id="a", mcp=[git, "other", "git"]), Agent(id="b", mcp=[McpServer(name="git", command=["b"])])]
    similar = [McpServer(name="my git", command=["a"]), McpServer(name="my.git", command=["a"])]
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=agents, mcp_servers=similar, tools=[log])
    assert list(error.value.problems) == [
        "MCP server 'git' is registered twice, with different settings: rename one of them",
        "the tools of MCP servers 'my git' and 'my.git' would both be called mcp__my_git__…: rename one",
        "tool 'mcp__git__log' has a name of the tools of MCP server 'git'; rename it",
        "agent 'a' names unknown MCP server 'other'; registered: git, my git, my.git",
        "agent 'a' lists MCP servers twice: git",
    ]
