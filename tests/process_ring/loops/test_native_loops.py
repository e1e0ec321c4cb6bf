"""Loops over independent rows whose calls are made without the interpreter.

Their results must agree with those of the lines within `ULPS`, see `both`.
"""

import numpy as np
import pytest
from thresholds import lower, set_threshold, use_pool

import hpcflow as hf
from hpcflow import config, errors
from hpcflow.compiler.native.native_loops import NativeLoop
from hpcflow.host import bits, blas, threads, tuning
from hpcflow.loops import call_list, compiling, over_time, packed_gemm
from hpcflow.loops.call_list import Operand, Product
from hpcflow.loops.form import PER_COLUMN, Builder, Map
from hpcflow.loops.form_loop import FormLoop

TIME, UNITS = 7, 8
# How much the results of calls and of lines may differ: units in the last place of the largest
# element, of what a chain of TIME products and their gradients makes of a few in each of them.
ULPS = 24


@pytest.fixture(scope="module")
def runner():
    found = call_list.runner()
    if found is None:
        pytest.skip("there is no compiler, or products are better left to a BLAS")
    found.spent(1.0)
    compiling.wait()
    assert found.function is not None
    return found


class Calls:
    """Which calls took the place of their lines; those of others if not `allowed`."""

    def __init__(self):
        self.allowed = True
        self.made = []


@pytest.fixture
def cores():
    """How many threads a loop may have."""
    return 3


@pytest.fixture
def calls(monkeypatch, runner, cores):
    found, call = Calls(), NativeLoop.__call__

    def counted(self, *arguments):
        result = call(self, *arguments) if found.allowed else None
        found.made.append(result is not None)
        return result

    pool = threads.Pool(cores)
    use_pool(monkeypatch, pool)
    monkeypatch.setattr(threads, "has_idle_cores", lambda: cores > 1)
    monkeypatch.setattr(NativeLoop, "__call__", counted)
    lower(monkeypatch, "LOOP_LEAST_SECONDS", "COMPILE_WORTH_SECONDS")
    monkeypatch.setattr(config.flags, "compile", True)
    yield found
    pool.close()


def data(seed, *shape, dtype=np.float32):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def recurrent(x, cell, width=1, dtype=np.float32):
    """The last state of a loop over the elements of `x`, and the gradients of its weights."""
    weights = [hf.constant(data(k, UNITS, UNITS, dtype=dtype) / 3) for k in range(2 * width)]
    bias = hf.constant(data(9, UNITS, dtype=dtype))
    count = hf.shape(x)[0]
    elements = hf.TensorArray(hf.as_dtype(dtype), count).unstack(x)
    state = hf.zeros_like(x[0])

    def body(t, h):
        return t + 1, cell(elements.read(t), h, weights, bias)

    _, h = hf.while_loop(lambda t, h: t < count, body, [0, state])
    return [h, *hf.gradients(hf.reduce_sum(h * h), [*weights, bias, x])]


def simple(x, h, weights, bias):
    return hf.tanh(hf.nn.bias_add(hf.matmul(h, weights[0]) + hf.matmul(x, weights[1]), bias))


def gated(x, h, weights, bias):
    gate = hf.sigmoid(hf.matmul(x, weights[0]) + hf.matmul(h, weights[1]) - 0.5)
    new = hf.nn.softsign(hf.matmul(gate * h, weights[2]) + hf.matmul(x, weights[3]) + bias)
    return gate * h + (1.0 - gate) * new


def compile_all(calls, session, fetches, feeds):
    """Until there are the programs that the calls need: those of a gradient follow from how the
    values lie that come from lines, and from calls."""
    calls.allowed = True
    for _ in range(2):
        session.run(fetches, feeds)
        compiling.wait()


def both(calls, session, fetches, feeds=None):
    """The results of calls, which must be those of the lines."""
    compile_all(calls, session, fetches, feeds)
    found = []
    for calls.allowed in (False, True):
        calls.made.clear()
        found.append(session.run(fetches, feeds))
    for one, other in zip(*found, strict=True):
        agree(one, other)
    return found[1]


def agree(one, other):
    """The results of lines and calls must be the same, or differ in the last bits alone."""
    if one.dtype.kind == "f":
        bound = ULPS * np.finfo(one.dtype).eps * np.abs(one).max()
        np.testing.assert_allclose(other, one, rtol=0, atol=bound)
    else:
        np.testing.assert_array_equal(one, other)


def cell_of_gates(x, h, weights, bias):
    """With parts of a product as views, and values that are only read beside each other."""
    i, j = hf.split(hf.matmul(x, weights[0]) + hf.matmul(h, weights[1]) + bias, 2, 1)
    half = hf.sigmoid(i + 1.0) * hf.tanh(j) + hf.maximum(i, 0.25) / (1.0 + j * j)
    return hf.tanh(hf.concat([half, half - 1.0], 1))


@pytest.mark.parametrize("rows, cores", [(5, 3), (37, 1), (37, 2)])
def test_calls_give_the_results_of_the_lines(graph, calls, rows):
    x = hf.placeholder(hf.float32, [TIME, rows, UNITS])
    for cell, width in ((simple, 1), (gated, 2), (cell_of_gates, 1)):
        fetches = recurrent(x, cell, width)
        with hf.Session() as session:
            both(calls, session, fetches, {x: data(1, TIME, rows, UNITS)})
        assert calls.made == [True, True], cell


def test_rows_are_chosen_by_lengths_and_flags(graph, calls):
    """Of a batch of sequences, batches first, as `dynamic_rnn` takes them."""
    x = hf.placeholder(hf.float32, [37, TIME, UNITS])
    lengths = hf.placeholder(hf.int32, [37])
    kernel = hf.constant(data(1, 2 * UNITS, 4 * UNITS) / 3)
    bias = hf.constant(data(2, 4 * UNITS))
    elements = hf.TensorArray(hf.float32, TIME).unstack(hf.transpose(x, [1, 0, 2]))
    outputs = hf.TensorArray(hf.float32, TIME)
    state = hf.zeros([37, UNITS])

    def body(t, c, h, outputs):
        joined = hf.concat([elements.read(t), h], 1)
        i, j, f, o = hf.split(hf.nn.bias_add(hf.matmul(joined, kernel), bias), 4, 1)
        new_c = hf.sigmoid(f) * c + hf.sigmoid(i) * hf.tanh(j)
        new_h = hf.tanh(new_c) * hf.sigmoid(o)
        is_over = t >= lengths
        outputs = outputs.write(t, hf.where(is_over, hf.zeros_like(new_h), new_h))
        return t + 1, hf.where(is_over, c, new_c), hf.where(is_over, h, new_h), outputs

    *_, h, outputs = hf.while_loop(lambda t, *_: t < TIME, body, [0, state, state, outputs])
    loss = hf.reduce_sum(h * h) + hf.reduce_sum(outputs.stack() ** 2)
    fetches = [h, *hf.gradients(loss, [kernel, bias, x])]
    feeds = {x: data(3, 37, TIME, UNITS), lengths: np.arange(37) % (TIME + 2)}
    with hf.Session() as session:
        both(calls, session, fetches, feeds)
    assert calls.made == [True, True]


def test_scalars_of_an_iteration_are_factors(graph, calls):
    x, w = hf.placeholder(hf.float32, [40, UNITS]), hf.constant(data(3, UNITS, UNITS) / 3)
    _, y = hf.while_loop(
        lambda t, y: t < TIME,
        lambda t, y: (t + 1, hf.tanh(hf.matmul(y, w)) * (0.5 + hf.cast(t, hf.float32) / 8)), [0, x])
    with hf.Session() as session:
        both(calls, session, [y, *hf.gradients(y, [x])], {x: data(4, 40, UNITS)})
    assert calls.made == [True, True]


def test_peepholes_are_sums_of_rows(graph, calls):
    x, w = hf.placeholder(hf.float32, [40, UNITS]), hf.constant(data(3, UNITS, UNITS) / 3)
    peephole = hf.constant(data(4, UNITS))
    _, y = hf.while_loop(
        lambda t, y: t < TIME,
        lambda t, y: (t + 1, hf.sigmoid(hf.matmul(y, w) + peephole * y)), [0, x])
    with hf.Session() as session:
        both(calls, session, [y, *hf.gradients(y, [x, peephole])], {x: data(4, 40, UNITS)})
    assert calls.made == [True, True]


@pytest.mark.parametrize("rows", [None, 40])
def test_random_numbers_are_those_of_the_lines(graph, calls, rows, monkeypatch):
    lower(monkeypatch, "SHAPES_FEWEST_RUNS", "SHAPES_WORTH")
    x, w = hf.placeholder(hf.float32, [rows, UNITS]), hf.constant(data(3, UNITS, UNITS) / 3)
    _, y = hf.while_loop(
        lambda t, y: t < TIME,
        lambda t, y: (t + 1, hf.nn.dropout(hf.tanh(hf.matmul(y, w)), keep_prob=0.8, seed=7)),
        [0, x])
    fetches, found = [y, *hf.gradients(y, [x])], []
    with hf.Session() as session:
        for _ in range(5):
            compile_all(calls, session, fetches, {x: data(4, 40, UNITS)})
    for calls.allowed in (False, True):
        calls.made.clear()
        with hf.Session() as session:
            found.append([session.run(fetches, {x: data(4, 40, UNITS)}) for _ in range(5)])
    for one, other in zip(*[[x for step in steps for x in step] for steps in found]):
        agree(one, other)
    assert not np.array_equal(found[0][0][0], found[0][1][0])
    assert calls.made[-2:] == [True, True]


def test_shapes_and_counts_of_a_step_are_its_own(graph, calls):
    x = hf.placeholder(hf.float32, [None, None, UNITS])
    state = recurrent(x, simple)[:1]
    with hf.Session() as session:
        for time, rows in ((TIME, 48), (3, 5), (TIME, 48), (2, 64)):
            both(calls, session, state, {x: data(time, time, rows, UNITS)})
            assert calls.made == [True]
        both(calls, session, state, {x: data(0, 1, 5, UNITS)})
        assert calls.made == [False]


def test_short_loops_keep_their_lines(graph, calls, monkeypatch):
    set_threshold(monkeypatch, "LOOP_LEAST_SECONDS", 1.0)
    x = hf.placeholder(hf.float32, [TIME, 40, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple), {x: data(2, TIME, 40, UNITS)})
    assert calls.made == [False, False]


@pytest.mark.parametrize("chunk, block", [(3, 1e9), (3, 1.0), (100, 7e4)])
def test_many_iterations_run_in_several_chunks(graph, calls, monkeypatch, chunk, block):
    """The sums have blocks of their own, whose bits do not depend on chunks."""
    set_threshold(monkeypatch, "LOOP_CHUNK_STEPS", chunk)
    set_threshold(monkeypatch, "ACCUMULATE_BLOCK_FLOPS", block)
    x = hf.placeholder(hf.float32, [TIME, 40, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple), {x: data(2, TIME, 40, UNITS)})
    assert calls.made == [True, True]


def test_sums_over_time_have_all_threads(graph, calls, monkeypatch):
    together = []

    def product(a, b):
        together.append(a.shape)
        return np.dot(a, b)

    monkeypatch.setattr(blas, "dot_together", product)
    x = hf.placeholder(hf.float32, [TIME, 40, UNITS])
    fetches, feeds = recurrent(x, simple), {x: data(2, TIME, 40, UNITS)}
    with hf.Session() as session:
        compile_all(calls, session, fetches, feeds)
        together.clear()
        both(calls, session, fetches, feeds)
    assert together == [(UNITS, TIME * 40)] * 8  # of lines too


def test_results_do_not_depend_on_the_number_of_cores(graph, calls, monkeypatch):
    x, found = hf.placeholder(hf.float32, [TIME, 40, UNITS]), []
    fetches, feeds = recurrent(x, gated, 2), {x: data(2, TIME, 40, UNITS)}
    with hf.Session() as session:
        compile_all(calls, session, fetches, feeds)
        calls.made.clear()
        for has_others in (True, False):
            monkeypatch.setattr(threads, "has_idle_cores", lambda: has_others)
            found.append(session.run(fetches, feeds))
    assert all(calls.made)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("owner, flag", [(config.flags, "deterministic"),
                                         (bits._wishes, "keeps_bits")])
def test_programs_that_keep_bits_run_their_lines(graph, calls, monkeypatch, owner, flag):
    """In the deterministic mode, and where bits are the same on any number of ranks."""
    x = hf.placeholder(hf.float32, [TIME, 40, UNITS])
    fetches, feeds = recurrent(x, simple), {x: data(3, TIME, 40, UNITS)}
    with hf.Session() as session:
        compile_all(calls, session, fetches, feeds)
        calls.made.clear()
        monkeypatch.setattr(owner, flag, True)
        session.run(fetches, feeds)
    assert calls.made == [False, False]


def test_a_loop_of_other_lengths_has_places_of_its_own(graph, calls):
    """The places of one run are used by the next, but not by two at a time."""
    x = hf.placeholder(hf.float32, [None, 40, UNITS])
    fetches = recurrent(x, gated, 2)
    with hf.Session() as session:
        for time in (TIME, 3, TIME, 4):
            both(calls, session, fetches, {x: data(time, time, 40, UNITS)})


def test_a_long_loop_ends_when_its_time_is_over(graph, calls, monkeypatch):
    lower(monkeypatch, "LOOP_CHUNK_SECONDS")
    x, w = hf.placeholder(hf.float32, [64, 64]), hf.constant(data(3, 64, 64) / 8)
    _, y = hf.while_loop(lambda t, y: t < 4000, lambda t, y: (t + 1, hf.matmul(y, w)), [0, x])
    feeds = {x: data(4, 64, 64)}
    with hf.Session() as session:
        compile_all(calls, session, y, feeds)
        calls.made.clear()
        with pytest.raises(errors.DeadlineExceededError):
            session.run(y, feeds, hf.RunOptions(timeout_in_ms=3))
        session.run(y, feeds)
    assert calls.made == [True]


def test_a_state_that_is_only_handed_on_has_two_places(graph, calls):
    """Nothing is kept without a gradient: what is read must not be overwritten too early."""
    x, w = hf.placeholder(hf.float32, [40, UNITS]), hf.constant(data(3, UNITS, UNITS) / 3)
    _, y, z = hf.while_loop(
        lambda t, y, z: t < 6,
        lambda t, y, z: (t + 1, hf.matmul(y, w) + z, hf.tanh(y - z)), [0, x, x])
    with hf.Session() as session:
        both(calls, session, [y, z], {x: data(4, 40, UNITS)})
    assert calls.made == [True]


def test_an_element_that_is_not_there_is_the_error_of_its_line(graph, calls):
    x, count = hf.placeholder(hf.float32, [3, 40, UNITS]), hf.placeholder(hf.int32, [])
    w = hf.constant(data(3, UNITS, UNITS))
    elements = hf.TensorArray(hf.float32, 3).unstack(x)
    _, y = hf.while_loop(
        lambda t, y: t < count,
        lambda t, y: (t + 1, hf.tanh(hf.matmul(y, w) + elements.read(t))), [0, x[0]])
    feeds = {x: data(5, 3, 40, UNITS), count: 5}
    with hf.Session() as session:
        compile_all(calls, session, [y], {**feeds, count: 3})
        calls.made.clear()
        with pytest.raises(errors.InvalidArgumentError, match="read from index 3") as raised:
            session.run(y, feeds)
        assert raised.value.op.type.startswith("TensorArrayRead")
        assert calls.made == [False]
        both(calls, session, [y], {**feeds, count: 3})
        assert calls.made == [True]


def carried(h, c, total):
    return h, h, total


def swapped(h, c, total):
    return h, total, c


@pytest.mark.parametrize("following", [carried, swapped])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_variables_may_be_handed_on_and_tests_choose_elements(graph, calls, following, dtype):
    """The next value of two variables is one; what a variable was is the next of another."""
    x, w = hf.placeholder(dtype, [40, UNITS]), hf.constant(data(3, UNITS, UNITS, dtype=dtype) / 3)

    def body(t, h, c, total):
        made = hf.maximum(hf.matmul(h, w), 0.2 * c)
        h, c, total = following(hf.where(made > 0.5, hf.tanh(made), h), c, total)
        return t + 1, h, c, total

    variables = hf.while_loop(lambda t, *_: t < TIME, body, [0, x, 0.5 * x, 2.0 * x])[1:]
    fetches = [*variables, *hf.gradients(hf.add_n([hf.reduce_sum(v * v) for v in variables]), [x])]
    with hf.Session() as session:
        both(calls, session, fetches, {x: data(4, 40, UNITS, dtype=dtype)})
    assert calls.made == [True, True]


@pytest.mark.parametrize("inside", [
    lambda y, w: hf.matmul(y, hf.matmul(w, w) * hf.reduce_mean(y)),  # the factor changes
    lambda y, w: hf.matmul(y, w) - hf.reduce_max(y, 0),  # rows need each other
    lambda y, w: hf.tanh(y),  # no product
])
def test_other_loops_keep_their_lines(graph, calls, inside):
    x, w = hf.placeholder(hf.float32, [40, UNITS]), hf.constant(data(3, UNITS, UNITS) / 3)
    _, y = hf.while_loop(lambda t, y: t < 3, lambda t, y: (t + 1, inside(y, w)), [0, x])
    with hf.Session() as session:
        both(calls, session, [y], {x: data(4, 40, UNITS)})
    assert not any(calls.made)


def test_a_list_of_calls(runner, form):
    """A product, and a program over what it makes and a vector, for the rows of two parts."""
    a, b, bias = data(1, 48, 20), data(2, 20, 12), data(3, 12)
    width = form.width_of(12)
    made, panels = np.zeros((48, width), np.float32), packed_gemm.pack(b, width)
    place = Operand(2, 4 * width, 4)
    program = Builder(12)
    x = program.load(program.array("float32"), Map(width, 1))
    total = program.apply("add", x, program.load(program.array("float32"), PER_COLUMN))
    program.store(0, Map(width, 1), total)
    loop = FormLoop(program.program()).compiled()
    loop.spent(1.0)
    compiling.wait()
    product = Product("float32", 12, 20, width, Operand(0, *a.strides), 1, place)
    words = [product.words(), *call_list.program_words(loop.table, [place, Operand(3, 0, 4)])]
    slots = np.array([[x.ctypes.data] for x in (a, panels, made, bias)])
    for part in ((0, 20), (20, 48)):
        runner.function(np.array(words), slots, 1, *part)
    np.testing.assert_allclose(made[:, :12], a @ b + bias, 1e-5, 1e-5)


def whole_numbers(seed, *shape):
    """Matrices whose products are exact, in whatever order their terms are added."""
    return np.random.RandomState(seed).randint(-9, 9, shape).astype(np.float32)


@pytest.fixture
def form(runner):
    found = packed_gemm.tile()
    if found is None:
        pytest.skip("this processor rounds products before it adds them")
    return found


def by_panels(runner, form, a, b, parts):
    """``a @ b`` for the rows of `parts`, and 7 elsewhere."""
    columns, width = b.shape[1], form.width_of(b.shape[1])
    whole = -(-columns // width) * width
    made = np.full((len(a), whole + 2), 7, a.dtype)
    call = Product(a.dtype.name, columns, len(b), width, Operand(0, *a.strides), 1,
                   Operand(2, *made.strides))
    arrays = [a, packed_gemm.pack(b, width), made]
    slots = np.array([[x.ctypes.data] for x in arrays])
    for start, stop in parts:
        runner.function(np.array([call.words()]), slots, 1, start, stop)
    assert (made[:, whole:] == 7).all()
    return made[:, :columns]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, inner, columns", [
    (1, 1, 1), (6, 3, 64), (13, 40, 65), (7, 2 * packed_gemm.CHAIN + 1, 81), (25, 100, 31)])
def test_products_by_panels(runner, form, rows, inner, columns, dtype):
    """Of any number of rows, terms and columns, beside what is left alone."""
    a, b = (whole_numbers(k, *shape).astype(dtype) for k, shape in (
        (1, (rows, inner + 2)), (2, (inner, columns))))
    a, middle, form = a[:, 1:-1], rows // 2, packed_gemm.tile(dtype)
    found = by_panels(runner, form, a, b, [(0, middle), (middle, rows)])
    np.testing.assert_array_equal(found, a @ b)
    found = by_panels(runner, form, a, b, [(middle, rows)])
    assert (found[:middle] == 7).all()


@pytest.mark.parametrize("first, end", [(0, 5), (5, 140), (70, 71), (139, 140)])
def test_panels_that_nobody_reads_are_not_computed(runner, form, first, end):
    a, b = whole_numbers(1, 9, 20), whole_numbers(2, 20, 140)
    width = form.width_of(140)
    loop = over_time.OverTime(9)
    x = loop.like(over_time.GIVEN, "x", a)
    panels = loop.slot(over_time.FIXED, "b")
    part = loop.product(x, panels, 140, width).part(first, end - first)
    loop.place(loop.copy(part), over_time.KEPT, "made")
    loop.finish()
    assert sum(loop.multiplications()) == 9 * 20 * (
        min(-(-end // width) * width, 140) - first // width * width)
    for compiled in loop.loops:
        compiled.spent(1.0)
    compiling.wait()
    memory = over_time.Memory(loop, lambda slot: packed_gemm.pack(b, width), {}, ())
    runner.function(loop.words(), memory.places(1, {"x": a[np.newaxis]}, {}), 1, 0, 9)
    np.testing.assert_array_equal(memory.each("made")[0], (a @ b)[:, first:end])


@pytest.mark.parametrize("inner", [20, 300, 3000])
def test_products_are_exact_within_few_ulps(runner, form, inner):
    """Of the sum of their absolute terms; each sum has the same bits in any part of the rows."""
    a, b = data(1, 32, inner), data(2, inner, 48)
    found = by_panels(runner, form, a, b, [(0, 32)])
    exact = a.astype(np.float64) @ b
    bound = 4 * np.finfo(np.float32).eps * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(found - exact) <= bound).all()
    np.testing.assert_array_equal(by_panels(runner, form, a, b, [(0, 5), (5, 32)]), found)


def test_terms_are_added_in_their_order(runner, form):
    """Those of a chain, and then the chains; 1 beside 2**24 is lost."""
    def total(**terms):
        a = np.zeros((1, packed_gemm.CHAIN + 3), np.float32)
        for place, value in terms.items():
            a[0, int(place[1:])] = value
        return by_panels(runner, form, a, np.ones((a.shape[1], 1), np.float32), [(0, 1)])[0, 0]

    large, second = 2.0**24, packed_gemm.CHAIN
    assert total(t0=1, t1=large, t2=-large) == 0
    assert total(t0=large, t1=-large, t2=1) == 1
    assert total(t0=large, t1=1, t2=1) == large
    assert total(t0=large, **{f"t{second}": 1, f"t{second + 1}": 1}) == large + 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_are_shared(graph, calls, monkeypatch, dtype):
    layouts, make = [], over_time.Memory.__init__

    def noted(self, layout, *arguments):
        layouts.append(layout)
        make(self, layout, *arguments)

    monkeypatch.setattr(over_time.Memory, "__init__", noted)
    x = hf.placeholder(hf.as_dtype(dtype), [TIME, 20, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple, dtype=dtype),
             {x: data(2, TIME, 20, UNITS, dtype=dtype)})
    assert calls.made == [True, True]
    assert all(layout.part == 10 for layout in layouts)


def test_large_products_that_one_thread_would_make_keep_their_lines(graph, calls, monkeypatch):
    monkeypatch.setattr(tuning.host, "BLAS_ALONE", 0)
    monkeypatch.setattr(blas, "is_small", lambda multiplications: False)
    x = hf.placeholder(hf.float32, [TIME, 5, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple)[:1], {x: data(2, TIME, 5, UNITS)})
    assert calls.made == [False]
