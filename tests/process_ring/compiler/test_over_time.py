"""Products in loops that are computed for many iterations at once."""

import numpy as np
import pytest
from thresholds import set_threshold

import hpcflow as hf
from hpcflow import config, errors
from hpcflow.compiler.emit import codegen
from hpcflow.compiler.native import accumulate_gemm
from hpcflow.compiler.native.accumulate_gemm import Sums

ROWS, SIZE = 2, 4


class Used:
    """What the loops of a test made use of."""

    def __init__(self):
        self.sums = 0


@pytest.fixture
def used(monkeypatch):
    """Every product is large enough, a block has two or three iterations."""
    found, total = Used(), Sums.total

    def note_total(self, *initial):
        found.sums += len(initial)
        return total(self, *initial)

    monkeypatch.setattr(codegen, "call_loops", lambda program: None)
    set_threshold(monkeypatch, "ACCUMULATE_BLOCK_FLOPS", 300.0)
    monkeypatch.setattr(Sums, "total", note_total)
    monkeypatch.setattr(config.flags, "compile", True)
    return found


def whole(seed, *shape):
    """Small whole numbers: sums of products of them are exact in any order."""
    return np.random.RandomState(seed).randint(-1, 2, shape).astype(np.float32)


def run(fetches, feeds=None):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(fetches, feeds)


def both(fetches, feeds, monkeypatch):
    """The results of compiled steps, which must be those of steps node by node."""
    compiled = run(fetches, feeds)
    with monkeypatch.context() as changed:
        changed.setattr(config.flags, "compile", False)
        plain = run(fetches, feeds)
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    return compiled


class Network:
    """A linear recurrent network whose hidden values stay small, and its gradients."""

    def __init__(self, steps=None, rows=ROWS, read=lambda t: t, until=None):
        self.inputs = hf.placeholder(hf.float32, [steps, rows, SIZE])
        self.count = hf.placeholder(hf.int32, [])
        across, within = hf.Variable(whole(1, SIZE, SIZE)), hf.Variable(whole(2, SIZE, SIZE))
        bias = hf.Variable(whole(3, SIZE))
        array = hf.TensorArray(hf.float32, hf.shape(self.inputs)[0], clear_after_read=False,
                               element_shape=[rows, SIZE])
        array = array.unstack(self.inputs)

        def goes_on(t, h):
            return t < self.count if until is None else hf.logical_and(t < self.count, until(h))

        def body(t, h):
            following = hf.matmul(h, across) + hf.matmul(array.read(read(t)), within) + bias
            return t + 1, hf.clip_by_value(following, -2.0, 2.0)

        first = hf.zeros_like(self.inputs[0])
        shapes = [hf.TensorShape([]), hf.TensorShape([rows, SIZE])]
        _, self.last = hf.while_loop(goes_on, body, [0, first], shapes)
        self.gradients = hf.gradients(hf.reduce_sum(self.last * 3.0), [across, within, bias])

    def feeds(self, steps, count=None, rows=ROWS):
        return {self.inputs: whole(4, steps, rows, SIZE),
                self.count: steps if count is None else count}


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 20])
def test_gradients_of_a_recurrent_network(used, monkeypatch, steps):
    network = Network()
    both([network.last, *network.gradients], network.feeds(steps), monkeypatch)
    assert used.sums == 3


def test_no_iterations_give_what_entered(used, monkeypatch):
    network = Network()
    results = both(network.gradients, network.feeds(3, count=0), monkeypatch)
    assert used.sums == 3
    assert all(not r.any() for r in results)


def test_the_batch_size_may_be_unknown_and_change_between_steps(used, monkeypatch):
    network = Network(rows=None)
    for rows in (1, 5, 2):
        both(network.gradients, network.feeds(6, rows=rows), monkeypatch)
    assert used.sums == 9


@pytest.mark.parametrize("read", [lambda t: 5 - t, lambda t: t * 0 + 2, lambda t: t // 2,
                                  lambda t: hf.minimum(t * 2, 5)])
def test_elements_may_be_read_in_any_order(used, monkeypatch, read):
    network = Network(read=read)
    both([network.last, *network.gradients], network.feeds(6), monkeypatch)


def test_a_loop_may_end_early(used, monkeypatch):
    network = Network(until=lambda h: hf.reduce_max(hf.abs(h)) < 2)
    both([network.last, *network.gradients], network.feeds(9), monkeypatch)


def test_the_gradient_of_joined_values_in_a_loop(used, monkeypatch):
    inputs = hf.placeholder(hf.float32, [6, ROWS, 2 * SIZE])
    array = hf.TensorArray(hf.float32, 6).unstack(inputs)
    kernel = hf.Variable(whole(5, 3 * SIZE, SIZE))

    def body(t, h):
        following = hf.matmul(hf.concat([array.read(t), h], 1), kernel)
        return t + 1, hf.clip_by_value(following, -2.0, 2.0)

    _, last = hf.while_loop(lambda t, h: t < 6, body, [0, hf.ones([ROWS, SIZE])])
    gradients = hf.gradients(hf.reduce_sum(last * 3.0), [kernel])
    both([last, *gradients], {inputs: whole(6, 6, ROWS, 2 * SIZE)}, monkeypatch)
    assert used.sums == 1


def test_elements_that_were_never_written(used):
    array = hf.TensorArray(hf.float32, 6, element_shape=[ROWS, SIZE])
    for k in (0, 1, 4):
        array = array.write(k, whole(k, ROWS, SIZE))
    matrix = hf.constant(whole(9, SIZE, SIZE))
    _, total = hf.while_loop(lambda t, s: t < 6,
                             lambda t, s: (t + 1, s + hf.matmul(array.read(t), matrix)),
                             [0, hf.zeros([ROWS, SIZE])])
    expected = sum(whole(k, ROWS, SIZE) for k in (0, 1, 4)) @ whole(9, SIZE, SIZE)
    np.testing.assert_array_equal(run(total), expected)


def sum_of_products(left, right, count):
    """A sum over iterations, written as a gradient's is."""
    return hf.while_loop(
        lambda t, s: t < count,
        lambda t, s: (t + 1, s + hf.matmul(left(t), right(t), transpose_a=True)),
        [0, hf.fill([SIZE, SIZE], 7.0)])[1]


def test_rows_may_differ_between_iterations(used, monkeypatch):
    values = hf.placeholder(hf.float32, [None, SIZE])

    def part(t):
        return values[: 1 + t % 3]

    data = whole(5, 4, SIZE)
    result, = both([sum_of_products(part, lambda t: part(t) * 2, 8)], {values: data}, monkeypatch)
    expected = 7 + sum(data[: 1 + t % 3].T @ data[: 1 + t % 3] * 2 for t in range(8))
    np.testing.assert_array_equal(result, expected)
    assert used.sums == 1


def test_an_error_names_the_product(used):
    values = hf.placeholder(hf.float32, [None, SIZE])
    total = sum_of_products(lambda t: values, lambda t: values[t:], 3)
    with pytest.raises(errors.InvalidArgumentError, match="MatMul") as caught:
        run(total, {values: whole(5, 4, SIZE)})
    assert caught.value.op.type == "MatMul"


def test_an_element_that_does_not_fit_is_an_error_of_its_product(used):
    array = hf.TensorArray(hf.float32, 4, infer_shape=False)
    array = array.unstack(hf.placeholder_with_default(whole(1, 4, ROWS, SIZE + 1), None))
    matrix = hf.constant(whole(9, SIZE, SIZE))

    def body(t, s):
        value = array.read(t)
        value.set_shape([ROWS, None])
        return t + 1, s + hf.matmul(value, matrix)

    _, total = hf.while_loop(lambda t, s: t < 4, body, [0, hf.zeros([ROWS, SIZE])])
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(total)
    assert caught.value.op.type == "MatMul"


def test_sums_in_branches_and_inner_loops(used, monkeypatch):
    x = hf.placeholder(hf.float32, [ROWS, SIZE])

    def product(scale):
        return hf.matmul(x, x * scale, transpose_a=True)

    def inner(s):
        return hf.while_loop(lambda k, _: k < 3, lambda k, r: (k + 1, r + product(1.0)), [0, s])[1]

    def body(t, s, u):
        added = hf.cond(hf.equal(t % 2, 0), lambda: s + product(2.0), lambda: s)
        return t + 1, added, inner(u)

    _, s, u = hf.while_loop(lambda t, s, u: t < 5, body, [0, *[hf.zeros([SIZE, SIZE])] * 2])
    data = whole(6, ROWS, SIZE)
    one, other = both([s, u], {x: data}, monkeypatch)
    np.testing.assert_array_equal(one, 6 * data.T @ data)
    np.testing.assert_array_equal(other, 15 * data.T @ data)
    assert used.sums == 5  # one in each run of the inner loop


def test_nothing_is_written_over_what_a_sum_is_yet_to_read(used, monkeypatch):
    x = hf.placeholder(hf.float32, [ROWS, SIZE])

    def body(t, s, h):
        left, right = h + 1.0, h - 1.0
        following = hf.clip_by_value(left * right, -2.0, 2.0)  # could be computed in place
        return t + 1, s + hf.matmul(left, right, transpose_a=True), following

    results = hf.while_loop(lambda t, s, h: t < 7, body, [0, hf.zeros([SIZE, SIZE]), x])
    both(results[1:], {x: whole(8, ROWS, SIZE)}, monkeypatch)
    assert used.sums == 1


def test_a_sum_that_the_loop_reads_stays_as_it_is(used, monkeypatch):
    x = hf.placeholder(hf.float32, [ROWS, SIZE])

    def body(t, s, m):
        return t + 1, s + hf.matmul(x, x, transpose_a=True), hf.maximum(m, hf.reduce_max(s))

    results = hf.while_loop(lambda t, s, m: t < 4, body, [0, hf.zeros([SIZE, SIZE]), -1.0])
    both(results[1:], {x: whole(7, ROWS, SIZE)}, monkeypatch)
    assert not used.sums


def test_results_belong_to_the_client(used):
    network = Network()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        feeds = network.feeds(7)
        results = session.run(network.gradients, feeds)
        copies = [r.copy() for r in results]
        for result in results:
            result[...] = 99
        for one, other in zip(session.run(network.gradients, feeds), copies, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_same_bits_on_every_run(used):
    size, steps = 32, 9
    x = np.random.RandomState(0).standard_normal((steps, 8, size)).astype(np.float32)
    values = hf.placeholder(hf.float32, x.shape)
    total = hf.while_loop(
        lambda t, s: t < steps,
        lambda t, s: (t + 1, s + hf.matmul(values[t], hf.tanh(values[t]), transpose_a=True)),
        [0, hf.zeros([size, size])])[1]
    with hf.Session() as session:
        runs = {session.run(total, {values: x}).tobytes() for _ in range(20)}
    assert len(runs) == 1
    exact = sum(a.T.astype(np.float64) @ np.tanh(a.astype(np.float64)) for a in x)
    np.testing.assert_allclose(np.frombuffer(runs.pop(), np.float32).reshape(size, size), exact,
                               rtol=1e-4, atol=1e-4)


def test_rows_are_added_up_over_time_first(used):
    """Iterations of other numbers of rows begin another sum."""
    def of_rows(x):
        return np.add.reduce(x, 0)

    terms = [accumulate_gemm.Term(None, np.dot, [0, 1]), accumulate_gemm.Term(None, of_rows, [1])]
    sums, random = Sums(terms), np.random.default_rng(2)
    given = [(whole_of(random, rows, 4), whole_of(random, rows, 5)) for rows in (3, 3, 2, 2, 3)]
    for left, right in given:
        sums.add(left, right)
    product, rows = sums.total(np.ones((4, 5), np.float32), np.ones(5, np.float32))
    np.testing.assert_array_equal(product, 1 + sum(a.T @ b for a, b in given))
    np.testing.assert_array_equal(rows, 1 + sum(b.sum(0) for _, b in given))


def whole_of(random, *shape):
    return random.integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_rows_are_added_up_where_no_product_is(used, times):
    with hf.Graph().as_default(), hf.Session() as session:
        bias = hf.get_variable("bias", [SIZE], initializer=hf.zeros_initializer())
        end, x = hf.placeholder(hf.int32, []), hf.ones([ROWS, SIZE])
        _, written = hf.while_loop(
            lambda t, a: t < end, lambda t, a: (t + 1, a.write(t, hf.nn.bias_add(x, bias))),
            [0, hf.TensorArray(hf.float32, end, element_shape=[ROWS, SIZE])])
        slope = hf.gradients(hf.reduce_sum(written.stack()), bias)[0]
        session.run(bias.initializer)
        assert session.run(slope, {end: times}).tolist() == [ROWS * times] * SIZE
    assert used.sums == 1
