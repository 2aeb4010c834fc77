"""Skills: packages of instructions, files and scripts that a model takes up when it needs them."""

from wakeful.plugins.skills.packages import Skill, read_skills
from wakeful.plugins.skills.plugin import ACTIVE, Activation, Skills, SkillsSettings

__all__ = ["ACTIVE", "Activation", "Skill", "Skills", "SkillsSettings", "read_skills"]
