"""``hpcflow compare``: where the values of two graphs, or of two runtimes, part."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.tools.cli import main


def write(path, factor):
    rng = np.random.RandomState(0)
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [None, 4], name="x")
        start = hf.constant(rng.rand(4, 6), hf.float32, name="start")
        hidden = hf.nn.dropout(hf.matmul(x, start), 0.5, name="dropped")
        factors = hf.constant(factor * rng.rand(6, 2), hf.float32, name="factors")
        hf.matmul(hidden, factors, name="result")
        hf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="loop")
        variable = hf.Variable(hf.zeros([2]), name="state")
        hf.assign_add(variable, [1.0, 2.0], name="change")
        hf.global_variables_initializer()
        hf.train.Saver()
        hf.train.write_graph(graph, str(path.parent), path.name, as_text=path.suffix == ".pbtxt")


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "a.pb", 1.0)
    write(tmp_path / "b.pbtxt", 1.01)
    np.savez(tmp_path / "f.npz", x=np.ones([3, 4], np.float32))
    return tmp_path


def test_the_first_difference_is_marked(folder, capsys):
    arguments = ["compare", str(folder / "a.pb"), str(folder / "b.pbtxt"), "--feeds",
                 str(folder / "f.npz"), "--init", "init"]
    assert main(arguments) == 1
    text = capsys.readouterr().out
    first = next(line for line in text.splitlines() if "the first over" in line)
    assert first.startswith("factors:0") and "change" in text
    assert main([*arguments, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["first_over"] == "factors:0" and found["over"] == 2
    rows = {row["tensor"]: row for row in found["tensors"]}
    assert rows["result:0"]["relative"] == pytest.approx(0.01 / 1.01, rel=1e-3)
    assert rows["dropped/mul:0"]["absolute"] <= 1e-6  # the same numbers were drawn
    assert "loop/Exit:0" in rows and "loop/Identity:0" not in rows and "change:0" not in rows
    assert not any(name.startswith("save/create") for name in rows)  # it writes a file
    assert main([*arguments, "--bound", "0.1"]) == 0


def test_a_graph_is_compared_with_itself_in_another_process(folder, capsys):
    assert main(["compare", str(folder / "a.pb"), "--peer", f"hpcflow={sys.executable}", "--feeds",
                 str(folder / "f.npz"), "--init", "init", "--nodes", "result|state", "--all"]) == 0
    text = capsys.readouterr().out
    assert "result:0" in text and "state/read:0" in text and "start" not in text


def test_tensors_that_fail_on_one_side_are_over_the_bound(folder, capsys):
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [None, 4], name="x")
        hf.reshape(x, [5], name="result")
        hf.identity(x, name="start")
        hf.train.write_graph(graph, str(folder), "c.pb", as_text=False)
    assert main(["compare", str(folder / "a.pb"), str(folder / "c.pb"), "--feeds",
                 str(folder / "f.npz"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    rows = {row["tensor"]: row["what"] for row in found["tensors"]}
    assert rows["result:0"].startswith("fails in the second")
    assert rows["start:0"] == "shapes [4, 6] and [3, 4]" and found["first_over"] == "start:0"


def test_what_cannot_be_compared_is_said(folder, capsys):
    assert main(["compare", str(folder / "a.pb")]) == 2
    assert "expected a second graph" in capsys.readouterr().err
    graphs = [str(folder / "a.pb"), str(folder / "b.pbtxt")]
    np.savez(folder / "g.npz", y=np.ones(3))
    assert main(["compare", *graphs, "--feeds", str(folder / "g.npz")]) == 2
    assert "no graph has a tensor 'y:0'" in capsys.readouterr().err
    assert main(["compare", *graphs]) == 1
    assert "inputs without a value: x" in capsys.readouterr().out
