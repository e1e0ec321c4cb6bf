"""The command that checks a GPU, rehearsed: what fails is put down, and repeated on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_ring.conftest import real_gpus

from hpcflow.tools.cli import main
from hpcflow.tools.gpu_check import written
from hpcflow.tools.gpu_check.results import Results, failures
from hpcflow.tools.gpu_check.stages import STAGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(900)
def test_a_rehearsal(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    stand_in = [] if real_gpus() else ["--stand-in"]
    options = ["gpu-check", "--output", str(tmp_path), "--repo", str(ROOT), "--workers", "2",
               *stand_in]
    assert main([*options, "--stages", "smoke,written,cases", "--names",
                 "GPU,Add,ScatterSub,responses of float32"]) == 0
    rows = Results(tmp_path / "results.jsonl").rows()
    assert {r["name"] for r in rows} >= {"Add", "ScatterSub", "GPU"}
    losses = {r["name"]: r["losses"] for r in rows if r["stage"] == "smoke"}
    assert losses["GPU"] == pytest.approx(losses["CPU"], rel=1e-3)
    # Of a run with failures only these are repeated.
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"stage": "cases", "name": "Mul", "failed": "differs"}) + "\n")
    assert main([*options, "--again", "--json"]) == 0
    again = Results(tmp_path / "results-again.jsonl").rows()
    assert [(r["stage"], r["name"], r["failed"]) for r in again] == [("cases", "Mul", None)]
    out = capfd.readouterr().out
    told = json.loads(out[out.index("{\n"):])
    assert told["stages"]["cases"].pop("seconds") >= 0
    assert told["stages"] == {"cases": {"results": 1, "failed": 0}} and told["failures"] == []
    assert told["results"].endswith("results-again.jsonl")


def test_the_limits_are_those_of_one_call() -> None:
    assert sum(limit for _, limit in STAGES.values()) <= 560
    assert list(STAGES)[:2] == ["facts", "written"]


def test_names_can_be_given_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "_without_cudnn", lambda: None)
    assert not [name for name, _ in written.checks() if "," in name]


def test_failures_by_stage() -> None:
    rows = [{"stage": "cases", "name": "Add", "failed": "x"}, {"stage": "bench", "failed": "y"},
            {"stage": "cases", "name": "Mul", "failed": None}]
    assert failures(rows) == {"cases": ["Add"], "bench": []}


def test_an_unknown_stage(capsys: pytest.CaptureFixture) -> None:
    assert main(["gpu-check", "--stages", "nonsense"]) == 2
    assert "no stage nonsense" in capsys.readouterr().err
