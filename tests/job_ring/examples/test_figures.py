"""The command that draws figures: its predictions, its tables, and its job scripts."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from hpcflow.compiler.distribute.costs import Rates

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def figures():
    spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.one_thread = Rates
    return module


@pytest.mark.parametrize("name", ["null_steps", "backup", "softmax", "scaling"])
def test_predictions(figures, tmp_path, name):
    assert figures.main([name, "--quick", "--ranks", "0", "--no-picture", "--out",
                         str(tmp_path)]) == 0
    made = json.loads((tmp_path / f"{name}.json").read_text())
    rows = made["rows"]
    assert made["machine"] and made["commit"].startswith(figures.hf.hpcflow_version)
    assert rows and all(r["kind"] == "predicted" and r["median_ms"] > 0 for r in rows)
    if name == "softmax":  # a part of the classes is less work
        full, sampled = ([r["words/s"] for r in rows if r["case"] == case]
                         for case in ("full", "sampled"))
        assert all(a < b for a, b in zip(full, sampled, strict=True))


def test_steps_between_ranks_are_measured(figures, tmp_path):
    assert figures.main(["null_steps", "--quick", "--ranks", "2", "--memory", "0.0001",
                         "--no-picture", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "null_steps.json").read_text())["rows"]
    assert any(r["kind"] == "measured" and r["workers"] == 1 and r["median_ms"] > 0 for r in rows)


def test_table_1_is_written_between_its_comments(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import table_1

    page, rows = tmp_path / "page.md", tmp_path / "rows.json"
    page.write_text((ROOT / "docs" / "figures.md").read_text())
    rows.write_text(json.dumps({
        "machine": "a processor, 8 cores", "load": 0.1, "threads": 8, "commit": "0.1.0 abc",
        "rows": [{"case": "AlexNet (32), forward", "program": p, "warm ms": ms, "warm/faster": r}
                 for p, ms, r in (("hpcflow", 90.0, 0.9), ("torch", 100.0, None))]}))
    for _ in range(2):  # the second one replaces the first
        assert table_1.main(["--from", str(rows), "--page", str(page)]) == 0
    text = page.read_text()
    assert text.count("| AlexNet (32), forward | 90 | 100 | 0.9 |") == 1
    assert text.count("a processor, 8 cores, 8 threads, load 0.1 before, hpcflow 0.1.0 abc") == 1
    page.write_text("no place")
    with pytest.raises(ValueError, match="no place for the table"):
        table_1.main(["--from", str(rows), "--page", str(page)])


def test_normalized_speedup(figures):
    rows = [{"case": "backup", "kind": "measured", "backup": b, "workers": 4 + b, "median_ms": t}
            for b, t in ((0, 12.0), (1, 8.0))]
    figures.with_speedups(rows)
    assert rows[0]["normalized"] == 1.0
    assert rows[1]["speedup"] == 1.5 and rows[1]["normalized"] == pytest.approx(1.2)


def test_every_figure_has_a_job_script(figures):
    for name in figures.FIGURES:
        script = (ROOT / "slurm" / f"sweep_{name}.sbatch").read_text()
        assert f"benchmarks/figures.py {name} " in script


def test_job_scripts_are_scripts():
    for path in (ROOT / "slurm").glob("*.sbatch"):
        subprocess.run(["bash", "-n", str(path)], check=True)
