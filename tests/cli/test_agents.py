"""`wakeful agents` lists the agents of a registry, with those of other services."""

import json
from pathlib import Path

from tests.support.agent_cards import card_server, unused_url
from tests.support.processes import wakeful
from wakeful.contract.capabilities import A2A, LOCAL


async def test_agents_are_listed_with_source_tools_and_capabilities(tmp_path: Path) -> None:
    """B-626, B-630"""
    async with card_server() as server:
        server.offer("Weather", description="Tells the weather.")
        files = tmp_path / "agents.toml"
        files.write_text(
            f'[source.partner]\nurl = "{server.url}"\n'
            '[agent.boss]\ninstructions = "Be kind."\ndelegates = ["partner/weather"]\n'
        )
        ran = await wakeful("agents", "--agents", str(files))
        assert (ran.code, ran.err) == (0, "")
        rows = [[cell.strip() for cell in line.split("  ") if cell] for line in ran.out.splitlines()]
        assert rows[:2] == [
            ["AGENT", "SOURCE", "SUPPORTS", "TOOLS", "DESCRIPTION"],
            ["boss", "local", "everything", "agent_run_partner__weather", "Be kind."],
        ]
        assert rows[2][:3] == ["partner/weather", "partner", "no overrides, frontend_tools"]
        assert rows[2][-1] == "Tells the weather."
        ran = await wakeful("agents", "--agents", str(files), "--json")
        boss, weather = map(json.loads, ran.out.splitlines())
        del weather["tools"]  # they are the runtime's, and not of this test
        assert [boss, weather] == [
            {
                "id": "boss",
                "source": "local",
                "description": "Be kind.",
                "tools": ["agent_run_partner__weather"],
                "capabilities": LOCAL.model_dump(),
            },
            {
                "id": "partner/weather",
                "source": "partner",
                "description": "Tells the weather.",
                "capabilities": A2A.model_dump(),
            },
        ]


async def test_sources_that_fail_are_shown_with_the_agents_of_the_others(tmp_path: Path) -> None:
    """B-627"""
    async with card_server() as server:
        files, away = tmp_path / "agents.toml", unused_url()
        files.write_text(f'[source.partner]\nurl = "{server.url}"\n[source.away]\nurl = "{away}"\n')
        ran = await wakeful("agents", "--agents", str(files), "--json")
        why = f"All connection attempts failed ({away}/.well-known/agent-card.json)"
        listed, failure = map(json.loads, ran.out.splitlines())
        assert (ran.code, ran.err) == (1, f"wakeful: source 'away': {why}\n")
        assert (listed["id"], failure) == ("partner/weather", {"source": "away", "error": why})


async def test_a_registry_without_agents_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    ran = await wakeful("agents", "--agents", str(tmp_path / "empty.toml"))
    assert (ran.code, ran.out) == (0, "the registry has no agents\n")
