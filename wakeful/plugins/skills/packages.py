"""Skill packages: a directory with a SKILL.md and the files that it refers to."""

import re
from dataclasses import dataclass
from pathlib import Path

from wakeful import ConfigurationError
from wakeful.plugins.skills.frontmatter import FrontmatterError, Value, split

FILE = "SKILL.md"
SCRIPTS = "scripts"
RESOURCE_LIMIT = 128 * 1024
"""The largest file that a model can read, in bytes."""

READ = frozenset({"name", "description", "allowed-tools", "when-to-use", "argument-hint", "disable-model-invocation"})
"""Keys that have a meaning here."""
KNOWN = READ | {"license", "compatibility", "metadata", "arguments", "user-invocable", "model", "context", "paths"}
"""Also the keys of skills for other systems: accepted and ignored."""

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class ResourceError(Exception):
    """A file of a package cannot be read; the model reads the message and the code."""

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
    """By name. Those with conditions, such as `shell(git *)`, are left out: they are for other systems."""
    is_for_models: bool = True
    """False if it says `disable-model-invocation`, which hides it."""

    @property
    def scripts(self) -> tuple[str, ...]:
        folder = self.directory / SCRIPTS
        files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else ()
        return tuple(path.relative_to(folder).as_posix() for path in files)

    def file(self, path: str, *, within: str = "") -> Path:
        """A file of the package.

        Raises:
            ResourceError: the path leads out of the package, for example by a link, or there is no such file.
        """
        root = (self.directory / within).resolve()
        try:
            found = (root / path).resolve()
            if not found.is_relative_to(root) or not root.is_relative_to(self.directory.resolve()):
                raise ResourceError("invalid_path", f"{path!r} is outside of skill {self.id!r}")
            if not found.is_file():
                raise ResourceError("unknown_resource", f"skill {self.id!r} has no file {path!r}")
        except (OSError, ValueError) as error:  # too long, a loop of links, a NUL character
            raise ResourceError("invalid_path", f"{path!r} is not a valid path: {error}") from error
        return found

    def resource(self, path: str) -> str:
        """The text of a file.

        Raises:
            ResourceError: there is no such file, it is too large, or it is not text.
        """
        found = self.file(path)
        if (size := found.stat().st_size) > RESOURCE_LIMIT:
            message = f"{path!r} has {size:,} bytes; at most {RESOURCE_LIMIT:,} can be read"
            raise ResourceError("resource_too_large", message)
        try:
            return found.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ResourceError("not_a_text", f"{path!r} is not a text file") from error


def read_skills(directory: Path) -> dict[str, Skill]:
    """Read the packages in a directory, by id.

    Raises:
        ConfigurationError: a package cannot be read; all problems are listed.
    """
    if not directory.is_dir():
        raise ConfigurationError([f"the directory of skills {str(directory)!r} does not exist"])
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
        raise FrontmatterError(f"name {name!r} must have up to 64 lower-case letters, digits and single hyphens")
    if name != file.parent.name:
        raise FrontmatterError(f"name {name!r} must be the name of its directory, {file.parent.name!r}")
    if not (description := _text(head, "description")):
        raise FrontmatterError("it has no description, by which models choose skills")
    disabled = _text(head, "disable-model-invocation") or "false"
    if disabled not in ("true", "false"):
        raise FrontmatterError(f"disable-model-invocation is {disabled!r}; use true or false")
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
        raise FrontmatterError(f"{key} must be a string")
    return value


def _tool_names(value: Value) -> tuple[str, ...]:
    if isinstance(value, dict):
        raise FrontmatterError("allowed-tools must be names, separated by spaces")
    written = value if isinstance(value, str) else " ".join(value)
    # Parentheses may contain spaces: `shell(git *) read_file` has one plain name, not two.
    tokens = re.findall(r"[^\s,(]+(?:\([^)]*\)?)?", written)
    return tuple(dict.fromkeys(token for token in tokens if _TOOL_NAME.fullmatch(token)))
