"""Activities: everything that touches the world. They parse, call and translate; they decide nothing."""

from wakeful_activities.compact import Compaction
from wakeful_activities.deliver import Delivery
from wakeful_activities.history_cache import Memory
from wakeful_activities.inference.activity import Inference
from wakeful_activities.resolve import Resolving
from wakeful_activities.restore import Restoring
from wakeful_activities.tools.execute import ToolExecution

__all__ = [
    "Compaction",
    "Delivery",
    "Inference",
    "Memory",
    "Resolving",
    "Restoring",
    "ToolExecution",
]
