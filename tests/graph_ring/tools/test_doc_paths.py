"""The documentation names files that exist, and the passes in the order in which they run."""

from __future__ import annotations

import re

import pages
import pytest
from pages import ROOT, name_of

from hpcflow.compiler import passes

PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.py)`")
PAGES = [page for page in pages.PAGES
         if page.name != "CONTRIBUTING.md"]  # it tells how to write files that are not there


def missing(text: str) -> list[str]:
    """The paths of Python files in `text` that lead nowhere, from any of three places."""
    places = [ROOT, ROOT / "hpcflow", ROOT / "tests"]
    return [path for path in PATH.findall(text)
            if not any((place / path).is_file() for place in places)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page):
    assert missing(page.read_text()) == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name in ("docs", "tutorials")],
                         ids=name_of)
def test_a_page_begins_with_a_sentence_that_says_what_it_is_for(page):
    text = page.read_text()
    if text.startswith("```{include}"):
        return  # another file is the page
    title, blank, first = text.splitlines()[:3]
    assert title.startswith("# ") and not blank and re.match(r"[`\w]", first), text[:200]


def test_a_path_that_leads_nowhere_is_found():
    text = "See `graph/graph.py`, `tests/layers.py`, `layers.py` and `graph/no_such_file.py`."
    assert missing(text) == ["graph/no_such_file.py"]


def test_the_architecture_page_lists_the_passes_in_their_order():
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\d+\. \*\*([\w ]+?)( \+)?\*\*:", page, re.MULTILINE)
    assert listed[0][0] == "prune"
    assert listed[1 : len(passes.PASSES) + 1] == [
        (name, " +" if optional else "") for name, _, optional in passes.PASSES]
    assert [name for name, _ in listed[len(passes.PASSES) + 1 :]] == [
        "partition", "schedule", "late receives"]
