"""Activities: everything that touches the world. They parse, call and translate; they decide nothing."""

from wakeful_activities.compaction import Compaction
from wakeful_activities.delivery import Delivery
from wakeful_activities.inference.activity import Inference
from wakeful_activities.memory import Memory
from wakeful_activities.resolution import Resolving
from wakeful_activities.restoring import Restoring
from wakeful_activities.tool_execution import ToolExecution

__all__ = [
    "Compaction",
    "Delivery",
    "Inference",
    "Memory",
    "Resolving",
    "Restoring",
    "ToolExecution",
]
