"""Draw the diagrams of the pages, for the site: `python -m docs.pictures.draw`.

GitHub draws them from the text in the pages. The site shows a picture of each, because it fetches nothing; a diagram
that has no picture yet is shown as text. It needs chromium, and npm to install mermaid into a temporary folder.
"""

import html
import json
import re
import subprocess
import tempfile
from pathlib import Path

from docs.pictures.take import chromium_command
from docs.site import DIAGRAM, DIAGRAMS, ROOT, picture_of

MERMAID = "mermaid@11.12.0"
PAGE = """<!doctype html><meta charset="utf-8"><body>{diagrams}<script src="{script}"></script><script>
mermaid.initialize({{startOnLoad: false, deterministicIds: true, theme: "neutral"}});
mermaid.run().then(() => {{
  const written = [...document.querySelectorAll("svg")].map((svg) => new XMLSerializer().serializeToString(svg));
  document.body.textContent = JSON.stringify(written);
}});
</script>"""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
)


def draw() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    diagrams = [diagram for page in pages for diagram in DIAGRAM.findall(page.read_text())]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, MERMAID], check=True)
        drawn = rendered(diagrams, Path(folder))
    for old in DIAGRAMS.glob("*.svg"):
        old.unlink()
    DIAGRAMS.mkdir(exist_ok=True)
    for diagram, svg in zip(diagrams, drawn, strict=True):
        (DIAGRAMS / picture_of(diagram)).write_text(svg + "\n")


def rendered(diagrams: list[str], folder: Path) -> list[str]:
    """The diagrams as SVG, drawn by a page of headless Chromium."""
    written = "".join(f'<pre class="mermaid">{html.escape(diagram)}</pre>' for diagram in diagrams)
    page = folder / "page.html"
    page.write_text(PAGE.format(diagrams=written, script="node_modules/mermaid/dist/mermaid.min.js"))
    ran = subprocess.run(
        [chromium_command(), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", page.as_uri()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    (body,) = re.findall(r"<body>(.*)</body>", ran.stdout, re.DOTALL)
    return [sized(svg) for svg in json.loads(html.unescape(body))]


def sized(svg: str) -> str:
    """As a file of its own, a picture has a size. Points are rounded: as mermaid writes them, a file has half a MB."""
    ((width, height),) = re.findall(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg)[:1]
    svg = svg.replace('width="100%"', f'width="{float(width):.0f}" height="{float(height):.0f}"', 1)
    svg = re.sub(r' data-points="[^"]*"', "", svg)
    return re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", svg)


if __name__ == "__main__":
    draw()
