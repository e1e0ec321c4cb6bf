"""The digits example as a user runs it: alone and over ranks, from the start and resumed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jobs import run_example

import hpcflow as hf

ROOT = Path(__file__).resolve().parents[3]
FINAL = re.compile(r"test accuracy: (0\.\d{3})")

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")


def run(logdir, *arguments, ranks=1, example="digits_ps"):
    """The lines that the example prints."""
    return run_example([ROOT / f"examples/{example}.py", "--logdir", logdir, *arguments], ranks)


def accuracy(lines):
    return float(FINAL.fullmatch(lines[-1]).group(1))


def scalars(logdir):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(logdir))
    accumulator.Reload()
    assert any(node.name == "hidden/weights" for node in accumulator.Graph().node)
    return {tag: accumulator.Scalars(tag) for tag in accumulator.Tags()["scalars"]}


def test_one_process_learns_and_resumes(tmp_path):
    lines = run(tmp_path, "--steps", "400")
    assert lines[:2] == ["one process", "starting from random weights"]
    assert len([line for line in lines if line.startswith("step ")]) == 10
    assert accuracy(lines) > 0.85
    latest = hf.train.latest_checkpoint(str(tmp_path))
    assert latest.endswith("model.ckpt-400")
    again = run(tmp_path, "--steps", "20")
    assert f"resuming from {latest}" in again
    assert hf.train.NewCheckpointReader(
        hf.train.latest_checkpoint(str(tmp_path))).get_tensor("global_step") == 420
    assert "starting from random weights" in run(tmp_path, "--steps", "10", "--fresh")
    found = scalars(tmp_path)
    assert found["loss"][0].value > found["loss"][20].value
    assert "test_accuracy" in found


@pytest.mark.parametrize(("ranks", "options"), [(4, ["--ps", "2"]), (2, [])])
def test_ranks_learn_and_resume(tmp_path, ranks, options):
    lines = run(tmp_path, "--steps", "300", *options, ranks=ranks)
    servers = int(options[1]) if options else 1
    assert lines[0] == f"{ranks} ranks: {servers} parameter servers, {ranks - servers} workers"
    assert accuracy(lines) > 0.8
    # A single process takes up what the ranks have saved.
    latest = hf.train.latest_checkpoint(str(tmp_path))
    assert f"resuming from {latest}" in run(tmp_path, "--steps", "10")
    scalars(tmp_path)


def test_groups_of_replicas_learn(tmp_path):
    [line] = run(tmp_path, "--steps", "80", "--groups", "2", ranks=3, example="digits_replicas")
    assert line.startswith("2 groups of 1 workers, ")
    assert accuracy([line.partition(" updates, ")[2]]) > 0.5


def test_ranks_that_average_gradients_learn_and_resume(tmp_path):
    lines = run(tmp_path, "--steps", "200", ranks=2, example="digits_allreduce")
    assert lines[0] == "2 ranks"
    assert len([line for line in lines if line.startswith("step ")]) == 10
    assert accuracy(lines) > 0.85
    assert hf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-200")
    again = run(tmp_path, "--steps", "20", example="digits_allreduce")
    assert again[0] == "one process" and accuracy(again) > 0.85
    assert again[-2].endswith("model.ckpt-220")
