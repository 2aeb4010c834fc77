"""Which of several verdicts on one call counts: block before suspend before set_result, and then the first."""

from wakeful.contract.gates import Block, SetResult, Suspend, Verdict


def stronger(first: Verdict | None, second: Verdict | None) -> Verdict | None:
    """The verdict that counts when both are given, the first one first."""
    return second if _strength(second) > _strength(first) else first


def _strength(verdict: Verdict | None) -> int:
    match verdict:
        case None:
            return 0
        case SetResult():
            return 1
        case Suspend():
            return 2
        case Block():
            return 3
