"""The plugins that are compared, and which of them are installed."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class Peer:
    """One way to use a plugin. `module` defines the worker, `workflow` is the workflow type."""

    name: str
    module: str
    workflow: str
    distributions: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        return [name for name in self.distributions if installed_version(name) is None]

    @property
    def versions(self) -> str:
        return ", ".join(f"{name} {installed_version(name)}" for name in self.distributions)


_OPENAI = ("temporalio-openai-agents", "openai-agents")
_LANGGRAPH = ("temporalio-langgraph", "langgraph")
_PYDANTIC = ("pydantic-ai-slim",)

PEERS = (
    Peer("openai-agents", "benchmarks.peers.openai_agents", "OpenAIAgentsRun", _OPENAI),
    Peer("langgraph, Graph API", "benchmarks.peers.langgraph", "LangGraphRun", _LANGGRAPH),
    Peer("langgraph, Functional API", "benchmarks.peers.langgraph", "LangGraphFunctionalRun", _LANGGRAPH),
    Peer("pydantic-ai", "benchmarks.peers.pydantic_ai", "PydanticAIRun", _PYDANTIC),
    Peer("pydantic-ai, continue-as-new", "benchmarks.peers.pydantic_ai", "PydanticAIContinuedRun", _PYDANTIC),
)


def installed_version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
