"""Activities: everything that touches the world. They parse, call and translate; they decide nothing."""

from wakeful_activities.a2a.activity import RemoteAgentActivity
from wakeful_activities.ancestors import AncestorsActivity
from wakeful_activities.archive import ArchiveActivity
from wakeful_activities.compact import CompactActivity
from wakeful_activities.deliver import DeliverActivity
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.hooks.activity import HooksActivity
from wakeful_activities.inference.activity import InferActivity
from wakeful_activities.resolve import ResolveActivity
from wakeful_activities.restore import RestoreActivity
from wakeful_activities.tools.execute import ToolActivity

__all__ = [
    "AncestorsActivity",
    "ArchiveActivity",
    "CompactActivity",
    "DeliverActivity",
    "HistoryCache",
    "HooksActivity",
    "InferActivity",
    "RemoteAgentActivity",
    "ResolveActivity",
    "RestoreActivity",
    "ToolActivity",
]
