"""Skill packages: a directory with a SKILL.md, and whatever files it speaks of."""

import re
from dataclasses import dataclass
from pathlib import Path

from wakeful import ConfigurationError
from wakeful.plugins.skills.frontmatter import FrontmatterError, Value, split

FILE = "SKILL.md"
SCRIPTS = "scripts"
RESOURCE_LIMIT = 128 * 1024
"""Bytes of a file that a model may read."""

READ = frozenset({"name", "description", "allowed-tools", "when-to-use", "argument-hint", "disable-model-invocation"})
"""Keys that mean something here."""
KNOWN = READ | {"license", "compatibility", "metadata", "arguments", "user-invocable", "model", "context", "paths"}
"""Keys that skills written for other systems have: they are taken, and change nothing."""

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class ResourceError(Exception):
    """A file of a package cannot be given; with a code for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Skill:
    id: str
    description: str
    instructions: str
    directory: Path
    when_to_use: str = ""
    argument_hint: str = ""
    allowed_tools: tuple[str, ...] = ()
    """By name. Those with conditions, as `shell(git *)`, are left out: they are for other systems' rules."""
    is_for_models: bool = True
    """False hides it: it says `disable-model-invocation`."""

    @property
    def scripts(self) -> tuple[str, ...]:
        folder = self.directory / SCRIPTS
        files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else ()
        return tuple(path.relative_to(folder).as_posix() for path in files)

    def file(self, path: str, *, within: str = "") -> Path:
        """A file of the package.

        Raises:
            ResourceError: the path leads out of the package, also by a link, or there is no such file.
        """
        root = (self.directory / within).resolve()
        try:
            found = (root / path).resolve()
            if not found.is_relative_to(root) or not root.is_relative_to(self.directory.resolve()):
                raise ResourceError("invalid_path", f"{path!r} leads out of skill {self.id!r}")
            if not found.is_file():
                raise ResourceError("unknown_resource", f"skill {self.id!r} has no file {path!r}")
        except (OSError, ValueError) as error:  # too long, a loop of links, a null character
            raise ResourceError("invalid_path", f"{path!r} is no path: {error}") from error
        return found

    def resource(self, path: str) -> str:
        """A file's text.

        Raises:
            ResourceError: there is no such file, it is too long, or it is no text.
        """
        found = self.file(path)
        if (size := found.stat().st_size) > RESOURCE_LIMIT:
            message = f"{path!r} has {size:,} bytes, and at most {RESOURCE_LIMIT:,} can be read"
            raise ResourceError("resource_too_large", message)
        try:
            return found.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ResourceError("not_a_text", f"{path!r} is no text") from error


def read_skills(directory: Path) -> dict[str, Skill]:
    """The packages that are in a directory, by id.

    Raises:
        ConfigurationError: a package cannot be read; all that is wrong is listed.
    """
    if not directory.is_dir():
        raise ConfigurationError([f"there is no directory of skills at {str(directory)!r}"])
    skills, problems = {}, []
    for file in sorted(directory.glob(f"*/{FILE}")):
        try:
            skill = _read(file)
        except (FrontmatterError, OSError, UnicodeDecodeError) as error:
            problems.append(f"{file}: {error}")
        else:
            skills[skill.id] = skill
    if problems:
        raise ConfigurationError(problems)
    return skills


def _read(file: Path) -> Skill:
    head, body = split(file.read_text(encoding="utf-8"))
    if unknown := sorted(set(head) - KNOWN):
        raise FrontmatterError(f"unknown key {', '.join(map(repr, unknown))}; known: {', '.join(sorted(KNOWN))}")
    name = _text(head, "name")
    if not _ID.fullmatch(name) or len(name) > 64:
        raise FrontmatterError(f"name {name!r} must be of small letters, digits and single hyphens, up to 64")
    if name != file.parent.name:
        raise FrontmatterError(f"name {name!r} is not the name of its directory, {file.parent.name!r}")
    if not (description := _text(head, "description")):
        raise FrontmatterError("it has no description: the model chooses by it")
    disabled = _text(head, "disable-model-invocation") or "false"
    if disabled not in ("true", "false"):
        raise FrontmatterError(f"disable-model-invocation is {disabled!r}; write true or false")
    return Skill(
        id=name,
        description=description,
        instructions=body,
        directory=file.parent,
        when_to_use=_text(head, "when-to-use"),
        argument_hint=_text(head, "argument-hint"),
        allowed_tools=_tool_names(head.get("allowed-tools", "")),
        is_for_models=disabled == "false",
    )


def _text(head: dict[str, Value], key: str) -> str:
    value = head.get(key, "")
    if not isinstance(value, str):
        raise FrontmatterError(f"{key} must be a text")
    return value


def _tool_names(value: Value) -> tuple[str, ...]:
    if isinstance(value, dict):
        raise FrontmatterError("allowed-tools must be names, with spaces between them")
    written = value if isinstance(value, str) else " ".join(value)
    # Brackets may have spaces in them: `shell(git *) read_file` has one name, not two.
    tokens = re.findall(r"[^\s,(]+(?:\([^)]*\)?)?", written)
    return tuple(dict.fromkeys(token for token in tokens if _TOOL_NAME.fullmatch(token)))
