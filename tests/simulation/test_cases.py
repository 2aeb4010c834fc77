"""Every known defect stays fixed, and its case still shows it where the old code is restored."""

import pytest

from tests.simulation.archive_cases import ARCHIVE_CASES
from tests.simulation.authority_cases import AUTHORITY_CASES
from tests.simulation.cases import CASES, Case
from tests.simulation.mutants import BY_NAME, recorded

EVERY = (*CASES, *ARCHIVE_CASES, *AUTHORITY_CASES)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.play.__name__)
def test_a_known_defect_stays_fixed(case: Case) -> None:
    case.play()


@pytest.mark.faults
@pytest.mark.parametrize("case", [case for case in EVERY if case.mutant], ids=lambda case: case.play.__name__)
def test_a_case_shows_its_defect(case: Case) -> None:
    with BY_NAME[case.mutant].apply(), pytest.raises(Exception) as caught:
        case.play()
    assert f"{caught.typename}: {caught.value}".startswith(case.found_by)


def test_every_mutant_is_found_by_a_seed_or_a_case() -> None:
    assert BY_NAME.keys() == recorded().keys() | {case.mutant for case in EVERY if case.mutant}
