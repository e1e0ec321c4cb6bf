"""The workloads of the papers in a small form, and the page that lists them."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest
from speed import patience
from workloads import ROOT, WORKLOADS, Workload, command_of, holds, last_number

pytest.importorskip("sklearn")
PAGE = (ROOT / "docs" / "examples.md").read_text()
NEEDS_MPI = {"heat_surrogate"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: f"{work.name} {work.small}")
def test_reaches_what_it_should(work: Workload, tmp_path) -> None:
    launch, _, arguments = work.small.rpartition(":")
    if launch or work.name in NEEDS_MPI:
        pytest.importorskip("mpi4py")
    done = subprocess.run(command_of(work.name, arguments, launch, tmp_path), cwd=ROOT, text=True,
                          capture_output=True, timeout=patience(300), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert holds(last_number(done.stdout), work.small_bound), done.stdout


def test_the_page_lists_every_example() -> None:
    listed = dict(re.findall(r"^\| `(\w+)\.py` \| (.+?) \|", PAGE, re.MULTILINE))
    files = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
    assert set(listed) == set(files)
    for name, path in files.items():
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert listed[name] == about.splitlines()[0], f"docs/examples.md says other of {name}"
        assert f"examples/{name}.py" in about, f"{path.name} does not say how to run it"
    assert {work.name for work in WORKLOADS} <= set(files)
