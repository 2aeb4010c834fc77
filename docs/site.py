"""Hooks of the documentation site: the files of the repository that pages link to are pages of the site, too.

The pages are written for GitHub, with links between files. README.md is the site's first page, and a link from any page
to a file outside docs/ leads to a page that shows that file. GitHub draws diagrams from their text; the site shows
pictures of them, which `docs/pictures/draw.py` draws. Nothing is fetched, and no address of a host is needed.
"""

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files outside docs/ that are pages in the navigation."""

DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DIAGRAMS = ROOT / "docs/pictures/diagrams"
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that is in the navigation, or that a page links to."""
    written = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    waiting = [*PAGES, *linked_outside(written.items())]
    added: set[str] = set()
    while waiting:
        if (path := waiting.pop()) in added or not (ROOT / path).is_file():
            continue
        added.add(path)
        text = (ROOT / path).read_text()
        files.append(File.generated(config, uri_of(path), content=shown(path, text)))
        waiting += linked_outside([(path, text)]) if path.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let the links of a page lead to pages of the site, and show pictures of its diagrams."""
    here = path_of(page.file.src_uri)

    def rewritten(link: str) -> str:
        uri = uri_of(resolved(here, link))
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri)) if files.get_file_from_path(uri) else link

    return with_pictures(with_links(markdown, rewritten), page.file.src_uri)


def with_pictures(markdown: str, uri: str) -> str:
    """The text with the pictures of its diagrams; one that has none is shown as text."""

    def picture(diagram: re.Match[str]) -> str:
        path = DIAGRAMS / picture_of(diagram[1])
        here = posixpath.relpath(path.relative_to(ROOT / "docs").as_posix(), posixpath.dirname(uri))
        return f"![Diagram]({here})" if path.is_file() else diagram[0]

    return DIAGRAM.sub(picture, markdown)


def picture_of(diagram: str) -> str:
    """The name of a diagram's picture: a changed diagram has another one."""
    return f"{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"


def with_links(markdown: str, rewritten: Callable[[str], str]) -> str:
    """The text with other links; code blocks have none."""
    parts = FENCED.split(markdown)
    parts[::2] = [LINK.sub(lambda match: rewritten(match[1]), part) for part in parts[::2]]
    return "".join(parts)


def linked_outside(pages: Iterable[tuple[str, str]]) -> list[str]:
    """The files outside docs/ that these pages link to, by their paths in the repository."""
    links = [
        resolved(path, link) for path, text in pages for part in FENCED.split(text)[::2] for link in LINK.findall(part)
    ]
    return [link for link in links if not link.startswith("docs/")]


def resolved(here: str, link: str) -> str:
    """The path in the repository of what the file `here` links to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), link))


def uri_of(path: str) -> str:
    """Where the site has a file of the repository: code is shown on a page of its own."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return PAGES.get(path) or f"source/{path}" + ("" if path.endswith(".md") else ".md")


def path_of(uri: str) -> str:
    """Where the repository has a page of the site."""
    by_uri = {uri: path for path, uri in PAGES.items()}
    return by_uri.get(uri) or (uri.removeprefix("source/") if uri.startswith("source/") else f"docs/{uri}")


def shown(path: str, text: str) -> str:
    if path.endswith(".md"):
        return text
    return f"# `{path}`\n\n```{LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n```\n"
