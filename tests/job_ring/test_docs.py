"""The Python examples of README and docs run, and the links between the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hpcflow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md",
         *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


@pytest.fixture(autouse=True)
def own_graph():
    with hpcflow.Graph().as_default():
        yield


def run(block, scope):
    exec(compile(block, "<example>", "exec"), scope)


def test_the_first_program_of_the_readme(capsys):
    run(blocks("README.md")[0], {})
    losses = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert losses[-1] < losses[0] / 2


KERAS_NUMBERS = "['accuracy', 'loss', 'val_accuracy', 'val_loss']"


def test_the_guide_runs_from_top_to_bottom(capsys):
    scope = {}
    for block in blocks("docs/guide.md"):
        run(block, scope)
    assert capsys.readouterr().out.splitlines() == ["(?, 2) Softmax", "(4, 2)", "(8, 8, 3)",
                                                    "5.0 [ 0.  -0.6 -0.8] 4.0", "[3.]",
                                                    "['accuracy', 'global_step', 'loss']",
                                                    KERAS_NUMBERS, "(300, 3)",
                                                    "3.0 4 0.0625", "[201.  30.]"]
    assert scope["imported"].op.type == "Softmax"


def test_the_op_of_the_page_on_extending(capsys):
    from hpcflow.graph import opdef

    try:
        run(blocks("docs/extending.md")[0], {})
    finally:
        opdef._OPS.pop("Twice", None)
    assert capsys.readouterr().out == "[2. 4.]\n"


def test_the_checkpoints_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    weights = hpcflow.get_variable("layer/weights", [2, 2])
    with hpcflow.Session() as session:
        session.run(weights.initializer)
        checkpoint = hpcflow.train.Checkpoint(weights=weights)
        scope = {"hf": hpcflow, "session": session, "checkpoint": checkpoint}
        for block in blocks("docs/checkpoints.md"):
            run(block, scope)
    assert "layer|weights" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_flags_that_the_docs_name_exist():
    from hpcflow import config

    known = {flag.name for flag in config.FLAGS}
    for page in PAGES:
        named = set(re.findall(r"HPCFLOW_[A-Z]+(?:_[A-Z]+)*", page.read_text()))
        assert named <= known, f"{page.name}: {named - known}"
