"""Skills for an agent: requests list them, and include the instructions of those that the model activates."""

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
from wakeful.plugins.deferred_tools.plugin import PROMOTED, Promotion
from wakeful.plugins.skills.packages import SCRIPTS, ResourceError, Skill, read_skills
from wakeful.plugins.skills.scripts import TooMuchOutput, run_script

ACTIVATE, LOAD, SCRIPT = "skill", "load_skill_resource", "skill_script"

CATALOGUE_ENTRIES = 32
CATALOGUE_BYTES = 16 * 1024
ARGUMENTS_LIMIT = 4000
"""Characters of a skill's arguments, which every request includes."""

USAGE = (
    "Skills are instructions for particular kinds of work. If a skill fits what you are asked to do, activate it with "
    f'{ACTIVATE}{{"skill": "<id>"}} before you start. You see its instructions from your next step on: follow them. '
    f"Read files that the instructions refer to with {LOAD}. Use only skills that are listed here."
)


class SkillsSettings(BaseModel):
    """What an agent may do with its skills."""

    allow_scripts: bool = False
    """Whether the model may run the scripts of skills, as processes on the worker."""


class Activation(BaseModel):
    """A skill that the run has activated, and its arguments."""

    model_config = ConfigDict(frozen=True)

    skill: str
    args: str = ""


ACTIVE: StateKey[list[Activation]] = StateKey("skills.active", list[Activation], merge="append", default=[])
"""The skills that the run has activated; of several activations of a skill the last one counts."""


class Skills(Plugin[SkillsSettings]):
    """The skills in a directory, which are read when the plugin is constructed.

    Args:
        script_timeout: seconds that a script may run.

    Raises:
        ConfigurationError: a skill cannot be read; all problems are listed.
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
        ctx.add_context("skills", f"{_catalogue(list(self.skills.values()))}\n{USAGE}")
        for id, args in _active(ctx.state.get(ACTIVE)).items():
            if (skill := self.skills.get(id)) is not None:  # it may have been removed since
                ctx.add_context(f"skills.active:{id}", _instructions(skill, args))

    def tool_gate(self, ctx: ToolGate[SkillsSettings]) -> None:
        """Check scripts here, because a hook that fails at the gate blocks the call."""
        if ctx.tool_name == SCRIPT and not ctx.settings.allow_scripts:
            message = "this agent is not allowed to run scripts of skills; do the work without it"
            ctx.set_result(ToolResult.error_with_code(SCRIPT, "scripts_not_allowed", message))

    def after_tool_execute(self, ctx: AfterToolExecute[SkillsSettings]) -> None:
        if ctx.call.name != ACTIVATE or ctx.result.status is not ToolStatus.SUCCESS:
            return
        data = ctx.result.data
        skill = self.skills.get(str(data.get("skill_id"))) if isinstance(data, dict) else None
        if skill is None:
            return
        # They override rules that ask, and rules that deny still win.
        ctx.add_permissions(*(Rule(tool=name, behavior=Behavior.ALLOW) for name in skill.allowed_tools))
        if ctx.state.declares(PROMOTED):
            ctx.state.union(PROMOTED, [Promotion(tool=name, step=ctx.step) for name in skill.allowed_tools])

    def _tools(self) -> tuple[Tool, ...]:
        @tool(name=ACTIVATE, idempotent=True, category="skills")
        def activate(skill: str, ctx: ToolContext, args: str = "") -> ToolResult:
            """Activate a skill from <available_skills>.

            Call it before you start on work that the skill covers. From your next step on you see the skill's
            instructions: follow them.

            Args:
                skill: The id of the skill, as listed in <available_skills>.
                args: The arguments, if the skill lists <args>, such as what to apply it to.
            """
            if (found := self.skills.get(skill)) is None:
                return self._unknown(ACTIVATE, skill)
            if len(args) > ARGUMENTS_LIMIT:
                raise ToolError(
                    f"args has {len(args):,} characters; at most {ARGUMENTS_LIMIT:,} are allowed: shorten it"
                )
            if _active(ctx.state.get(ACTIVE)).get(found.id) != args:
                ctx.state.append(ACTIVE, Activation(skill=found.id, args=args))
            return ToolResult.success(ACTIVATE, {"activated": True, "skill_id": found.id})

        @tool(name=LOAD, read_only=True, category="skills")
        def load(skill: str, path: str) -> ToolResult:
            """Read a text file of a skill, such as one that its instructions refer to. Returns its content.

            Args:
                skill: The id of the skill.
                path: The file's path, relative to the skill's directory.
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
            """Run a script of a skill, as its instructions say. Returns its exit code, stdout and stderr.

            Args:
                skill: The id of the skill.
                script: The script's path, relative to the skill's scripts directory.
                args: The command line arguments, one string each.
            """
            if not ctx.state.declares(
                ACTIVE
            ):  # then our tool_gate does not run, which checks whether scripts are allowed
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
            return ToolResult.error_with_code(SCRIPT, error.code, f"{error}; scripts of this skill: {known}")
        except TimeoutError:
            message = f"{script!r} took longer than {self.script_timeout:g} s and was killed"
            return ToolResult.error_with_code(SCRIPT, "script_timeout", message)
        except TooMuchOutput as error:
            message = f"{script!r} was killed: {error}. Run it in a way that writes less."
            return ToolResult.error_with_code(SCRIPT, "script_failed", message)
        except OSError as error:
            return ToolResult.error_with_code(SCRIPT, "script_failed", f"{script!r} cannot be started: {error}")
        output: dict[str, JsonValue] = {"exit_code": ran.exit_code, "stdout": ran.stdout, "stderr": ran.stderr}
        if ran.exit_code == 0:
            return ToolResult.success(SCRIPT, output)
        failed = f"{script!r} exited with code {ran.exit_code}\n{ran.stderr or ran.stdout}"
        return ToolResult.error_with_code(SCRIPT, "script_failed", failed)

    def _unknown(self, tool_name: str, skill: str) -> ToolResult:
        known = ", ".join(sorted(self.skills)) or "none"
        return ToolResult.error_with_code(
            tool_name, "unknown_skill", f"there is no skill {skill!r}; available skills: {known}"
        )


def _active(activations: list[Activation]) -> dict[str, str]:
    """The arguments of the active skills, by id."""
    return {activation.skill: activation.args for activation in activations}


def _catalogue(skills: list[Skill]) -> str:
    """As many skills, sorted by id, as fit."""
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
