"""Machine code of loops: who makes it, where it is kept, and how it takes its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from pairs import pairs
from speed import patience

from hpcflow import config
from hpcflow.comm.launch import without_launcher
from hpcflow.host import openmp, tuning
from hpcflow.kernels.common import indices
from hpcflow.loops import compiling, form, llvm_math, llvm_plan, row_code

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
if compiling.enabled():
    from hpcflow.loops import cache, objects, service

HALF = "def loop(x, y, n):\n    for i in range(x.shape[0]):\n        y[i, 0] = x[i, 0] / 2 + n\n"


def text(source=HALF):
    """A loop of a text, over two matrices and a number."""
    return compiling.TextLoop(source, (("float64", 2, False), ("float64", 2, True)), 1)


def adding(dtype):
    """The loop of ``y = x + number``, called with (x, y, number, first, last, 1, 0)."""
    b = form.Builder(1)
    total = b.apply("add", b.load(b.array(dtype), form.DENSE), b.argument(dtype))
    b.store(b.array(dtype), form.DENSE, total)
    return compiling.Loop("llvm_code", b.program())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(config.flags, "loop_cache", str(tmp_path / "loops"))
    return tmp_path / "loops"


@pytest.fixture
def served(folder):
    return service.Service()


def asked_for(served, loop):
    """What the service makes of a loop."""
    found = compiling.Compiled(loop)
    found.is_sought = found.is_wanted = True
    served.ask(found)
    served.wait()
    return found


def test_one_process_compiles_and_the_next_one_loads_the_file(served, folder, monkeypatch):
    found = asked_for(served, text())
    x, y = np.arange(6.0).reshape(6, 1), np.zeros((6, 1))
    assert found.function(x, y, 3) is None
    np.testing.assert_array_equal(y, x / 2 + 3)
    assert cache.name_of(found.program) in [p.name for p in folder.iterdir()]
    monkeypatch.setattr(compiling.Loop, "code", None)
    assert asked_for(service.Service(), text()).function is not None


def test_a_program_has_its_dtypes_bits(served):
    found = asked_for(served, adding("int32"))
    x, y = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    found.function(x, y, -7, 0, 100, 1, 0)
    np.testing.assert_array_equal(y, x - 7)


class Slow(compiling.Loop):
    """A loop that is compiled in this process, and when the test lets it."""

    began, may_end = threading.Event(), threading.Event()

    def code(self, name):
        self.began.set()
        self.may_end.wait()
        return adding("float32").code(name)


def test_a_process_ends_when_nothing_is_being_compiled_in_it():
    served = service.Service()
    found = compiling.Compiled(Slow("slow"))
    found.is_wanted = True
    served.ask(found)
    Slow.began.wait()
    ending = threading.Thread(target=served._end)
    ending.start()
    assert not served._at_work.acquire(blocking=False)
    Slow.may_end.set()
    ending.join()
    assert served._at_work.locked(), "LLVM begins nothing any more"


@pytest.mark.parametrize("source", [
    "def loop(:", "x = 1\n", "def loop(x):\n    x[0, 0] = 1\n",
    "def loop(x, y, n):\n    z = np.empty(n)\n", "def loop(x, y, n):\n    z = [n]\n",
    "def loop(x, y, n):\n    y[0, 0] = m\n", "def loop(x, y, n):\n    if n:\n        n = 1\n",
])
def test_what_cannot_be_compiled_is_left_and_logged_once(served, caplog, source):
    found = asked_for(served, text(source))
    assert found.function is None
    for _ in range(3):
        found.spent(1.0)
    (record,) = caplog.records
    assert "cannot be compiled" in record.message and source in record.message
    assert asked_for(served, text()).function is not None


@pytest.mark.parametrize("wrong", [
    lambda x, y: (x, y),
    lambda x, y: (x, y, 3, 4),
    lambda x, y: (x, y, "3"),
    lambda x, y: (x, y, 3.5),
    lambda x, y: (x.tolist(), y, 3),
    lambda x, y: (x[0], y, 3),
    lambda x, y: (x[::2], y, 3),
    lambda x, y: (x.astype(np.float32), y, 3),
    lambda x, y: (x.astype(x.dtype.newbyteorder()), y, 3),
    lambda x, y: (x, np.broadcast_to(1.0, (6, 1)), 3),
])
def test_other_arguments_are_refused(served, wrong):
    found = asked_for(served, text())
    x, y = np.zeros((6, 1)), np.zeros((6, 1))
    with pytest.raises(TypeError):
        found.function(*wrong(x, y))
    assert not y.any()


def test_classes_of_arrays_are_arrays(served):
    found = asked_for(served, text())
    y = np.zeros((2, 1)).view(type("Own", (np.ndarray,), {}))
    found.function(np.ones((2, 1)), y, np.int32(1))
    assert (np.asarray(y) == 1.5).all()


@pytest.mark.skipif(openmp.team() is None, reason="there is no OpenMP")
def test_errors_of_arguments_before_a_team_begins(served):
    found = asked_for(served, text())
    with pytest.raises(TypeError):
        found.function(openmp.team().address, 2, 2, 6, 2, 3, 0, np.zeros((6, 1)), None, 1)


def test_damaged_files_are_compiled_again(served, folder):
    found = asked_for(served, adding("float32"))
    path = folder / cache.name_of(found.program)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:100] + b"x" + whole[101:]):
        path.write_bytes(damaged)
        assert cache.read(path.name) is None
        assert asked_for(service.Service(), found.program).function is not None
        assert path.read_bytes() == whole


def test_a_directory_that_others_may_write_to_is_not_used(folder, served):
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    assert cache.directory() is None
    assert asked_for(served, adding("float64")).function is not None
    assert not list(folder.iterdir())


def test_names_tell_loops_apart(folder):
    loops = [adding("float32"), adding("float64"), text(), text(HALF + "    return 1\n"),
             compiling.TextLoop(HALF, (("float32", 2, False), ("float64", 2, True)), 1)]
    assert len({cache.name_of(loop) for loop in loops}) == len(loops)


def test_names_follow_from_the_text_of_the_room(folder, tmp_path, monkeypatch):
    copied, before = tmp_path / "room", cache.name_of(text())
    shutil.copytree(cache.ROOM, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "ROOM", copied)
    assert cache.name_of(text()) == before
    with (copied / "text_code.py").open("a") as file:
        file.write("# changed\n")
    cache._surroundings.cache_clear()
    assert cache.name_of(text()) != before
    cache._surroundings.cache_clear()


def test_old_files_are_removed(folder, monkeypatch):
    monkeypatch.setattr(tuning.loops, "CACHE_MOST_FILES", 4)
    assert cache.directory() is not None
    for k in range(6):
        (folder / f"file{k}").touch()
        os.utime(folder / f"file{k}", (k, k))
    cache.remove_old()
    assert sorted(p.name for p in folder.iterdir()) == ["file4", "file5"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_copy_of_the_process_has_a_service_of_its_own(folder):
    before = service.of_process
    with before._lock:  # as if another thread asked for a loop
        pid = os.fork()
        if pid == 0:
            own = service.of_process
            os._exit(0 if own is not before and own._lock.acquire(timeout=5) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_arrays_lie_in_memory_as_the_code_reads_them():
    assert objects.can_load()


@pytest.mark.parametrize("row_dtype", ["int32", "int64", "uint32"])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 64, 71])
def test_copies_of_rows(row_dtype, width):
    """Rows of whole lines and not, fewer and more of them than are fetched ahead."""
    rng = np.random.default_rng(width)
    code = row_code.copies(row_dtype).code(f"rows{row_dtype}{width}")
    functions = objects.functions_of(code)
    source = rng.integers(1 << 60, size=(50, width)).astype(np.uint64)
    for count in (0, 1, 5, 8, 9, 300):
        rows = rng.integers(50, size=count).astype(row_dtype)
        target = np.zeros((count + 1, width), np.uint64)
        functions.call(target[:count], source, rows)
        assert np.array_equal(target[:count], source[rows])
        assert not target[count:].any()


@pairs(
    ("row_dtype", ["int32", "int64"]),
    ("dtype", ["float32", "float64", "int32", "int64"]),
    ("ufunc", ["add", "subtract", "multiply", "divide", "maximum", "minimum"]),
)
def test_updates_of_rows(ufunc, dtype, row_dtype):
    """All parts together do what NumPy does one row after the other, NaNs included."""
    if not llvm_plan.supports_exactly(ufunc, dtype):
        pytest.skip("integers have no quotients")
    rng = np.random.default_rng(1)
    code = indices._row_updates(ufunc, dtype, row_dtype).code(
        f"updates{ufunc}{dtype}{row_dtype}")
    call = objects.functions_of(code).call
    for width, count, parts in ((1, 0, 1), (1, 300, 2), (16, 5, 3), (17, 200, 2), (70, 90, 4)):
        target = (rng.integers(1, 99, size=(40, width)) / 7).astype(dtype)
        updates = (rng.integers(1, 99, size=(count, width)) / 64).astype(dtype)
        if dtype.startswith("float"):
            target[0], updates[: count // 50] = np.nan, np.nan
        rows, expected = rng.integers(40, size=count).astype(row_dtype), target.copy()
        with np.errstate(all="ignore"):
            getattr(np, ufunc).at(expected, rows, updates)
        for part in range(parts):
            call(target, rows, updates, part, parts)
        assert np.array_equal(target, expected, equal_nan=dtype.startswith("float"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_programs_of_rows(dtype):
    """Several states and scalars, in vectors and one by one; equal rows one after the other."""
    b = form.Builder(1)
    places = [b.array(dtype) for _ in range(3)]
    var_, sums_, grad_ = [b.load(place, form.DENSE) for place in places]
    total = b.apply("add", sums_, b.apply("square", grad_))
    step = b.apply("divide", b.apply("multiply", b.apply("sign", grad_), b.argument(dtype)),
                   b.apply("sqrt", total))
    step = b.apply("multiply", step, b.apply("reciprocal", b.argument(dtype)))
    b.store(places[0], form.DENSE, b.apply("absolute", b.apply("subtract", var_, step)))
    b.store(places[1], form.DENSE, total)
    loop = row_code.updates("int64", b.program())
    call = objects.functions_of(loop.code(f"programs{dtype}")).call
    rng, rate = np.random.default_rng(2), 0.1
    for width, count in ((1, 40), (8, 3), (37, 60)):
        var, sums = [(rng.random((20, width)) + 0.5).astype(dtype) for _ in range(2)]
        grad = rng.standard_normal((count, width)).astype(dtype)
        grad[::7] = 0
        rows = rng.integers(20, size=count)
        expected, expected_sums = var.copy(), sums.copy()
        for i, row in enumerate(rows):
            expected_sums[row] += grad[i] * grad[i]
            step = np.sign(grad[i]) * grad.dtype.type(rate) / np.sqrt(expected_sums[row])
            expected[row] = abs(expected[row] - step * (1 / grad.dtype.type(3)))
        for part in range(2):
            call(var, sums, rows, grad, rate, 3.0, part, 2)
        np.testing.assert_array_equal(var, expected)
        np.testing.assert_array_equal(sums, expected_sums)


SEVERAL = """
import sys
import numpy as np
import hpcflow as hf
from hpcflow.loops import compiling, llvm_math

x = hf.placeholder(hf.float32, [None, 250])
fetched = [hf.tanh(x) * hf.sigmoid(x), hf.nn.softmax(x), hf.exp(hf.reduce_mean(x, 1)), hf.erf(x)]
with hf.Session() as session:
    feed = {x: np.linspace(-4, 4, 400 * 250, dtype="float32").reshape(400, 250)}
    for _ in range(2):
        for _ in range(20):
            found = session.run(fetched, feed)
        compiling.wait()
np.savez(sys.argv[1], *found)
print(llvm_math.feature_text())
"""


def test_loops_do_without_avx512_where_the_flag_says_so(tmp_path):
    """In a process of its own, since the kind of processor is asked for once."""
    found = {}
    for flag in ("0", "1"):
        said = subprocess.run(
            [sys.executable, "-c", SEVERAL, tmp_path / f"{flag}.npz"], capture_output=True,
            text=True, timeout=patience(), check=True, env=without_launcher(os.environ) | {
                "HPCFLOW_AVX512": flag, "HPCFLOW_LOOP_CACHE": str(tmp_path / flag)})
        has = llvm_math.binding().get_host_cpu_features().get("avx512f", False)
        assert ("+avx512f," in said.stdout) == (flag == "1" and has)
        assert list((tmp_path / flag).iterdir()), "nothing was compiled"
        found[flag] = np.load(tmp_path / f"{flag}.npz")
    for name, values in found["1"].items():
        np.testing.assert_allclose(found["0"][name], values, rtol=1e-6)
