"""Loops over independent rows whose calls are made without the interpreter.

Most tests run twice: in the deterministic mode the calls must have the bits of the lines; else
their results must agree within `ULPS`, see `both`.
"""

import numpy as np
import pytest
from thresholds import lower, set_threshold, use_pool

import hpcflow as hf
from hpcflow import config, errors
from hpcflow.compiler.native import native_loops, native_memory, native_programs
from hpcflow.compiler.native.native_loops import NativeLoop
from hpcflow.host import bits, blas, threads, tuning
from hpcflow.loops import call_list, compiling, packed_gemm
from hpcflow.loops.call_list import Call, Operand

TIME, UNITS = 7, 8
# How much the results of calls and of lines may differ: units in the last place of the largest
# element, of what a chain of TIME products and their gradients makes of a few in each of them.
ULPS = 24


@pytest.fixture(scope="module")
def runner():
    pytest.importorskip("numba")
    found = call_list.runner()
    if found is None:
        pytest.skip("NumPy's BLAS cannot be called")
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


@pytest.fixture(params=["bits", "ulps"])
def calls(request, monkeypatch, runner, cores):
    found, call = Calls(), NativeLoop.__call__
    monkeypatch.setattr(config.flags, "deterministic", request.param == "bits")

    def counted(self, *arguments):
        result = call(self, *arguments) if found.allowed else None
        found.made.append(result is not None)
        return result

    pool = threads.Pool(cores)
    use_pool(monkeypatch, pool)
    monkeypatch.setattr(threads, "has_idle_cores", lambda: cores > 1)
    monkeypatch.setattr(NativeLoop, "__call__", counted)
    lower(monkeypatch, "ITERATIONS_LARGE", "ITERATIONS_FEWEST_COLUMNS",
          "LOOP_LEAST_SECONDS")
    # What they add up does not depend on the number of cores then.
    lower(monkeypatch, "ADDED_MOST_BYTES")
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


def both(calls, session, fetches, feeds=None):
    """The results of calls, which must be those of the lines."""
    found = []
    for calls.allowed in (False, True):
        calls.made.clear()
        found.append(session.run(fetches, feeds))
    for one, other in zip(*found, strict=True):
        agree(one, other)
    return found[1]


def agree(one, other):
    """The results of lines and calls must be the same, or differ in the last bits alone."""
    if compiling.keeps_bits():
        np.testing.assert_array_equal(one, other)
    elif one.dtype.kind == "f":
        bound = ULPS * np.finfo(one.dtype).eps * np.abs(one).max()
        np.testing.assert_allclose(other, one, rtol=0, atol=bound)
    else:
        np.testing.assert_array_equal(one, other)


def cell_of_gates(x, h, weights, bias):
    """With parts of a product as views, and values that are only read beside each other."""
    i, j = hf.split(hf.matmul(x, weights[0]) + hf.matmul(h, weights[1]) + bias, 2, 1)
    half = hf.sigmoid(i + 1.0) * hf.tanh(j) + hf.maximum(i, 0.25) / (1.0 + j * j)
    return hf.tanh(hf.concat([half, half - 1.0], 1))


@pytest.mark.parametrize("calls", ["ulps"], indirect=True)
@pytest.mark.parametrize("dtype, rows, cores", [(np.float32, 37, 2), (np.float64, 5, 3)])
@pytest.mark.parametrize("cell, width", [(simple, 1), (gated, 2), (cell_of_gates, 1)])
def test_runs_of_ufuncs_become_programs(graph, calls, monkeypatch, rows, dtype, cell, width):
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    used, calls_of = [], native_programs.Fused.calls
    monkeypatch.setattr(native_programs.Fused, "calls",
                        lambda fused: used.append(calls_of(fused)) or used[-1])
    x = hf.placeholder(hf.as_dtype(dtype), [TIME, rows, UNITS])
    fetches = recurrent(x, cell, width, dtype)
    feeds = {x: data(1, TIME, rows, UNITS, dtype=dtype)}
    with hf.Session() as session:
        for _ in range(2):
            both(calls, session, fetches, feeds)
            compiling.wait()
        used.clear()
        both(calls, session, fetches, feeds)
    assert any(found is not None and call_list.PROGRAM in found[:, 0] for found in used)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows, cores", [(5, 3), (37, 1), (37, 2)])
def test_calls_give_the_results_of_the_lines(graph, calls, rows, dtype):
    x = hf.placeholder(hf.as_dtype(dtype), [TIME, rows, UNITS])
    for cell, width in ((simple, 1), (gated, 2)):
        fetches = recurrent(x, cell, width, dtype)
        with hf.Session() as session:
            both(calls, session, fetches, {x: data(1, TIME, rows, UNITS, dtype=dtype)})
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
        lambda t, y: (t + 1, hf.tanh(hf.matmul(y, w)) * (0.5 + hf.cast(t, hf.float32))), [0, x])
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
    for calls.allowed in (False, True):
        calls.made.clear()
        with hf.Session() as session:
            found.append([session.run(fetches, {x: data(4, 40, UNITS)}) for _ in range(5)])
    for one, other in zip(*[[x for step in steps for x in step] for steps in found]):
        agree(one, other)
    assert not np.array_equal(found[0][0][0], found[0][1][0])
    is_known = rows is not None or not compiling.keeps_bits()  # a step keeps its form there
    assert calls.made[-2:] == [is_known] * 2


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


def test_sums_over_time_have_all_threads_once_the_loop_is_done(graph, calls, monkeypatch):
    """But where bits are to be kept."""
    together = []

    def product(a, b):
        together.append(a.shape)
        return blas.dot_alone(a, b)

    monkeypatch.setattr(blas, "dot_together", product)
    x = hf.placeholder(hf.float32, [TIME, 40, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple), {x: data(2, TIME, 40, UNITS)})
    assert together == ([] if compiling.keeps_bits() else [(UNITS, TIME * 40)] * 2)


@pytest.mark.parametrize("calls", ["ulps"], indirect=True)
def test_results_do_not_depend_on_the_number_of_cores(graph, calls, monkeypatch):
    x, found = hf.placeholder(hf.float32, [TIME, 40, UNITS]), []
    fetches, feeds = recurrent(x, gated, 2), {x: data(2, TIME, 40, UNITS)}
    with hf.Session() as session:
        for has_others in (True, False):
            monkeypatch.setattr(threads, "has_idle_cores", lambda: has_others)
            found.append(session.run(fetches, feeds))
    assert all(calls.made)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


class TestAddedProducts:
    """Products whose sum over time is made as their factors are."""

    @pytest.fixture
    def added(self, form, calls, monkeypatch):
        """The sums that layouts made so far add up like this."""
        found, make = [], native_loops.Layout

        def made(*arguments):
            layout = make(*arguments)
            found.append(len(layout.added))
            return layout

        set_threshold(monkeypatch, "ADDED_MOST_BYTES", 1 << 18)
        monkeypatch.setattr(native_loops, "Layout", made)
        return found

    def gradients(self, form, rows):
        """A placeholder, and what depends on it: of matrices that panels divide."""
        units = 2 * form.lanes * form.widths[-1]
        x = hf.placeholder(hf.float32, [TIME, rows, 24])
        weights = [hf.constant(data(1, 24, units) / 5), hf.constant(data(2, units, units) / 9)]
        elements = hf.TensorArray(hf.float32, TIME).unstack(x)

        def body(t, h):
            new = hf.matmul(h, weights[1]) + hf.matmul(elements.read(t), weights[0])
            return t + 1, hf.tanh(new)

        _, h = hf.while_loop(lambda t, h: t < TIME, body, [0, hf.zeros([rows, units])])
        return x, hf.gradients(hf.reduce_sum(h * h), weights)

    @pytest.mark.parametrize("calls", ["ulps"], indirect=True)
    @pytest.mark.parametrize("rows, chunk", [(48, 100), (75, 3), (75, 100)])
    def test_sums(self, graph, calls, added, form, monkeypatch, rows, chunk):
        """Of two products and a bias, in chunks of iterations or at once."""
        set_threshold(monkeypatch, "LOOP_CHUNK_STEPS", chunk)
        x, fetches = self.gradients(form, rows)
        feeds, found = {x: data(3, TIME, rows, 24)}, []
        with hf.Session() as session:
            for calls.allowed in (False, True, True):
                found.append(session.run(fetches, feeds))
        assert sum(added) == 1
        for line, first, second in zip(*found, strict=True):
            agree(line, first)
            np.testing.assert_array_equal(first, second)

    def test_exact_sums(self, runner, form):
        """Of any number of rows and terms, beside matrices of other parts."""
        columns = 3 * form.lanes * form.widths[-1]
        for inner, step, rows in ((1, 4, 4), (13, 8, 21), (40, 16, 64)):
            a, b = whole_numbers(1, 2, rows, inner), whole_numbers(2, 2, rows, columns)
            parts = -(-rows // step)
            made = np.ones((parts + 1, inner, columns), np.float32)
            call = Call(call_list.ADDED_PRODUCT, form.widths[-1], step, columns, inner,
                        Operand(0, 4 * inner, 4), Operand(1, 4 * columns, 4),
                        Operand(2, 4 * columns, 4))
            slots = np.array([[x.ctypes.data for x in pair]
                              for pair in ((a[0], a[1]), (b[0], b[1]), (made, made))])
            scratch = np.empty((1, call_list.SCRATCH), np.int64)
            for start in range(0, rows, step):
                runner.function(np.array([call.words()]), slots, scratch, 2, start,
                                min(start + step, rows))
            for k, start in enumerate(range(0, rows, step)):
                expected = sum(x[start : start + step].T @ y[start : start + step]
                               for x, y in zip(a, b))
                np.testing.assert_array_equal(made[k], 1 + expected)
            assert (made[parts:] == 1).all()

    @pytest.mark.parametrize("calls", ["ulps"], indirect=True)
    @pytest.mark.parametrize("owner, flag", [(config.flags, "deterministic"),
                                             (bits._wishes, "keeps_bits")])
    def test_programs_that_keep_bits_have_those_of_the_lines(self, graph, calls, added, form,
                                                             monkeypatch, owner, flag):
        """In the deterministic mode, and where bits are the same on any number of ranks."""
        monkeypatch.setattr(owner, flag, True)
        assert compiling.keeps_bits()
        x, fetches = self.gradients(form, 48)
        with hf.Session() as session:
            both(calls, session, fetches, {x: data(3, TIME, 48, 24)})
        assert added and not sum(added)


def test_a_loop_of_other_lengths_has_places_of_its_own(graph, calls):
    """The places of one run are used by the next, but not by two at a time."""
    x = hf.placeholder(hf.float32, [None, 40, UNITS])
    fetches = recurrent(x, gated, 2)
    with hf.Session() as session:
        for time in (TIME, 3, TIME, 4):
            both(calls, session, fetches, {x: data(time, time, 40, UNITS)})


@pytest.mark.parametrize("calls", ["bits"], indirect=True)  # thousands of products amplify the last
def test_a_long_loop_ends_when_its_time_is_over(graph, calls, monkeypatch):
    lower(monkeypatch, "LOOP_CHUNK_SECONDS")
    x, w = hf.placeholder(hf.float32, [64, 64]), hf.constant(data(3, 64, 64) / 8)
    _, y = hf.while_loop(lambda t, y: t < 4000, lambda t, y: (t + 1, hf.matmul(y, w)), [0, x])
    with hf.Session() as session:
        with pytest.raises(errors.DeadlineExceededError):
            session.run(y, {x: data(4, 64, 64)}, hf.RunOptions(timeout_in_ms=3))
        both(calls, session, [y], {x: data(4, 64, 64)})
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
        with pytest.raises(errors.InvalidArgumentError, match="read from index 3") as raised:
            session.run(y, feeds)
        assert raised.value.op.type.startswith("TensorArrayRead")
        assert calls.made == [False]
        both(calls, session, [y], {**feeds, count: 3})
        assert calls.made == [True]


@pytest.mark.parametrize("inside", [
    lambda y, w: hf.matmul(y, hf.matmul(w, w) * hf.reduce_mean(y)),  # the factor changes
    lambda y, w: hf.matmul(y, w) - hf.reduce_max(y, 0),  # rows need each other
    lambda y, w: hf.where(y > 0, hf.matmul(y, w), y),
    lambda y, w: hf.tanh(y),  # no product
])
def test_other_loops_keep_their_lines(graph, calls, inside):
    x, w = hf.placeholder(hf.float32, [40, UNITS]), hf.constant(data(3, UNITS, UNITS) / 3)
    _, y = hf.while_loop(lambda t, y: t < 3, lambda t, y: (t + 1, inside(y, w)), [0, x])
    with hf.Session() as session:
        both(calls, session, [y], {x: data(4, 40, UNITS)})
    assert not any(calls.made)


def test_factors_begin_at_a_line_of_cache(graph, calls, monkeypatch):
    addresses, make = [], native_memory.Memory.__init__

    def noted(self, layout, *arguments):
        make(self, layout, *arguments)
        addresses.extend(self.slots[sorted(layout.factors), 0])

    monkeypatch.setattr(native_memory.Memory, "__init__", noted)
    raw = np.zeros(UNITS * UNITS + 1)
    weights = raw[1:].reshape(UNITS, UNITS)  # one of raw and this does not
    x, w = (hf.placeholder(hf.float64, [n, UNITS]) for n in (40, UNITS))
    _, y = hf.while_loop(lambda t, y: t < TIME, lambda t, y: (t + 1, hf.tanh(hf.matmul(y, w))),
                         [0, x])
    with hf.Session() as session:
        for given in (raw[:-1].reshape(UNITS, UNITS), weights):
            given[...] = data(3, UNITS, UNITS)
            both(calls, session, [y], {x: data(4, 40, UNITS), w: given})
    assert len(addresses) >= 2 and not any(a % 64 for a in addresses)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_flipped", [False, True])
def test_a_list_of_calls(runner, dtype, is_flipped):
    a, b = data(1, 48, 20, dtype=dtype), data(2, 20, 12, dtype=dtype)
    b = np.asfortranarray(b) if is_flipped else b
    bias, made = data(3, 12, dtype=dtype), np.zeros((48, 12), dtype)
    kind, product = call_list.product_of(dtype)
    size = a.itemsize
    place = Operand(2, 12 * size, size)
    listed = [
        Call(kind, product, 0, 12, 20, Operand(0, *a.strides), Operand(1, *b.strides), place),
        Call(call_list.BINARY, *call_list.loop_of(np.add, dtype), 12, 0, place,
             Operand(3, 0, size), place),
        Call(call_list.UNARY, *call_list.loop_of(np.tanh, dtype), 12, 0, place, place, place),
    ]
    slots = np.array([[x.ctypes.data] for x in (a, b, made, bias)])
    scratch = np.empty((1, call_list.SCRATCH), np.int64)
    with blas.alone():
        runner.function(np.array([c.words() for c in listed]), slots, scratch, 1, 0, 48)
        expected = np.tanh(np.dot(a, b) + bias)
    np.testing.assert_array_equal(made, expected)


def whole_numbers(seed, *shape):
    """Matrices whose products are exact, in whatever order their terms are added."""
    return np.random.RandomState(seed).randint(-9, 9, shape).astype(np.float32)


@pytest.fixture
def form(runner):
    found = packed_gemm.tile()
    if found is None:
        pytest.skip("this processor rounds products before it adds them")
    return found


def by_panels(runner, form, a, b, parts, addend=None):
    """``a @ b + addend`` for the rows of `parts`, and 7 elsewhere."""
    made, size, vectors = np.full((len(a), b.shape[1]), 7, np.float32), 4, form.vectors_of(
        b.shape[1])
    more = None if addend is None else Operand(3, (0, *addend.strides)[-2], size)
    call = Call(call_list.PANELS, vectors, 0, b.shape[1], len(b), Operand(0, *a.strides),
                Operand(1, 0, 0), Operand(2, *made.strides), more)
    arrays = [a, packed_gemm.pack(b, vectors), made, *[x for x in [addend] if more]]
    slots = np.array([[x.ctypes.data] for x in arrays])
    scratch = np.empty((1, call_list.SCRATCH), np.int64)
    for start, stop in parts:
        runner.function(np.array([call.words()]), slots, scratch, 1, start, stop)
    return made


@pytest.mark.parametrize("rows, inner, columns", [
    (1, 1, 1), (6, 3, 64), (13, 40, 65), (7, 2 * packed_gemm.CHAIN + 1, 81), (25, 100, 31)])
def test_products_by_panels(runner, form, rows, inner, columns):
    """Of any number of rows, terms and columns, beside what is left alone."""
    a, b = whole_numbers(1, rows, inner + 2)[:, 1:-1], whole_numbers(2, inner, columns)
    bias, more = whole_numbers(3, columns), whole_numbers(4, rows, columns)
    middle = rows // 2
    found = by_panels(runner, form, a, b, [(0, middle), (middle, rows)])
    np.testing.assert_array_equal(found, a @ b)
    for addend in (bias, more):
        found = by_panels(runner, form, a, b, [(middle, rows)], addend)
        np.testing.assert_array_equal(found[middle:], (a @ b + addend)[middle:])
        assert (found[:middle] == 7).all()


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
def test_panels_make_products_of_single_floats_where_bits_need_not_be_kept(graph, calls, form,
                                                                           monkeypatch, dtype):
    """They share few rows, too; a BLAS that has to keep bits makes all rows at once."""
    layouts, make = [], native_memory.Memory.__init__

    def noted(self, layout, *arguments):
        layouts.append(layout)
        make(self, layout, *arguments)

    monkeypatch.setattr(native_memory.Memory, "__init__", noted)
    x = hf.placeholder(hf.as_dtype(dtype), [TIME, 20, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple, dtype=dtype),
             {x: data(2, TIME, 20, UNITS, dtype=dtype)})
    assert len(layouts) == 2
    by_panels = dtype == np.float32 and not compiling.keeps_bits()
    for layout in layouts:
        assert layout.parts == ([(0, 10), (10, 20)] if by_panels else [(0, 20)])
        assert any(call.kind == call_list.PANELS for call in layout.made) == by_panels
    if by_panels:  # bias and sum are part of the products
        assert [call.kind for call in layouts[0].made] == [call_list.PANELS] * 2 + [
            call_list.UNARY]


def test_large_products_that_one_thread_would_make_keep_their_lines(graph, calls, monkeypatch):
    monkeypatch.setattr(tuning.host, "BLAS_ALONE", 0)
    monkeypatch.setattr(blas, "is_small", lambda multiplications: False)
    x = hf.placeholder(hf.float32, [TIME, 5, UNITS])
    with hf.Session() as session:
        both(calls, session, recurrent(x, simple)[:1], {x: data(2, TIME, 5, UNITS)})
    assert calls.made == [False]


def test_rows_that_a_flag_chooses(runner):
    a, made = data(1, 9, 6), np.zeros((9, 6), np.float32)
    flags = np.arange(9) % 3 == 1
    call = Call(call_list.CHOICE, *call_list.loop_of(np.negative, "float32"), 6, 1,
                Operand(1, 1, 1), Operand(0, *a.strides), Operand(2, *made.strides))
    slots = np.array([[x.ctypes.data] for x in (a, flags, made)])
    scratch = np.empty((1, call_list.SCRATCH), np.int64)
    runner.function(np.array([call.words()]), slots, scratch, 1, 2, 9)
    np.testing.assert_array_equal(made[2:], np.where(flags[2:, np.newaxis], -a[2:], 0))
    assert not made[:2].any()


def test_what_has_no_loop_of_floats_is_not_called():
    assert call_list.loop_of(np.greater, "float32") is None
    assert call_list.loop_of(np.modf, "float64") is None
    assert call_list.product_of("int32") is None
