"""The code in docs/plugins.md runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import Serving
from tests.support.processes import ROOT
from wakeful import Registry, ScriptedModel, call, say
from wakeful.authoring.plugin import hook_name
from wakeful.contract.hooks import Phase
from wakeful.plugins.skills.packages import read_skills

PAGE = (ROOT / "docs/plugins.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SKILL,) = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the code of the page defines."""
    package = tmp_path / "skills/invoices"
    package.mkdir(parents=True)
    (package / "SKILL.md").write_text(SKILL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in CODE:
        exec(block, names)
    return names


async def test_the_first_plugin_does_what_the_page_says(serving: Serving, page: Any, thread_id: str) -> None:
    async with serving(page["registry"]) as client:
        result = await client.run("desk", "who is there?", thread_id=thread_id)
        transcript = await client.transcript(thread_id)
        events = [record.event for record in (await client.events(thread_id)).events]
    assert result.status_reason == "stopped:too_many_calls"
    assert [message.text for message in transcript if message.tool_call_id] == [
        "Ada, room 7, card [card]",
        "Ada, room 8, card [card]",
    ]
    audit = [event.payload for event in events if event.event_type == "plugin_event"]
    assert audit == [{"tool": "guest", "arguments": {"room": room}, "status": "success"} for room in (7, 8)]


async def test_the_other_agents_of_the_page_run(serving: Serving, page: Any, thread_id: str) -> None:
    agents = [page[name] for name in ("committer", "clerk", "concierge", "receptionist")]
    model = ScriptedModel([say("it is 5 €")], when={"not accepted": [say("ask my colleague")]})
    async with serving(Registry(agents=agents, models={"default": model})) as client:
        for agent in agents:
            result = await client.run(agent.id, "how much?", thread_id=f"{thread_id}-{agent.id}")
            said = "ask my colleague" if agent.id == "receptionist" else "it is 5 €"
            assert (result.status_reason, result.response) == ("natural", said)


async def test_the_greeter_answers_greetings_itself_b015(serving: Serving, page: Any, thread_id: str) -> None:
    model = ScriptedModel([call("open_case", number=7), say("The case is open.")])
    async with serving(Registry(agents=[page["greeter"]], models={"default": model})) as client:
        greeted = await client.run("greeter", "Hello", thread_id=thread_id)
        transcript = await client.transcript(thread_id)
        opened = await client.run("greeter", "Open case 7.", thread_id=f"{thread_id}-2")
    assert (greeted.status_reason, greeted.response) == ("behavior_requested", "Hello! What can I do for you?")
    assert [message.text for message in transcript] == ["Hello", greeted.response]
    assert (opened.status_reason, opened.response) == ("natural", "The case is open.")


def test_the_skill_of_the_page_is_valid(page: Any) -> None:
    skill = read_skills(Path("skills"))["invoices"]
    assert (skill.allowed_tools, skill.when_to_use) == (("guest",), "a customer asks for money, or owes some")


def test_the_page_names_every_phase() -> None:
    hooks = ["on_activate", *(hook_name(phase) for phase in Phase), "on_deactivate"]
    assert re.findall(r"^\| `(\w+)` \| ", PAGE.partition("## Phases")[2], re.MULTILINE)[: len(hooks)] == hooks
