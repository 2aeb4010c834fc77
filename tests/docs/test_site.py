"""The site's hooks: links between files of the repository lead to pages of the site."""

import re
from pathlib import Path

import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests.support.processes import ROOT


@pytest.fixture(scope="module")
def config() -> MkDocsConfig:
    """The site with its hooks, without its plugins."""
    config = MkDocsConfig(config_file_path=str(ROOT / "mkdocs.yml"))
    config.load_dict({"site_name": "Wakeful", "docs_dir": str(ROOT / "docs"), "plugins": [], "hooks": ["docs/site.py"]})
    assert config.validate() == ([], [])
    return config


def built(config: MkDocsConfig, folder: Path, uri: str, text: str) -> Files:
    """All files of a site that has docs/concepts.md and, at `uri`, a page with this text."""
    (folder / uri).parent.mkdir(parents=True, exist_ok=True)
    (folder / uri).write_text(text)
    here, concepts = File(uri, str(folder), "site", False), File("concepts.md", config.docs_dir, "site", False)
    return config.plugins.on_files(Files([here, concepts]), config=config)


def shown(config: MkDocsConfig, files: Files, uri: str) -> str:
    """The text of the page at `uri`, with its links as the site has them."""
    file = files.get_file_from_path(uri)
    assert file is not None
    page = Page(None, file, config)
    return config.plugins.on_page_markdown(file.content_string, page=page, config=config, files=files)


@pytest.mark.parametrize(
    ("uri", "link", "leads_to"),
    [
        ("here.md", "concepts.md", "concepts.md"),
        ("here.md", "../README.md", "index.md"),
        ("here.md", "../CONTRIBUTING.md#words", "contributing.md#words"),
        ("here.md", "../examples/hello.py", "source/examples/hello.py.md"),
        ("here.md", "../examples/order_desk/README.md", "source/examples/order_desk/README.md"),
        ("reference/here.md", "../concepts.md", "../concepts.md"),
        ("reference/here.md", "../../examples/hello.py", "../source/examples/hello.py.md"),
        ("here.md", "https://docs.temporal.io", "https://docs.temporal.io"),
        ("here.md", "#below", "#below"),
        ("here.md", "../no/such/file.py", "../no/such/file.py"),
    ],
)
def test_a_link_to_a_file_leads_to_its_page(
    config: MkDocsConfig, tmp_path: Path, uri: str, link: str, leads_to: str
) -> None:
    files = built(config, tmp_path, uri, f"See [it]({link}).")
    assert shown(config, files, uri) == f"See [it]({leads_to})."


def test_code_has_no_links(config: MkDocsConfig, tmp_path: Path) -> None:
    text = "```python\ntable[key](../README.md)\n```\n"
    assert shown(config, built(config, tmp_path, "here.md", text), "here.md") == text


def test_the_readme_is_the_first_page_and_its_links_lead_from_there(config: MkDocsConfig, tmp_path: Path) -> None:
    text = shown(config, built(config, tmp_path, "here.md", ""), "index.md")
    assert "[concepts](concepts.md)" in text


def test_a_linked_file_is_shown_with_the_files_that_it_links_to(config: MkDocsConfig, tmp_path: Path) -> None:
    links = "[desk](../examples/order_desk/README.md) [hello](../examples/hello.py)"
    files = built(config, tmp_path, "here.md", links)
    source = (ROOT / "examples/hello.py").read_text().rstrip()
    assert shown(config, files, "source/examples/hello.py.md") == f"# `examples/hello.py`\n\n```python\n{source}\n```\n"
    assert files.get_file_from_path("source/examples/order_desk/worker.py.md") is not None


def test_a_diagram_is_a_picture_and_without_one_it_is_text(config: MkDocsConfig, tmp_path: Path) -> None:
    text = "```mermaid\nflowchart LR\n  a --> b\n```\n"
    assert shown(config, built(config, tmp_path, "here.md", text), "here.md") == text
    first = shown(config, built(config, tmp_path, "here.md", ""), "index.md")
    (picture,) = re.findall(r"!\[Diagram\]\((pictures/diagrams/\w+\.svg)\)", first)
    assert (ROOT / "docs" / picture).read_text().startswith("<svg ")
