"""The code blocks of README and docs run, and the links between the pages lead somewhere.

Python blocks run as `tests/pages.py` says; the commands are looked at in test_doc_commands.py.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pages
import pytest
from pages import PAGES, ROOT, name_of
from speed import patience

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
WITH_CODE = [page for page in PAGES if pages.BLOCK.search(page.read_text())
             and page.name != "CONTRIBUTING.md"]  # its op and its pass are for the package itself


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_runs(page, tmp_path):
    (tmp_path / "run").mkdir()
    done = subprocess.run([sys.executable, ROOT / "tests" / "pages.py", page], cwd=tmp_path,
                          text=True, capture_output=True, timeout=patience(300), check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def test_a_wrong_line_of_a_page_is_found():
    program = pages.Program()
    program.run("print(1 + 1)     # 2\nprint(3)\n# 3\n", "page")
    with pytest.raises(AssertionError, match="line 2 prints '2', not '3'"):
        program.run("x = 1\nprint(x + 1)     # 3", "page")
    with pytest.raises(AssertionError, match=r"lines \[2\] print nothing"):
        program.run("if False:\n    print(1)     # 1", "page")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_flags_that_the_docs_name_exist():
    from hpcflow import config

    known = {flag.name for flag in config.FLAGS}
    for page in PAGES:
        named = set(re.findall(r"HPCFLOW_[A-Z0-9]+(?:_[A-Z0-9]+)*", page.read_text()))
        assert named <= known, f"{page.name}: {named - known}"
