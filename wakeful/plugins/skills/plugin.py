"""Skills for an agent: the model is told which there are, takes one up with a tool, and is told its instructions."""

from pathlib import Path
from xml.sax.saxutils import escape

from pydantic import BaseModel, ConfigDict, JsonValue

from wakeful import (
    AfterToolExecute,
    BeforeInference,
    Behavior,
    Plugin,
    Rule,
    StateKey,
    Tool,
    ToolContext,
    ToolError,
    ToolGate,
    ToolResult,
    ToolStatus,
    tool,
)
from wakeful.plugins.deferred_tools import PROMOTED, Promotion
from wakeful.plugins.skills.packages import SCRIPTS, ResourceError, Skill, read_skills
from wakeful.plugins.skills.scripts import run_script

ACTIVATE, LOAD, SCRIPT = "skill", "load_skill_resource", "skill_script"

CATALOGUE_ENTRIES = 32
CATALOGUE_BYTES = 16 * 1024
ARGUMENTS_LIMIT = 4000
"""Characters of a skill's arguments: they are told with every request."""

USAGE = (
    "Skills are instructions for certain kinds of work. When one fits what you are asked to do, take it up with "
    f'{ACTIVATE}{{"skill": "<id>"}} before you begin, and follow its instructions, which you are told from then on. '
    f"Files that they speak of are read with {LOAD}. Use only skills that are listed here."
)


class SkillsSettings(BaseModel):
    allow_scripts: bool = False
    """Whether the model may run the scripts of skills, as programs on the worker."""


class Activation(BaseModel):
    """A skill that the run has taken up, and what for."""

    model_config = ConfigDict(frozen=True)

    skill: str
    args: str = ""


ACTIVE: StateKey[list[Activation]] = StateKey("skills.active", list[Activation], merge="append", default=[])
"""The skills that the run has taken up; of two entries for one skill the last one counts."""


class Skills(Plugin[SkillsSettings]):
    """The skills in a directory. They are read once, when the plugin is made.

    Args:
        script_timeout: seconds that a script may take.

    Raises:
        ConfigurationError: a package cannot be read.
    """

    id = "skills"
    state = (ACTIVE,)

    def __init__(self, directory: Path | str, *, script_timeout: float = 30.0) -> None:
        self.skills = {id: skill for id, skill in read_skills(Path(directory)).items() if skill.is_for_models}
        self.script_timeout = script_timeout
        self.tools = self._tools()

    def before_inference(self, ctx: BeforeInference[SkillsSettings]) -> None:
        if not (ctx.settings.allow_scripts and any(skill.scripts for skill in self.skills.values())):
            ctx.exclude_tools(SCRIPT)
        if not self.skills:
            ctx.exclude_tools(ACTIVATE, LOAD)
            return
        ctx.tell_model("skills", f"{_catalogue(list(self.skills.values()))}\n{USAGE}")
        for id, args in _active(ctx.state.get(ACTIVE)).items():
            if (skill := self.skills.get(id)) is not None:  # it may be gone since
                ctx.tell_model(f"skills.active:{id}", _instructions(skill, args))

    def tool_gate(self, ctx: ToolGate[SkillsSettings]) -> None:
        """At the gate, since a hook that fails there lets no script run."""
        if ctx.tool_name == SCRIPT and not ctx.settings.allow_scripts:
            message = "scripts of skills are not allowed to this agent"
            ctx.set_result(ToolResult.error_with_code(SCRIPT, "scripts_not_allowed", message))

    def after_tool_execute(self, ctx: AfterToolExecute[SkillsSettings]) -> None:
        if ctx.call.name != ACTIVATE or ctx.result.status is not ToolStatus.SUCCESS:
            return
        data = ctx.result.data
        skill = self.skills.get(str(data.get("skill_id"))) if isinstance(data, dict) else None
        if skill is None:
            return
        # Written as nobody writes a rule: it would take the place of one with the same letters, also of one that
        # denies. So it lifts what asks, and what denies still wins.
        ctx.permit(*(Rule(tool=f"{name}( * )", behavior=Behavior.ALLOW) for name in skill.allowed_tools))
        if ctx.state.declares(PROMOTED):
            ctx.state.union(PROMOTED, [Promotion(tool=name, step=ctx.step) for name in skill.allowed_tools])

    def _tools(self) -> tuple[Tool, ...]:
        @tool(name=ACTIVATE, idempotent=True, category="skills")
        def activate(skill: str, ctx: ToolContext, args: str = "") -> ToolResult:
            """Take up a skill: you are told its instructions from the next step on.

            Args:
                skill: The id of the skill.
                args: What it is to be used for, if its instructions ask for that.
            """
            if (found := self.skills.get(skill)) is None:
                return self._unknown(ACTIVATE, skill)
            if len(args) > ARGUMENTS_LIMIT:
                raise ToolError(f"args has {len(args):,} characters, and at most {ARGUMENTS_LIMIT:,} fit")
            if _active(ctx.state.get(ACTIVE)).get(found.id) != args:
                ctx.state.append(ACTIVE, Activation(skill=found.id, args=args))
            return ToolResult.success(ACTIVATE, {"activated": True, "skill_id": found.id})

        @tool(name=LOAD, read_only=True, category="skills")
        def load(skill: str, path: str) -> ToolResult:
            """Read a file of a skill.

            Args:
                skill: The id of the skill.
                path: The file's path in the skill, as its instructions name it.
            """
            if (found := self.skills.get(skill)) is None:
                return self._unknown(LOAD, skill)
            try:
                return ToolResult.success(LOAD, {"skill_id": skill, "path": path, "content": found.resource(path)})
            except ResourceError as error:
                return ToolResult.error_with_code(LOAD, error.code, str(error))

        @tool(name=SCRIPT, timeout=self.script_timeout + 30, category="skills")
        async def script_of_skill(
            skill: str, script: str, ctx: ToolContext, args: list[str] | None = None
        ) -> ToolResult:
            """Run a script of a skill.

            Args:
                skill: The id of the skill.
                script: The script's path in the skill's directory of scripts.
                args: Its arguments.
            """
            if not ctx.state.declares(ACTIVE):  # no plugin is asked then whether scripts are allowed
                raise ToolError(f"agent {ctx.identity.agent_id!r} does not use the plugin 'skills'")
            if (found := self.skills.get(skill)) is None:
                return self._unknown(SCRIPT, skill)
            return await self._run(found, script.removeprefix(f"{SCRIPTS}/"), args or [])

        return activate, load, script_of_skill

    async def _run(self, skill: Skill, script: str, args: list[str]) -> ToolResult:
        try:
            file = skill.file(script, within=SCRIPTS)
            ran = await run_script(file, args, directory=skill.directory, seconds=self.script_timeout)
        except ResourceError as error:
            known = ", ".join(skill.scripts) or "none"
            return ToolResult.error_with_code(SCRIPT, error.code, f"{error}; scripts: {known}")
        except TimeoutError:
            message = f"{script!r} took longer than {self.script_timeout:g} s and was killed"
            return ToolResult.error_with_code(SCRIPT, "script_timeout", message)
        except OSError as error:
            return ToolResult.error_with_code(SCRIPT, "script_failed", f"{script!r} cannot be started: {error}")
        said: dict[str, JsonValue] = {"exit_code": ran.exit_code, "stdout": ran.stdout, "stderr": ran.stderr}
        if ran.exit_code == 0:
            return ToolResult.success(SCRIPT, said)
        failed = f"{script!r} ended with code {ran.exit_code}\n{ran.stderr or ran.stdout}"
        return ToolResult.error_with_code(SCRIPT, "script_failed", failed)

    def _unknown(self, tool_name: str, skill: str) -> ToolResult:
        known = ", ".join(sorted(self.skills)) or "none"
        return ToolResult.error_with_code(tool_name, "unknown_skill", f"there is no skill {skill!r}; known: {known}")


def _active(activations: list[Activation]) -> dict[str, str]:
    """The arguments of the skills that are taken up, by id."""
    return {activation.skill: activation.args for activation in activations}


def _catalogue(skills: list[Skill]) -> str:
    """As many entries, by id, as fit."""
    lines, size = [], 0
    for skill in sorted(skills, key=lambda skill: skill.id)[:CATALOGUE_ENTRIES]:
        line = _entry(skill)
        size += len(line.encode()) + 1
        if size > CATALOGUE_BYTES:
            break
        lines.append(line)
    return "\n".join(("<available_skills>", *lines, "</available_skills>"))


def _entry(skill: Skill) -> str:
    parts = {
        "id": skill.id,
        "description": skill.description,
        "when_to_use": skill.when_to_use,
        "args": skill.argument_hint,
    }
    inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts.items() if text)
    return f"<skill>{inside}</skill>"


def _instructions(skill: Skill, args: str) -> str:
    text = skill.instructions.replace("$ARGUMENTS", args)
    if args and text == skill.instructions:
        text = f"{text}\n\nArguments: {args}"
    return f'<skill id="{skill.id}">\n{text}\n</skill>'
