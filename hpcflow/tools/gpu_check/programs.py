"""The stage of generated kernels: their values beside the reference back end, their times beside
CuPy's own calls."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.kernels.training import moment_rules
from hpcflow.loops import form_numpy
from hpcflow.loops.cuda import Programs
from hpcflow.loops.form import DENSE, PER_COLUMN, PER_ROW, Builder, Program
from hpcflow.loops.meanings import FLOATS, INTEGERS, MEANINGS, numpy_dtype

if TYPE_CHECKING:
    from hpcflow.tools.gpu_check.stages import Asked

_FLOATS = ("float32", "float64", "float16", "bfloat16")
# Largest difference of a sum, relative to the largest number.
_SUM_TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3e-2}
# The ends of what a function takes, for those that do not take all numbers.
_DOMAINS = {"sqrt": (0, 9), "log": (1e-3, 9), "log1p": (-0.9, 9), "power": (0.1, 4),
            "arcsin": (-1, 1), "arccos": (-1, 1), "reciprocal": (0.5, 9), "fmod": (0.5, 9),
            # Near its zeros Python's function, and below -2 CUDA's, has fewer right digits.
            "gammaln": (2.5, 10)}


def programs(asked: Asked) -> None:
    """Every function of the table, reductions, sizes and strides; then times."""
    import cupy

    runner = Programs(cupy)
    for dtype in sorted({d for m in MEANINGS.values() for d in m.types}):
        name = f"functions of {dtype}"
        if asked.wants(name):
            asked.attempt("programs", name, functools.partial(_functions, cupy, runner, dtype))
    for name, program, rows in _spread():
        if asked.wants(name):
            asked.attempt("programs", name, functools.partial(
                _compared, cupy, runner, program, rows))
    for name, timed in _times(cupy, runner):
        if asked.wants(name):
            asked.attempt("programs", name, timed)


# ---------------------------------------------------------------- values


def _given(program: Program, rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(rows)
    size = rows * program.columns
    found = []
    for name in program.arrays:
        if name == "bool":
            found.append(random.integers(2, size=size).astype(bool))
        elif name in INTEGERS:
            found.append(random.integers(0 if name[0] == "u" else -50, 50, size).astype(name))
        else:
            found.append((8 * random.random(size) - 4).astype(numpy_dtype(name)))
    return found


def _both(cupy: Any, runner: Programs, program: Program, rows: int,
          given: list[np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The arrays that a program stores: dtype, the reference's, the GPU's."""
    there = [_to_gpu(cupy, a) for a in given]
    runner.prepare((program,))((rows,), (there,))
    form_numpy.run(program, rows, given)
    for i in sorted(program.stored()):
        raw = cupy.asnumpy(there[i])
        yield program.arrays[i], given[i], raw.view(given[i].dtype)


def _to_gpu(cupy: Any, array: np.ndarray) -> Any:
    """As it is, or as its bits where CuPy has no such type."""
    return cupy.asarray(array.view(np.uint16) if array.dtype == numpy_dtype("bfloat16") else array)


def _compared(cupy: Any, runner: Programs, program: Program, rows: int) -> dict[str, Any]:
    """The largest difference, relative to the largest number."""
    worst, failed = 0.0, None
    for _ in range(2):  # counters are zero again
        for dtype, ours, theirs in _both(cupy, runner, program, rows, _given(program, rows)):
            x, y = ours.astype(np.float64), theirs.astype(np.float64)
            difference = float(np.abs(x - y).max() / (np.abs(x).max() or 1))
            worst = max(worst, difference)
            if not difference <= _SUM_TOLERANCE.get(dtype, 0):
                failed = f"{dtype} differs by {difference:.3g} of the largest number"
    return {"rows": rows, "columns": program.columns, "difference": worst, "failed": failed}


def functions(dtype: str) -> tuple[Program, list[str]]:
    """All functions that take `dtype`, of two arrays; the names of what is stored, after these."""
    b = Builder(1)
    arrays = [b.array(dtype) for _ in range(2)]
    x, y = (b.load(a, DENSE) for a in arrays)
    names = [n for n, m in MEANINGS.items() if dtype in m.types]
    for name in names:
        low, high = _DOMAINS.get(name, (-4, 4))
        inside = x
        if name in _DOMAINS:  # the numbers lie between -4 and 4
            scale = b.constant((high - low) / 8, dtype)
            inside = b.apply("add", b.apply("multiply", x, scale),
                             b.constant((high + low) / 2, dtype))
        found = b.apply(name, inside, y) if "{1}" in MEANINGS[name].cuda else b.apply(name, inside)
        b.store(b.array(b.dtype(found)), DENSE, found)
    return b.program(), names


def _functions(cupy: Any, runner: Programs, dtype: str) -> dict[str, Any]:
    """The ulps by which each function differs."""
    program, names = functions(dtype)
    given = _given(program, 4099)
    if dtype in FLOATS:
        given[0][:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    found, failed = {}, []
    for name, (kind, ours, theirs) in zip(names, _both(cupy, runner, program, 4099, given)):
        found[name], meaning = _ulps(ours, theirs), MEANINGS[name]
        # NumPy computes narrow floats in float32, too, but not all of them in the same way.
        allowed = meaning.ulps + (dtype in ("float16", "bfloat16") and meaning.ulps > 0)
        if found[name] > (allowed if kind in FLOATS else 0):
            failed.append(f"{name} by {found[name]:g}")
    return {"ulps": {n: u for n, u in found.items() if u}, "failed": ", ".join(failed) or None}


def _ulps(x: np.ndarray, y: np.ndarray) -> float:
    """The largest distance in units of the last place; NaN and NaN are alike."""
    if x.dtype.kind in "biu":
        return float((x != y).sum())
    nan = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
    bits = np.dtype(f"i{x.itemsize}")

    def ordered(a: np.ndarray) -> np.ndarray:
        whole = a.view(bits).astype(np.int64)
        return np.where(whole < 0, np.iinfo(bits).min - whole, whole)

    return float(np.where(nan, 0, np.abs(ordered(x) - ordered(y)).astype(np.float64)).max())


def softmax(columns: int, dtype: str) -> Program:
    """exp(x) over its sum, by rows."""
    b = Builder(columns)
    x = b.load(b.array(dtype), DENSE)
    e = b.apply("exp", b.apply("subtract", x, b.reduce_row("max", x)))
    b.store(b.array(dtype), DENSE, b.apply("divide", e, b.reduce_row("sum", e)))
    return b.program()


def layer_norm(columns: int, dtype: str) -> Program:
    """(x - mean) / sqrt(variance + 1e-5) * scale + shift, by rows."""
    b = Builder(columns)
    x = b.load(b.array(dtype), DENSE)
    scale, shift = (b.load(b.array(dtype), PER_COLUMN) for _ in range(2))
    count = b.constant(float(columns), dtype)
    mean = b.apply("divide", b.reduce_row("sum", x), count)
    away = b.apply("subtract", x, mean)
    spread = b.apply("divide", b.reduce_row("sum", b.apply("square", away)), count)
    root = b.apply("sqrt", b.apply("add", spread, b.constant(1e-5, dtype)))
    y = b.apply("add", b.apply("multiply", b.apply("divide", away, root), scale), shift)
    b.store(b.array(dtype), DENSE, y)
    b.store(b.array(dtype), PER_ROW, mean)
    return b.program()


def relu_gradient(columns: int, dtype: str) -> Program:
    """The gradient of relu, and its sum over the rows."""
    b = Builder(columns)
    x, dy = (b.load(b.array(dtype), DENSE) for _ in range(2))
    zero = b.constant(0.0, dtype)
    g = b.select(b.apply("greater", x, zero), dy, zero)
    b.store(b.array(dtype), DENSE, g)
    b.store(b.array(dtype), PER_COLUMN, b.reduce_columns("sum", g))
    return b.program()


def chain(dtype: str) -> Program:
    """The gates of an LSTM: sigmoid, tanh, products, sums."""
    b = Builder(1)
    x, y, z, c = (b.load(b.array(dtype), DENSE) for _ in range(4))
    one = b.constant(1.0, dtype)

    def sigmoid(v: int) -> int:
        return b.apply("divide", one, b.apply("add", one, b.apply("exp", b.apply("negative", v))))

    state = b.apply("add", b.apply("multiply", c, sigmoid(x)),
                    b.apply("multiply", sigmoid(y), b.apply("tanh", z)))
    b.store(b.array(dtype), DENSE, state)
    b.store(b.array(dtype), DENSE, b.apply("tanh", state))
    return b.program()


def _spread() -> Iterator[tuple[str, Program, int]]:
    """Programs of all kinds over many sizes."""
    for dtype in _FLOATS:
        for columns in (1, 10, 33, 1025, 5000):
            for rows in (1, 63, 2000):
                if dtype != "float32" and (columns not in (10, 1025) or rows != 63):
                    continue
                for make in (softmax, layer_norm, relu_gradient):
                    yield f"{make.__name__} {dtype} {rows}x{columns}", make(columns, dtype), rows
        yield f"chain {dtype}", chain(dtype), 100001


# ---------------------------------------------------------------- times


def _times(cupy: Any, runner: Programs) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    f = np.float32

    def drawn(*shape: int) -> Any:
        return cupy.random.standard_normal(shape, dtype=f)

    def pair(name: str, program: Program, rows: int, arrays: list[Any], plain: Callable[[], Any],
             moved: int) -> tuple[str, Callable[[], dict[str, Any]]]:
        launch = runner.prepare((program,))
        return f"time {name}", functools.partial(
            _timed_pair, cupy, lambda: launch((rows,), (arrays,)), plain, moved)

    large, small = drawn(1 << 24), drawn(64, 100)
    more = [drawn(1 << 24) for _ in range(5)]
    yield pair("chain of 2^24", chain("float32"), 1 << 24, [large, *more],
               lambda: _plain_chain(cupy, large, *more[:3]), 6 << 26)
    few = [small.copy() for _ in range(6)]
    yield pair("chain of 6400", chain("float32"), 6400, few,
               lambda: _plain_chain(cupy, *few[:4]), 6 * small.nbytes)
    for rows, columns in ((64, 10), (4096, 1000), (4096, 32000)):
        x, y = drawn(rows, columns), drawn(rows, columns)
        yield pair(f"softmax {rows}x{columns}", softmax(columns, "float32"), rows, [x, y],
                   functools.partial(_plain_softmax, cupy, x), 2 * x.nbytes)
    for rows, columns in ((512, 512), (8192, 1024)):
        x, y = drawn(rows, columns), drawn(rows, columns)
        vectors = [drawn(columns), drawn(columns), drawn(rows)]
        yield pair(f"layer norm {rows}x{columns}", layer_norm(columns, "float32"), rows,
                   [x, *vectors[:2], y, vectors[2]],
                   functools.partial(_plain_norm, cupy, x, *vectors[:2]), 2 * x.nbytes)
    for rows, columns in ((64, 100), (65536, 64), (4096, 4096), (1 << 24, 1)):
        x, dy, dx = (drawn(rows, columns) for _ in range(3))
        yield pair(f"relu gradient and column sum {rows}x{columns}",
                   relu_gradient(columns, "float32"), rows, [x, dy, dx, drawn(columns)],
                   functools.partial(lambda x, dy: (dy * (x > f(0))).sum(0), x, dy), 3 * x.nbytes)
    yield "time Adam of 16 variables", functools.partial(_adam, cupy, runner)
    yield "time to compile", functools.partial(_compile_time, cupy, runner)


def _timed_pair(cupy: Any, ours: Callable[[], Any], plain: Callable[[], Any],
                moved: int) -> dict[str, Any]:
    mine, their = _microseconds(cupy, ours), _microseconds(cupy, plain)
    host = _host_microseconds(cupy, ours)
    return {"us": mine, "cupy_us": their, "host_us": host, "GB_per_s": moved / mine / 1e3}


def _microseconds(cupy: Any, call: Callable[[], Any]) -> float:
    """Of one call among many, on the GPU's clock."""
    for _ in range(3):
        call()
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(50):
        call()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) * 1e3 / 50


def _host_microseconds(cupy: Any, call: Callable[[], Any]) -> float:
    """Of the host, for one call."""
    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    for _ in range(50):
        call()
    taken = (time.perf_counter() - began) / 50 * 1e6
    cupy.cuda.Device().synchronize()
    return taken


def _plain_chain(xp: Any, x: Any, y: Any, z: Any, c: Any) -> Any:
    one = np.float32(1)
    state = c * (one / (one + xp.exp(-x))) + one / (one + xp.exp(-y)) * xp.tanh(z)
    return state, xp.tanh(state)


def _plain_softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _plain_norm(xp: Any, x: Any, scale: Any, shift: Any) -> Any:
    away = x - x.mean(1, keepdims=True)
    root = xp.sqrt((away * away).mean(1, keepdims=True) + np.float32(1e-5))
    return away / root * scale + shift


def _adam(cupy: Any, runner: Programs) -> dict[str, Any]:
    """One launch for all variables, beside the rule's calls for each."""
    from hpcflow.loops.tracing import Tracer

    b = Builder(1)
    tracer = Tracer(b)
    numbers = tuple(np.float32(v) for v in (0.001, 0.1, 0.001, 1e-8))
    arrays = [b.array("float32") for _ in range(4)]
    blocks = [tracer.of(b.load(a, DENSE)) for a in arrays]
    moment_rules.adam(tracer, blocks, numbers, [tracer.empty_like(blocks[0]) for _ in range(2)])
    for a, block in zip(arrays[:3], blocks):
        b.store(a, DENSE, block.number())
    sizes = [1 << k for k in range(4, 20)]
    given = [[cupy.ones(n, "f") for _ in range(4)] for n in sizes]
    scratch = [[cupy.empty(n, "f") for _ in range(2)] for n in sizes]
    launch = runner.prepare((b.program(),) * len(sizes))

    def plain() -> None:
        for arrays, more in zip(given, scratch):
            moment_rules.adam(cupy, arrays, numbers, more)

    return _timed_pair(cupy, lambda: launch(tuple(sizes), given), plain, 7 * 4 * sum(sizes))


def _compile_time(cupy: Any, runner: Programs) -> dict[str, Any]:
    """Of a kernel that no process has compiled before."""
    b = Builder(1)
    x = b.load(b.array("float32"), DENSE)
    number = b.constant(float(np.float32(time.time() % 1e4)), "float32")
    b.store(b.array("float32"), DENSE, b.apply("tanh", b.apply("add", x, number)))
    began = time.perf_counter()
    runner.prepare((b.program(),))((4,), ([cupy.ones(4, "f"), cupy.ones(4, "f")],))
    return {"ms": (time.perf_counter() - began) * 1e3}
