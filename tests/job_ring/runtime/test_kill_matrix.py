"""Every role fails in every phase of a job, in every way: a sample of `tests/faults/matrix.py`.

The job ends, not well, says who it was, leaves no process behind and a whole checkpoint. Nothing
would end it later: one that does not end has hung.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from faults import matrix

SAMPLE = matrix.all_cases()[:40]


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Case -> how its job ended: three jobs at a time."""
    folder = tmp_path_factory.mktemp("matrix")

    def run(numbered):
        place = folder / f"case{numbered[0]}"
        place.mkdir()
        return matrix.run_case(numbered[1], place)

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(SAMPLE, pool.map(run, enumerate(SAMPLE)), strict=True))


@pytest.mark.timeout(200)  # the first one waits for all jobs
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: "-".join(case).replace(" ", "_"))
def test_a_rank_that_fails_ends_the_job(ends, case):
    result = ends[case]
    assert not result.wrong, f"{result.wrong}\n{result.output}"


def test_the_sample_has_some_of_everything():
    for number, names in enumerate((matrix.WAYS, matrix.PHASES, matrix.ROLES)):
        assert {case[number] for case in SAMPLE} == set(names)
