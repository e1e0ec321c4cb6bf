"""The benchmarks: their statistics, tables and options, peers, and a short run of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from processes import end_session, session_members
from speed import patience

import hpcflow
from hpcflow.comm.launch import without_launcher
from hpcflow.host import tuning
from hpcflow.tools import cli, table
from hpcflow.tools.bench import (
    bare_sync,
    child,
    command,
    contestants,
    control_flow,
    convnets,
    kernels,
    overlap,
    plain_numpy,
    sampling,
    training,
)
from hpcflow.tools.bench.programs import dispatch as program
from hpcflow.tools.bench.registry import BENCHMARKS, Options

FAST = sampling.Plan(rounds=4, block_seconds=1e-3, sample_seconds=0, max_samples=5, min_samples=3)

PROGRAM = '''
import time

def open_case(framework, case, options):
    if case == "raise":
        raise ValueError("no such case")
    if case == "die":
        print("last words", file=__import__("sys").stderr)
        __import__("os")._exit(3)
    print("chatter on standard output")
    return lambda: time.sleep(options["seconds"]), lambda: None
'''


def test_cases_are_chosen_by_their_titles():
    titles = [case.title for case in kernels.chosen_cases(Options(case="softmax"))]
    assert titles and all("softmax" in title for title in titles)
    assert len(kernels.chosen_cases(Options())) == 40
    with pytest.raises(cli.CommandError, match="no case has 'nothing' in its title"):
        kernels.chosen_cases(Options(case="nothing"))


def test_cases_of_control_flow_are_chosen_by_their_titles(monkeypatch):
    monkeypatch.setattr(control_flow, "measure_case", lambda case, *_: [{"case": case}])
    rows = control_flow.run(Options(case="products"))
    assert rows and all("products" in row["case"] for row in rows)
    with pytest.raises(cli.CommandError, match="no case has 'nothing' in its title"):
        control_flow.run(Options(case="nothing"))


def test_networks_are_chosen_by_name_and_by_what_is_measured(monkeypatch):
    monkeypatch.setattr(convnets, "measure", lambda case, options, plan: [{"case": case.title}])
    found = convnets.run(Options(case="GoogLeNet v1 (16), training"))
    assert found == [{"case": "GoogLeNet v1 (16), training step"}]
    assert len(convnets.run(Options(case="forward"))) == 4
    assert len(convnets.run(Options())) == 8


def test_training_programs_are_chosen_by_name(monkeypatch):
    monkeypatch.setattr(training, "measure", lambda case, *_: [{"case": case.title}])
    assert training.run(Options(case="GRU")) == [{"case": "GRU"}]
    assert len(training.run(Options())) == 13 and len(training.run(Options(quick=True))) == 1


@pytest.fixture(scope="module")
def training_programs():
    """The file of the programs, loaded as a child does."""
    return child.load_program(str(contestants.PROGRAMS / "training.py"))


@pytest.mark.parametrize("case", training.TITLES)
def test_training_programs_run(training_programs, case):
    assert list(training_programs.CASES) == list(training.TITLES)
    step, close = training_programs.open_case(hpcflow, case, {"threads": 2})
    found = [value for _ in range(2) for value in step() if value is not None]
    close()
    assert found and all(np.isfinite(v).all() for v in found)


def test_first_seconds_and_warm_steps():
    rows = training.run(Options(case="logistic", quick=True))
    (row,) = rows
    assert row["program"] == "hpcflow" and row["steps in 5 s"] == 1
    assert row["first step s"] > 0 and row["warm ms"] > 0 and row["warm/it"] is None


# ---------------------------------------------------------------- statistics and tables


class Recorder:
    """A contestant whose steps take no time but say that they took `seconds`."""

    def __init__(self, name, seconds, log):
        self.name, self.seconds, self.log = name, seconds, log

    def block(self, samples, batch):
        self.log.append(self.name)
        return [self.seconds] * samples


def test_contestants_alternate_and_every_second_round_goes_backwards():
    log = []
    rounds = sampling.alternate([Recorder("a", 1.0, log), Recorder("b", 2.0, log)], FAST)
    # Without the calibration, and each turn being a warm-up and a block.
    turns = log[-4 * 2 * FAST.rounds :][-2 * 2 * FAST.rounds :: 2]
    assert turns == ["a", "b", "b", "a"] * (FAST.rounds // 2)
    assert [len(rounds[name]) for name in "ab"] == [FAST.rounds] * 2


def test_rows_have_percentiles_in_microseconds_and_the_ratio_to_the_other():
    rounds = {"hpcflow": [[1e-6, 2e-6, 3e-6]] * 3, "peer": [[4e-6]] * 3}
    ours, theirs = sampling.rows_of("step", rounds)
    assert ours["median_us"] == pytest.approx(2)
    assert ours["p10_us"] < ours["median_us"] < ours["p90_us"]
    assert ours["hpcflow/it"] is None
    assert theirs["hpcflow/it"] == pytest.approx(0.5)


def test_a_slow_round_does_not_change_the_ratio():
    ours = [[2.0], [200.0], [2.0]]
    theirs = [[1.0], [100.0], [1.0]]
    assert sampling.ratio_of(ours, theirs) == 2


def test_calibration_batches_short_steps_and_bounds_long_ones():
    plan = sampling.Plan(block_seconds=0.02, sample_seconds=1e-4)

    class Timed(contestants.Local):
        """Steps that take so many seconds each."""

        def __init__(self, seconds: float) -> None:
            super().__init__("timed", lambda: None)
            self.seconds = seconds

        def block(self, samples: int, batch: int) -> list[float]:
            super().block(samples, batch)
            return [self.seconds] * samples

    samples, batch = sampling.calibrate(Timed(1e-7), plan)
    assert batch == 1000 and samples == min(200, plan.max_samples)
    assert sampling.calibrate(Timed(0.03), plan) == (plan.min_samples, 1)


def test_measuring_divides_by_the_batch():
    calls, begin = [], time.perf_counter()
    seconds = child.measure(lambda: calls.append(time.sleep(1e-3)), samples=3, batch=4)
    assert len(calls) == 12 and len(seconds) == 3
    assert min(seconds) >= 1e-3 and 4 * sum(seconds) <= time.perf_counter() - begin


def test_a_table_aligns_numbers_and_blanks_repeated_cases():
    rows = [
        {"case": "one", "program": "a", "median_us": 1234.5, "ratio": None},
        {"case": "one", "program": "bb", "median_us": 0.12345, "ratio": 2.0},
    ]
    assert table.render("title", rows, ["a note"]).splitlines() == [
        "title",
        "",
        "case  program  median us  ratio",
        "----  -------  ---------  -----",
        "one   a            1,234      -",
        "      bb           0.123      2",
        "",
        "a note",
    ]


# ---------------------------------------------------------------- peers


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """Starts a program of our own in another process, with json in the place of a library."""
    (tmp_path / "toy.py").write_text(PROGRAM)
    monkeypatch.setattr(contestants, "PROGRAMS", tmp_path)
    monkeypatch.setattr(child, "__file__", str(shim(tmp_path)))
    return lambda: contestants.Peer("json", sys.executable, "toy")


def shim(directory: Path) -> Path:
    """child.py with one more framework."""
    path = directory / "child.py"
    text = Path(child.__file__).read_text()
    path.write_text(text.replace("MODULES = {", "MODULES = {'json': 'json', "))
    return path


def test_a_peer_runs_the_program_in_its_own_process(peer):
    with peer() as process:
        process.open("wait", {"seconds": 2e-3})
        begin = time.perf_counter()
        seconds = process.block(samples=3, batch=2)
        passed = time.perf_counter() - begin
        process.close_case()
    assert len(seconds) == 3 and min(seconds) >= 2e-3 and 2 * sum(seconds) <= passed


def test_the_first_seconds_of_a_peer(peer):
    with peer() as process:
        process.ready()
        found = process.first("wait", {"seconds": 0.02}, 0.1)
        assert 1 <= found["steps"] <= 6 and found["first"] >= 0.02
        process.warm(0.05)
        assert len(process.block(2, 1)) == 2


def test_an_error_in_a_peer_is_shown_as_its_own(peer):
    with peer() as process, pytest.raises(cli.CommandError, match="ValueError: no such case"):
        process.open("raise")


def test_a_peer_that_dies_leaves_its_last_words(peer):
    with peer() as process, pytest.raises(cli.CommandError, match="has ended\nlast words"):
        process.open("die")


def test_a_peer_that_hangs_is_given_up(peer, monkeypatch):
    monkeypatch.setattr(tuning.programs, "BENCH_SILENCE_SECONDS", 0.2)
    with peer() as process, pytest.raises(cli.CommandError, match="said nothing"):
        process.open("wait", {"seconds": 5.0}).block(1, 1)


def test_a_peer_that_cannot_start():
    with pytest.raises(cli.CommandError, match="cannot start"):
        contestants.Peer("json", "/nonexistent/python", "toy")


# ---------------------------------------------------------------- the command


def bench(*arguments):
    return cli.main(["bench", *arguments])


def test_listing(capsys):
    assert bench("--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which benchmark?"),
        (["dispach"], "did you mean dispatch?"),
        (["dispatch", "--peer", f"torch={sys.executable}"], "no program for the peer 'torch'"),
    ],
)
def test_wrong_names_are_explained(arguments, message, capsys):
    assert bench(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["dispatch", "--peer", "tensorflow"], ["dispatch", "--peer", "tensorflow=/none"],
     ["null_step", "--ps", "0"]],
)
def test_wrong_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        bench(*arguments)
    assert "error: argument" in capsys.readouterr().err


def test_a_job_of_the_wrong_size_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert bench("null_step") == 2
    assert "null_step needs 2 ranks; this job has 3" in capsys.readouterr().err


def test_results_are_added_to_the_file(tmp_path):
    path = tmp_path / "results.json"
    command.save(path, "one", [{"case": "a"}])
    command.save(path, "two", [{"case": "b"}])
    command.save(path, "one", [{"case": "c"}])
    assert json.loads(path.read_text()) == {"one": [{"case": "c"}], "two": [{"case": "b"}]}


@pytest.mark.parametrize("text", ["not json", "[]"])
def test_a_file_of_something_else_is_left_alone(tmp_path, text):
    path = tmp_path / "notes"
    path.write_text(text)
    with pytest.raises(cli.CommandError, match="not a file of benchmark results"):
        command.save(path, "one", [])
    assert path.read_text() == text


# ---------------------------------------------------------------- short runs


def test_plain_numpy_does_the_arithmetic_of_the_graph():
    """The two programs that are compared compute the same: the loss falls by the same amounts."""
    step = plain_numpy.figure1_step()
    losses = [step().mean() for _ in range(64)]
    assert losses[0] == pytest.approx(np.log(program.CLASSES), rel=0.1)
    assert np.mean(losses[-16:]) < np.mean(losses[:16])
    expected = np.full(program.FLOATS, 0.5 * (program.ADDS + 1))
    np.testing.assert_array_equal(plain_numpy.chained_adds()(), expected)


def test_the_bare_replica_computes_the_gradients_of_its_loss():
    worker = bare_sync.Worker(SimpleNamespace(rank=1))
    arrays = worker.of_parameters
    random = np.random.RandomState(0)
    for array in arrays:
        array[...] = random.normal(0, 0.05, array.shape)
    with hpcflow.Graph().as_default(), hpcflow.Session() as session:
        wanted = [hpcflow.constant(a) for a in arrays]
        hidden = hpcflow.nn.relu(hpcflow.matmul(worker.x, wanted[0]) + wanted[1])
        loss = hpcflow.reduce_mean(hpcflow.nn.sparse_softmax_cross_entropy_with_logits(
            labels=worker.labels, logits=hpcflow.matmul(hidden, wanted[2]) + wanted[3]))
        expected = session.run(hpcflow.gradients(loss, wanted))
    worker.compute()
    for found, gradient in zip(worker.of_gradients, expected, strict=True):
        np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_short_run_prints_a_table_and_saves_the_rows(name, tmp_path):
    if BENCHMARKS[name].why_not(Options()):
        pytest.skip("gpu_ring/test_bench_gpu.py runs it on what stands in for a GPU")
    path = tmp_path / "results.json"
    result = subprocess.run(
        [sys.executable, "-m", "hpcflow", "bench", name, "--quick", "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=patience(),
        env=without_launcher(os.environ),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith(f"{name}: ")
    rows = json.loads(path.read_text())[name]
    assert rows and all(isinstance(row, dict) for row in rows)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_benchmark_that_is_ended_leaves_no_rank(number, tmp_path):
    """Its job runs when the signal comes, and goes with it."""
    main = subprocess.Popen([sys.executable, "-m", "hpcflow", "bench", "pingpong"],
                            env=without_launcher(os.environ), start_new_session=True,
                            # Shells let what they start in the background ignore interrupts.
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while len(session_members(main.pid)) < 4:  # this one, mpirun, two ranks
            assert main.poll() is None
            time.sleep(0.05)
        os.kill(main.pid, number)
        assert main.wait(patience()) != 0
        while session_members(main.pid):  # until the test's time is over
            time.sleep(0.05)
    finally:
        end_session(main.pid)


def test_every_benchmark_takes_the_default_options():
    assert all(b.ranks is None or b.ranks(Options()) >= 2 for b in BENCHMARKS.values())


# ---------------------------------------------------------------- files of results

BENCHMARKS_FOLDER = Path(__file__).parents[3] / "benchmarks"


def run_script(name, *arguments):
    result = subprocess.run(
        [sys.executable, str(BENCHMARKS_FOLDER / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    return result.returncode, result.stdout


def results_file(path, ratio):
    row = {"case": "no-op step", "program": "tensorflow", "median_us": 9.0, "hpcflow/it": ratio}
    path.write_text(json.dumps({"dispatch": [row]}))
    return path


def test_bars_name_benchmarks_that_exist():
    bars = json.loads((BENCHMARKS_FOLDER / "bars.json").read_text())
    assert {bar["benchmark"] for bar in bars} <= set(BENCHMARKS)
    assert {bar["case"] for bar in bars if bar["benchmark"] == "dispatch"} <= set(program.CASES)


@pytest.mark.parametrize(("ratio", "status", "word"), [(0.1, 0, "held"), (0.3, 1, "MISSED")])
def test_bars_are_checked(tmp_path, ratio, status, word):
    code, output = run_script("check.py", results_file(tmp_path / "results.json", ratio))
    assert code == status
    assert word in output and "not measured" in output


def test_what_a_link_hides_is_told_from_the_work_below_it():
    """4 s of 10 s are work of processors, which nothing hides; of the other 6 s a third shows."""
    steps = {"compute": 20.0, "communicate": 10.0, "both": 26.0}
    row = overlap.row_of("a link", {name: [[s], [s, s]] for name, s in steps.items()})
    assert row["hidden %"] == pytest.approx(40) and "of the link %" not in row
    at_once = {"communicate at once": 4.0, "both at once": 24.0}
    row = overlap.row_of("a link", {name: [[s]] for name, s in (steps | at_once).items()})
    assert row["of the link %"] == pytest.approx(100 * 2 / 3)
    assert row["both at once ms"] == 24e3


def test_rows_are_told_before_the_table(capsys):
    table.tell([{"case": "a", "median_us": 1234.5, "hpcflow/it": None}, {"case": "b", "count": 2}])
    assert capsys.readouterr().err == "case a  median_us 1,234\ncase b  count 2\n"


@pytest.mark.parametrize(("hidden", "word"), [(80.0, "held"), (60.0, "MISSED")])
def test_bars_of_other_columns_are_checked(tmp_path, hidden, word):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"overlap": [{"case": "simulated link", "hidden %": hidden}]}))
    code, output = run_script("check.py", path)
    assert code == (word == "MISSED")
    assert word in output and "at least 70" in output


def test_two_results_are_compared(tmp_path):
    before = results_file(tmp_path / "before.json", 0.2)
    after = results_file(tmp_path / "after.json", 0.1)
    code, output = run_script("compare.py", before, after)
    assert code == 0
    assert "no-op step" in output and "-50.0%" in output
