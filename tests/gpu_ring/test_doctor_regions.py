"""The doctor tells which regions of a step are launched as graphs, and why others are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.host.tuning import compiler
from hpcflow.tools.cli import main


def test_the_regions_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(config.flags, "cuda_graphs", True)
    monkeypatch.setattr(compiler, "RECORDED_FEWEST", 2)
    path = str(tmp_path / "model.meta")
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [None, 4], name="x")
        hf.reduce_sum(hf.tanh(hf.matmul(x, hf.get_variable("w", [4, 3])) + 1.0), name="y")
        hf.multiply(hf.random_shuffle(x + 1.0), 2.0, name="z")
        hf.train.export_meta_graph(path)
    assert main(["doctor", "--graph", path, "--fetch", "y", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["regions"]
    assert [line.partition(": ")[2] for line in said] == ["as a graph 1 times"], said
    assert main(["doctor", "--graph", path, "--fetch", "z", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["regions"]
    assert any("RandomShuffle keeps state on the host" in line for line in said), said
    monkeypatch.setattr(config.flags, "cuda_graphs", False)
    assert main(["doctor", "--graph", path, "--fetch", "y"]) == 0
    assert "regions of the step\n" in capsys.readouterr().out
