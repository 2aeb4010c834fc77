"""A built-in provider is one folder and one line, and the page about models mentions it."""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import wakeful_activities.providers as package
from wakeful.authoring.provider import StreamingProvider
from wakeful.registry.content import BUILT_IN_PROVIDERS
from wakeful_activities.providers.built_in import built_in_providers

PACKAGE = package.__name__
LINES = "BUILT_IN_PROVIDERS in wakeful/registry/content.py"
MODELS_PAGE = Path(__file__).parents[3] / "docs" / "models.md"
METHODS = ("stream", "from_env", "aclose")


def folders() -> list[str]:
    """The folders of `wakeful_activities/providers`, but for what they share."""
    root = Path(str(package.__file__)).parent
    found = (folder.name for folder in root.iterdir() if folder.is_dir() and any(folder.glob("*.py")))
    return sorted({*found} - {"shared"})


def problems(folders: list[str], lines: Mapping[str, str], models_page: str) -> list[str]:
    """What is missing, and what to add."""
    listed = {target.removeprefix(f"{PACKAGE}.").partition(".")[0] for target in lines.values()}
    found = [
        f"folder providers/{folder} has no line in {LINES}; "
        f'add for example "{folder}": "{PACKAGE}.{folder}.provider:YourProvider"'
        for folder in folders
        if folder not in listed
    ]
    for name, target in lines.items():
        found += _line_problems(name, target)
        if not re.search(rf"`{re.escape(name)}`|\"{re.escape(name)}/", models_page):
            found.append(f'docs/models.md does not mention provider {name!r}; write `{name}` or "{name}/model" there')
    return found


def _line_problems(name: str, target: str) -> list[str]:
    line = f"the line of {name!r} in {LINES}"
    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        return [f"{line} names module {module_name!r}, which cannot be imported ({error}); add it or correct the line"]
    provider = getattr(module, class_name, None)
    if provider is None:
        return [f"{line} names class {class_name!r}, which {module_name} does not have; add it or correct the line"]
    missing = [method for method in METHODS if not callable(getattr(provider, method, None))]
    return [f"{class_name}, named in {line}, has no method {method!r}; add it" for method in missing]


def test_every_folder_has_a_line_and_every_line_a_provider_that_is_documented() -> None:
    assert problems(folders(), BUILT_IN_PROVIDERS, MODELS_PAGE.read_text()) == []


CHAT = f"{PACKAGE}.openai_chat.provider"


@pytest.mark.parametrize(
    ("folders", "lines", "page", "problem"),
    [
        (
            ["openai_chat", "gemini"],
            {"openai": f"{CHAT}:OpenAIChat"},
            "`openai`",
            f'folder providers/gemini has no line in {LINES}; add for example "gemini": '
            f'"{PACKAGE}.gemini.provider:YourProvider"',
        ),
        (
            [],
            {"gemini": f"{PACKAGE}.gemini.provider:Gemini"},
            '"gemini/pro"',
            f"the line of 'gemini' in {LINES} names module '{PACKAGE}.gemini.provider', which cannot be imported "
            f"(No module named '{PACKAGE}.gemini'); add it or correct the line",
        ),
        (
            [],
            {"openai": f"{CHAT}:Chat"},
            "`openai`",
            f"the line of 'openai' in {LINES} names class 'Chat', which {CHAT} does not have; "
            "add it or correct the line",
        ),
        (
            [],
            {"openai": f"{PACKAGE}.shared.failures:Endpoint"},
            "`openai`",
            f"Endpoint, named in the line of 'openai' in {LINES}, has no method 'stream'; add it",
        ),
        (
            [],
            {"openai": f"{CHAT}:OpenAIChat"},
            "`openai-responses`",
            "docs/models.md does not mention provider 'openai'; write `openai` or \"openai/model\" there",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_to_add(
    folders: list[str], lines: dict[str, str], page: str, problem: str
) -> None:
    assert problems(folders, lines, page)[0] == problem


async def test_a_worker_constructs_and_closes_every_built_in_provider() -> None:
    providers = built_in_providers({})
    assert providers.keys() == BUILT_IN_PROVIDERS.keys()
    for provider in providers.values():
        assert isinstance(provider, StreamingProvider)
        await provider.aclose()
