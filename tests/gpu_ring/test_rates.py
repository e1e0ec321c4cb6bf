"""The rates that a check of a GPU writes are those that the simulator takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcflow.simulator.cluster import Cluster
from hpcflow.tools.cli import main
from hpcflow.tools.gpu_check import rates

# As of the H100 of docs/gpu.md.
ROWS = [{"stage": "micro", "name": "launch", "us": 9.6, "G_per_s": 0},
        {"stage": "micro", "name": "float32 product", "us": 2690, "G_per_s": 51100},
        {"stage": "micro", "name": "element-wise", "us": 10, "G_per_s": 104},
        {"stage": "micro", "name": "copy on GPU", "us": 215, "G_per_s": 2500},
        {"stage": "micro", "name": "memory", "bytes": 80 << 30}]


def test_a_cluster_of_measured_gpus(tmp_path: Path) -> None:
    found = rates.rates_of(ROWS)
    assert found is not None
    rates.save(found, tmp_path / "rates.json")
    cluster = tmp_path / "cluster.json"
    assert main(["simulate", "--measure", str(cluster), "--gpu", str(tmp_path / "rates.json")]) == 0
    described = Cluster.load(cluster)
    assert [d.type for d in described.infos()] == ["CPU", "CPU", "GPU"]
    gpu = described.rates("/job:worker/replica:0/task:0/device:GPU:0")
    assert gpu.matrix_flops == 51.1e12 and gpu.memory_bandwidth == 2.5e12
    assert gpu.op_overhead == pytest.approx(9.6e-6) and gpu.memory == 80 << 30


def test_what_was_not_measured() -> None:
    assert rates.rates_of(ROWS[:-1]) is None
    assert rates.rates_of([*ROWS[1:], {**ROWS[0], "failed": "no"}]) is None


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"memory": 1}', json.dumps(
    {"matrix_flops": 0, "vector_flops": 1, "memory_bandwidth": 1, "op_overhead": 1, "memory": 1})])
def test_another_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "rates.json"
    path.write_text(text)
    assert main(["simulate", "--measure", str(tmp_path / "c.json"), "--gpu", str(path)]) == 2
    assert "rates.json" in capsys.readouterr().err
