"""The benchmark of a GPU, rehearsed: every kind of case runs, and each row is put down at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_ring.conftest import real_gpus

from hpcflow.tools.bench import gpu, gpu_cases
from hpcflow.tools.bench.registry import BENCHMARKS, Options
from hpcflow.tools.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", ["small network", "perceptron", "conv 5x5 of 27x27x64 to 192: by",
                                  "Adam"])
def test_a_rehearsal(case: str, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    lines = tmp_path / "rows.jsonl"
    place = [] if real_gpus() else ["--stand-in", str(ROOT)]
    assert main(["bench", "gpu", "--quick", "--case", case, "--lines", str(lines), *place]) == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(rows) == sum(case in c.title for c in gpu_cases.cases(small=True))
    assert all(row["failed"] is None and row["hpcflow ms"] > 0 for row in rows), rows
    assert rows[0]["case"] in capfd.readouterr().out


@pytest.mark.timeout(200)
def test_ranks(tmp_path: Path) -> None:
    """An edge and a reduction, with the ways that they took."""
    lines = tmp_path / "rows.jsonl"
    place = [] if real_gpus() else ["--stand-in", str(ROOT)]
    assert main(["bench", "gpu", "--quick", "--case", "two ranks", "--lines", str(lines),
                 *place]) == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(rows) == 2 and all(row["failed"] is None for row in rows), rows
    if not real_gpus():
        assert rows[0]["case"].endswith("ipc") and rows[1]["case"].endswith("nccl"), rows


@pytest.mark.usefixtures("stand_in_only")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture) -> None:
    reason = BENCHMARKS["gpu"].why_not(Options())
    assert reason
    assert main(["bench", "gpu"]) == 2
    assert reason in capsys.readouterr().err


def test_what_does_not_fit_is_left_out() -> None:
    """Within the limit of a caller that has less time than the command."""
    found = list(gpu.rows(Options(quick=True), limit=-1.0))
    assert found and all("left out" in row["failed"] for row in found)
