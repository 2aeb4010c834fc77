"""The end of a run as lines for a terminal."""

from wakeful.cli.terminal.spending import is_more_than_own, spent_text
from wakeful.cli.terminal.text import printable
from wakeful.contract.runs import RunResult, StopDetail, Stopped


def result_lines(result: RunResult) -> list[str]:
    """What follows the answer: what the tree spent, and which descendants were stopped."""
    lines = []
    if result.spent is not None and is_more_than_own(result.spent, result.usage, result.steps):
        lines.append(f"spent, with all sub-agents: {spent_text(result.spent)}")
    return lines + receipt_lines(result)


def receipt_lines(result: RunResult) -> list[str]:
    """The descendants that a cancel or a stop reached."""
    if result.receipt is None:
        return []
    lines = [f"cancelled: {printable(thread)}" for thread in result.receipt.cancelled]
    return lines + [f"already ended: {printable(thread)}" for thread in result.receipt.ended]


def ending_text(result: RunResult) -> str:
    """Why a run did not end naturally."""
    match result.termination:
        case Stopped(value=value) if value.code == "budget":
            return f"the run was stopped: {value.detail or 'its budget is spent'}"
        case _:
            return f"the run ended as {ended_as(result)}"


def ended_as(result: RunResult) -> str:
    """The reason why a run ended, with the details of a stop."""
    match result.termination:
        case Stopped(value=StopDetail(detail=str(detail))) if detail:
            return f"{result.status_reason}: {printable(detail)}"
        case _:
            return result.status_reason
