"""Arguments of functions in all 1.x releases: keepdims, axis, output_type and others."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Z = np.array([[1 + 2j, 3], [4j, 5 - 1j]])


def run(tensor, feeds=None):
    with hf.Session() as session:
        return session.run(tensor, feeds)


CASES = [
    (lambda: hf.reduce_sum(X, 1, keepdims=True), X.sum(1, keepdims=True)),
    (lambda: hf.reduce_max(X, keepdims=True), [[11]]),
    (lambda: hf.reduce_logsumexp(X * 0, 1, keepdims=True), np.full((3, 1), np.log(4))),
    (lambda: hf.count_nonzero(X, 0, keepdims=True), [[2, 3, 3, 3]]),
    (lambda: hf.norm(X, axis=1, keepdims=True), np.linalg.norm(X, axis=1, keepdims=True)),
    (lambda: hf.gather(X, [2, 0], axis=1), X[:, [2, 0]]),
    (lambda: hf.gather(X, [2, 0], axis=-1), X[:, [2, 0]]),
    (lambda: hf.gather(X.reshape(3, 2, 2), [[0, 1], [1, 1], [1, 0]], batch_dims=1),
     X.reshape(3, 2, 2)[np.arange(3)[:, None], [[0, 1], [1, 1], [1, 0]]]),
    (lambda: hf.gather(X.reshape(3, 2, 2), [[0], [1], [0]], axis=2, batch_dims=1),
     np.stack([X.reshape(3, 2, 2)[i][:, [k]] for i, k in enumerate([0, 1, 0])])),
    (lambda: hf.batch_gather(X, [[0, 3], [1, 1], [2, 0]]), [[0, 3], [5, 5], [10, 8]]),
    (lambda: hf.gather_nd(X, [[2], [0], [3]], batch_dims=1), [2, 4, 11]),
    (lambda: hf.gather_nd(X.reshape(3, 2, 2), [[[1], [0]], [[0], [0]], [[1], [1]]], batch_dims=2),
     [[1, 2], [4, 6], [9, 11]]),
    (lambda: hf.fake_quant_with_min_max_args([-7.0, 0.4, 3.9], -6, 6, num_bits=2), [-8, 0, 4]),
    (lambda: hf.fake_quant_with_min_max_vars([-7.0, 0.4, 3.1], -6.0, 6.0, 2, True), [-6, 0, 6]),
    (lambda: hf.fake_quant_with_min_max_vars_per_channel(
        [[-7.0, 2.2], [3, 1]], [-1.0, -2], [1.0, 3], num_bits=4, narrow_range=True),
     [[-1, 15 / 7], [1, 7.5 / 7]]),
    (lambda: hf.strings.length(["ab", ""]), [2, 0]),
    (lambda: hf.strings.regex_full_match(["ab", "b"], "a.*"), [True, False]),
    (lambda: hf.boolean_mask(X, [True, False, True, False], axis=1), X[:, ::2]),
    (lambda: hf.boolean_mask(X.reshape(3, 2, 2), [[True, False], [False, True]], axis=1),
     X[:, [0, 3]]),
    (lambda: hf.pad(X, [[1, 0], [0, 2]], constant_values=7),
     np.pad(X, [[1, 0], [0, 2]], constant_values=7)),
    (lambda: hf.transpose(Z, conjugate=True), Z.conj().T),
    (lambda: hf.matrix_transpose(Z, conjugate=True), Z.conj().T),
    (lambda: hf.matrix_diag([1, 2], k=1, padding_value=9), [[9, 1, 9], [9, 9, 2], [9, 9, 9]]),
    (lambda: hf.matrix_diag([[1, 2], [3, 4]], k=(0, 1), num_rows=2), [[3, 2], [0, 4]]),
    (lambda: hf.matrix_diag_part(X, k=-1, padding_value=9), [4, 9]),
    (lambda: hf.matrix_set_diag(X[:2, :2], [[7.0, 0], [8, 9]], k=(0, 1), align="LEFT_LEFT"),
     [[8, 7], [4, 9]]),
    (lambda: hf.gather_nd(X, [[2], [0], [3]], batch_dims=hf.constant([1])), [2, 4, 11]),
    (lambda: hf.bincount([1, 2, 1], [0.5, 1, 2], 4), [0, 2.5, 1, 0]),
    (lambda: hf.searchsorted([[1, 3, 3], [2, 4, 6]], [[3, 4], [7, 0]]), [[1, 3], [3, 0]]),
    (lambda: hf.searchsorted([1, 3, 3], [3, 0], side="right"), [3, 0]),
    (lambda: hf.unravel_index([5, 1], [2, 3]), [[1, 0], [2, 1]]),
    (lambda: hf.guarantee_const(X), X),
    (lambda: hf.truediv(np.uint32([1, 3]), np.uint32(2)), [0.5, 1.5]),
    (lambda: hf.sinh(hf.zeros([2], hf.bfloat16)), [0, 0]),
    (lambda: hf.nn.in_top_k(X, [3, 0, 3], hf.constant(1)), [True, False, True]),
    (lambda: hf.sort(X[:, ::-1], 1), X),
    (lambda: hf.sort(X, 0, "DESCENDING"), X[::-1]),
    (lambda: hf.sort(np.array([3, -128, 127], np.int8)), [-128, 3, 127]),
    (lambda: hf.sort(np.array([3, 0, 255], np.uint8)), [0, 3, 255]),
    (lambda: hf.argsort([2, 1, 2, 1]), [1, 3, 0, 2]),
    (lambda: hf.math.reduce_variance(X, 0, keepdims=True), X.var(0, keepdims=True)),
    (lambda: hf.math.reduce_variance(Z), Z.var()),
    (lambda: hf.math.reduce_std(X, 1), X.std(1)),
    (lambda: hf.math.reduce_euclidean_norm(X, 1), np.linalg.norm(X, axis=1)),
    (lambda: hf.math.reduce_euclidean_norm([3, 4, 1]), 5),
    (lambda: hf.math.polyval([1.0, 2, 3], X), X * X + 2 * X + 3),
    (lambda: hf.math.reciprocal_no_nan([0.0, 2]), [0, 0.5]),
    (lambda: hf.div_no_nan([1.0, 2], [0.0, 4]), [0, 0.5]),
    (lambda: hf.math.top_k([1, 3, 2], 2).indices, [1, 2]),
    (lambda: hf.gradients(hf.constant(1.0), hf.constant(X), unconnected_gradients="zero")[0],
     0 * X),
    (lambda: hf.angle(Z), np.angle(Z)),
    (lambda: hf.angle([-2.0, 3]), [np.pi, 0]),
    (lambda: hf.imag([-2.0, 3]), [0, 0]),
    (lambda: hf.where_v2([False, True]), [[1]]),
    (lambda: hf.where_v2([[True], [False]], [1, 2], 3), [[1, 2], [3, 3]]),
    (lambda: hf.quantize([0.0, 255], 0, 255, hf.quint8).output, [0, 255]),
    (lambda: hf.unsorted_segment_mean(X, [2, 0, 2], 3), [X[1], 0 * X[0], X[::2].mean(0)]),
    (lambda: hf.unsorted_segment_sqrt_n([1.0, 3, 5], [0, 0, 2], 3), [8**0.5, 0, 5]),
    (lambda: hf.unsorted_segment_prod([2, 3, 5], [0, 0, 2], 3), [6, 1, 5]),
    (lambda: hf.unsorted_segment_min([2, 3, 5], [0, 0, 1], 2), [2, 5]),
    (lambda: hf.bitcast(np.uint32([1]), hf.quint16), [[1, 0]]),
    (lambda: hf.constant(X)[hf.Dimension(None):, 1:hf.Dimension(2)], X[:, 1:2]),
    (lambda: hf.transpose(Z, [0, 1], conjugate=True), Z.conj()),
    (lambda: hf.space_to_depth(X.reshape(1, 2, 2, 3), 2, data_format="NHWC"),
     X.reshape(1, 1, 1, 12)),
    (lambda: hf.where([0.0, 2.0, 0.0, -1.0]), [[1], [3]]),
    (lambda: hf.constant(X)[hf.constant(X) > 8], X[X > 8]),
    (lambda: hf.constant(X)[np.array([True, False, True])], X[::2]),
    (lambda: hf.constant(X)[[False, True, False]], X[1:2]),
    (lambda: hf.saturate_cast([1e10, -1e10, 3.5], hf.int32), [2147483520, -2147483648, 3]),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_value(case):
    build, expected = CASES[case]
    np.testing.assert_allclose(run(build()), expected, rtol=1e-6)


def test_output_type_of_argmax():
    found = hf.argmax(X, 1, output_type=hf.int32)
    assert found.dtype == hf.int32
    np.testing.assert_array_equal(run(found), [3, 3, 3])


def test_both_names_of_an_argument():
    with pytest.raises(TypeError, match="keep_dims"):
        hf.reduce_sum(X, keep_dims=True, keepdims=True)


def test_gradient_of_gather_along_an_axis():
    x = hf.constant(X)
    grad = hf.gradients(hf.gather(x, [1, 1, 3], axis=1), x)[0]
    np.testing.assert_array_equal(run(grad), np.tile([0, 2, 0, 1], (3, 1)))


AXES = [1, [[1], [0]], [[0], [1]], [[0, 1], [1, 0]], [[-1], [0]]]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("known", ["neither", "axes", "shapes"])
def test_tensordot_of_what_is_fed(axes, known):
    a, b = X[:, :3], X[:3, :3].T.copy()
    shape = [3, 3] if known == "shapes" else None
    ph_a, ph_b = hf.placeholder(hf.float32, shape), hf.placeholder(hf.float32, shape)
    feeds = {ph_a: a, ph_b: b}
    given = axes
    if known != "axes" and isinstance(axes, list):
        given = hf.placeholder(hf.int32)
        feeds[given] = axes
    expected = np.tensordot(a, b, axes)
    np.testing.assert_allclose(run(hf.tensordot(ph_a, ph_b, given), feeds), expected, rtol=1e-6)


def test_gradients_of_tensordot_of_what_is_fed():
    a, b, axes = hf.placeholder(hf.float32), hf.placeholder(hf.float32), hf.placeholder(hf.int32)
    grads = hf.gradients(hf.tensordot(a, b, axes), [a, b])
    got = run(grads, {a: X, b: X.T, axes: [[1], [0]]})
    np.testing.assert_allclose(got[0], np.tile(X.sum(0), (3, 1)))
    np.testing.assert_allclose(got[1], np.tile(X.sum(0)[:, None], (1, 3)))


def test_fields_of_csv_that_are_missing_unquoted_or_chosen():
    found = run(hf.decode_csv(["1,NA,x", "NA,3,y"], [[7], [8], [""]], na_value="NA"))
    assert [f.tolist() for f in found] == [[1, 7], [8, 3], [b"x", b"y"]]
    found = run(hf.decode_csv(['1,a"b'], [[0], [""]], use_quote_delim=False))
    assert [f.tolist() for f in found] == [[1], [b'a"b']]
    found = run(hf.decode_csv(["1,2,3", "4,5,6"], [[0], [0]], select_cols=[0, 2]))
    assert [f.tolist() for f in found] == [[1, 4], [3, 6]]
    for columns in ([1, 0], [-1, 0], [0]):
        with pytest.raises(ValueError, match="select_cols"):
            hf.decode_csv(["1,2"], [[0], [0]], select_cols=columns)
    with pytest.raises(hf.errors.InvalidArgumentError, match="1 fields but have 0"):
        run(hf.decode_csv(["1,2"], [[0]], select_cols=[2]))


def test_empty_parts_of_strings():
    assert run(hf.string_split(["a,,b"], ",", skip_empty=False)).values.tolist() == [b"a", b"",
                                                                                     b"b"]


def test_parts_and_maxima_of_sparse_tensors():
    x = hf.SparseTensor([[0, 1], [1, 0], [1, 2]], [-1.0, 2.0, 3.0], [2, 3])
    part = run(hf.sparse_slice(x, [0, 1], [2, 9]))
    with pytest.raises(ValueError, match="incompatible"):
        hf.sparse_slice(x, [0], [1])
    assert part.indices.tolist() == [[0, 0], [1, 1]] and part.dense_shape.tolist() == [2, 2]
    assert part.values.tolist() == [-1, 3]
    part = run(hf.sparse_slice(x, [1, -1], [2**63 - 1, 2]))
    assert part.values.tolist() == [2] and part.indices.tolist() == [[0, 1]]
    assert part.dense_shape.tolist() == [1, 2]
    assert run(hf.sparse_reduce_max(x, 1)).tolist() == [-1, 3]
    assert run(hf.sparse_reduce_max(x, 0, keep_dims=True)).tolist() == [[2, -1, 3]]
    assert run(hf.sparse_reduce_max(x)) == 3
    assert run(hf.sparse_reduce_max_sparse(x, 1)).values.tolist() == [-1, 3]


def test_lengths_along_an_axis():
    np.testing.assert_allclose(np.linalg.norm(run(hf.nn.l2_normalize(X, axis=1)), axis=1), 1,
                               rtol=1e-6)


@pytest.mark.parametrize(("index", "expected"), [(0, 10), (1, 30), (2, 40), (9, 40)])
def test_functions_chosen_by_number(index, expected):
    chosen = hf.placeholder(hf.int32, [])
    built = hf.switch_case(chosen, {1: lambda: hf.constant(30), 0: lambda: hf.constant(10)},
                           default=lambda: hf.constant(40))
    assert run(built, {chosen: index}) == expected
    last = hf.switch_case(chosen, [lambda: hf.constant(10), lambda: hf.constant(40)])
    assert run(last, {chosen: index}) == (10 if index == 0 else 40)


def test_functions_without_numbers_from_zero_on():
    chosen = hf.placeholder(hf.int32, [])
    for numbers in ((1, 1), (0, 2)):
        with pytest.raises(ValueError, match="must form contiguous range"):
            hf.switch_case(chosen, [(n, lambda: 1) for n in numbers])
    with pytest.raises(TypeError, match="functions"):
        hf.switch_case(chosen, [3])
    with pytest.raises(TypeError, match="must be a Python `int`"):
        hf.switch_case(chosen, [(chosen, lambda: 1)])
    with pytest.raises(TypeError, match="branch_index must be an integer Tensor"):
        hf.switch_case(0, [lambda: 1])


def test_levels_of_fake_quantization():
    """Gradients go by the same levels; later versions have the name behind the other two."""
    x, low, high = hf.constant([-7.0, 0.1, 5.99, 9]), hf.constant(-5.0), hf.constant(5.0)
    y = hf.fake_quant_with_min_max_vars(x, low, high, num_bits=3)
    by_x, by_low, by_high = run(hf.gradients(y, [x, low, high]))
    assert (by_x.tolist(), by_low, by_high) == ([0, 1, 0, 0], 1, 2)
    assert hf.fake_quant_with_min_max_args(x, -1, 1, "four").op.name == "four"
    assert hf.fake_quant_with_min_max_args(x, -1, 1, 4, True, "five").op.name == "five"
    for bits in (1, 17):
        with pytest.raises(hf.errors.InvalidArgumentError, match=f"between 2 and 16.*{bits}"):
            run(hf.fake_quant_with_min_max_args(x, num_bits=bits))


def test_longer_labels_can_be_ignored():
    """The first example has two labels and one step."""
    labels = hf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 1, 0], [2, 2])
    x = hf.constant(np.ones((2, 2, 4)), hf.float32)
    loss = hf.nn.ctc_loss(labels, x, [1, 2], ignore_longer_outputs_than_inputs=True)
    values, grad = run([loss, hf.gradients(loss, x)[0]])
    alone = hf.nn.ctc_loss(hf.SparseTensor([[0, 0]], [0], [1, 1]), x[:, 1:], [2])
    np.testing.assert_allclose(values, [0, run(alone)[0]], rtol=1e-6)
    assert not grad[:, 0].any() and grad[:, 1].any()
    with pytest.raises(hf.errors.InvalidArgumentError, match="Not enough time"):
        run(hf.nn.ctc_loss(labels, x, [1, 2]))


# ---------------------------------------------------------------- cells, optimizers, lists


def _lstm_states(session, **dropout):
    cell = hf.nn.rnn_cell.DropoutWrapper(
        hf.nn.rnn_cell.LSTMCell(50, initializer=hf.constant_initializer(0.1)), **dropout)
    outputs, state = hf.nn.dynamic_rnn(cell, hf.ones([4, 6, 3]), dtype=hf.float32)
    session.run(hf.global_variables_initializer())
    return session.run([outputs, state])


def test_dropout_of_the_state(session):
    outputs, state = _lstm_states(session, state_keep_prob=0.5, seed=3)
    assert np.all(outputs) and np.all(state.c)
    assert 0.3 < np.mean(state.h == 0) < 0.7


def test_the_same_units_are_dropped_in_every_step(session):
    outputs, _ = _lstm_states(session, output_keep_prob=0.5, variational_recurrent=True,
                              dtype=hf.float32, seed=3)
    dropped = outputs == 0
    assert 0.2 < np.mean(dropped) < 0.8
    np.testing.assert_array_equal(dropped, np.broadcast_to(dropped[:1, :1], dropped.shape))


@pytest.mark.parametrize("arguments, message", [
    ({"state_keep_prob": 0.0}, "state_keep_prob must be between 0 and 1"),
    ({"variational_recurrent": True}, "dtype must be provided"),
    ({"variational_recurrent": True, "dtype": "float32", "input_keep_prob": 0.5},
     "input_size must be provided")])
def test_dropout_that_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        hf.nn.rnn_cell.DropoutWrapper(hf.nn.rnn_cell.GRUCell(2), **arguments)


def test_variables_of_optimizers():
    v = hf.Variable([1.0], name="v")
    optimizer = hf.train.AdamOptimizer()
    assert optimizer.variables() == []
    optimizer.minimize(v * v)
    assert [x.op.name for x in optimizer.variables()] == [
        "beta1_power", "beta2_power", "v/Adam", "v/Adam_1"]


def test_lists_of_variables_by_scope():
    with hf.variable_scope("one"):
        v = hf.get_variable("v", [])
    w = hf.get_variable("onerous", [], collections=[hf.GraphKeys.LOCAL_VARIABLES])
    assert hf.trainable_variables("one/") == hf.global_variables("one") == [v]
    assert hf.local_variables("one") == [w] and hf.local_variables("two") == []


def test_rows_of_a_batch_are_replaced():
    v = hf.Variable(np.zeros((2, 3), np.float32))
    update = hf.batch_scatter_update(v, [[0, 2], [1, 1]], [[1.0, 2], [3, 4]])
    with hf.Session() as session:
        session.run(v.initializer)
        np.testing.assert_array_equal(session.run(update), [[1, 0, 2], [0, 4, 0]])


def test_assign_takes_slices_of_variables():
    v = hf.Variable([1, 2, 3])
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(hf.assign(v[1:], [7, 8]))
        assert session.run(v).tolist() == [1, 7, 8]


def test_clipped_slices_stay_slices():
    slices = hf.IndexedSlices(hf.constant([[-3.0, 4], [0, 1]]), hf.constant([0, 2]),
                              hf.constant([4, 2]))
    by_value, by_norm = hf.clip_by_value(slices, -1, 2), hf.clip_by_norm(slices, 1.0, [1])
    found = run([by_value, by_norm])
    np.testing.assert_array_equal(found[0].values, [[-1, 2], [0, 1]])
    np.testing.assert_allclose(found[1].values, [[-0.6, 0.8], [0, 1]], rtol=1e-6)
    assert found[0].indices.tolist() == found[1].indices.tolist() == [0, 2]


def test_the_gradient_of_a_power_that_nothing_reads_is_zero():
    x = hf.constant([2.0, 6], hf.float16)
    y = hf.constant([2.0, 6], hf.float16)
    z = hf.pow(x, y)  # 6**6 * log(6) is beyond float16
    grads = run(hf.gradients(z[0], [x, y]))
    np.testing.assert_allclose(grads, [[4, 0], [4 * np.log(2), 0]], rtol=2e-3)


COMPUTED = {
    "arithmetic": lambda x, y: [(x + y) * x - hf.minimum(x, y), hf.square(x)],
    "division": lambda x, y: [x // y, hf.floormod(x, y)],
    "order": lambda x, y: [hf.less(x, y), hf.equal(x, y), hf.nn.top_k(x, 2).values],
    "sums": lambda x, y: [hf.add_n([x, y]), hf.cumsum(x, 1), hf.reduce_sum(x, 0),
                          hf.reduce_max(y), hf.argmax(x, 1)],
    "segments": lambda x, y: [hf.segment_sum(x, [0, 0]), hf.unsorted_segment_max(y, [1, 0], 2)],
}


@pytest.mark.parametrize("what", COMPUTED)
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "uint64",
                                   "bfloat16"])
def test_the_narrow_and_unsigned_types_compute(dtype, what):
    x, y = np.array([[5, 2, 3], [4, 1, 6]]), np.array([[2, 3, 1], [4, 3, 5]])
    results = [run(COMPUTED[what](hf.cast(x, t), hf.cast(y, t))) for t in (dtype, hf.int64)]
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(np.asarray(found, np.float64), expected)


def test_bfloat16_is_summed_in_more_bits():
    ones = hf.ones([4096], hf.bfloat16)
    assert float(run(hf.reduce_sum(ones))) == 4096


def test_what_cannot_be_sorted():
    with pytest.raises(ValueError, match="direction"):
        hf.sort(X, direction="UP")
    with pytest.raises(ValueError, match=r"slice index 4 .* out of bounds"):
        hf.sort(X, 4)
    with pytest.raises(TypeError, match="int32"):
        hf.math.reduce_variance([1, 2])
    with pytest.raises(ValueError, match="unconnected_gradients"):
        hf.gradients(hf.constant(1.0), hf.constant(1.0), unconnected_gradients="one")


def test_functions_with_gradients_of_their_own():
    @hf.custom_gradient
    def multiply(pair):
        x, y = pair
        return {"product": x * y, "sum": x + y}, lambda dp, ds: [10 * dp, 100 * ds]

    x, y = hf.constant(2.0), hf.constant(3.0)
    result = multiply([x, y])
    assert run([result["product"], result["sum"]]) == [6, 5]
    assert run(hf.gradients(result["product"], [x, y])) == [10, 0]
    assert run(hf.gradients(result["product"] + result["sum"], [x, y])) == [10, 100]
    last = hf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, multiply([v, y])["product"]),
                         [0, x])[1]
    assert run([last, *hf.gradients(last, [x])]) == [54, 1000]
    with pytest.raises(ValueError, match="1 gradients are expected, got 2"):
        hf.gradients(hf.custom_gradient(lambda v: (v, lambda g: [g, g]))(x), [x])


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_in_functions_with_gradients_of_their_own(graph, use_resource):
    w = hf.get_variable("w", initializer=3.0, use_resource=use_resource)
    other = hf.get_variable("other", initializer=7.0, use_resource=use_resource)
    seen = []

    @hf.custom_gradient
    def affine(x):
        def grad(dy, variables=None):
            seen.append([v.name for v in variables])
            return dy * 10.0, [dy * 100.0]

        return x * w + 1.0, grad

    x = other * 2.0
    grads = hf.gradients(affine(x), [x, w, other])
    last = hf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, affine(v)), [0, x])[1]
    of_loop = hf.gradients(last, [x, w])
    assert seen == [["w:0"]] * 2
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        assert session.run(grads) == [10, 100, 20]
        assert session.run(of_loop) == [1000, 11100]
    with pytest.raises(TypeError, match="uses the variable new:0, but that of its gradients"):
        hf.custom_gradient(lambda v: (v * hf.get_variable("new", initializer=1.0), hf.identity))(x)
    left_out = hf.custom_gradient(lambda v: (v * w, hf.identity))
    if use_resource:
        with pytest.raises(TypeError, match="uses the variable w:0"):
            left_out(x)
    else:
        assert hf.gradients(left_out(x), [w]) == [None]
    wrong = hf.custom_gradient(lambda v: (v * w, lambda g, variables: (g, [g, g])))(x)
    with pytest.raises(ValueError, match="1 gradients of variables are expected, got 2"):
        hf.gradients(wrong, x)


def test_functions_that_are_computed_again_for_their_gradient(graph):
    w = hf.get_variable("w", initializer=[1.0, 2.0])
    calls = []

    @hf.recompute_grad
    def block(x, scale):
        calls.append(x.name)
        return hf.sin(x * hf.get_variable("w", [2])) * scale

    with hf.variable_scope(hf.get_variable_scope(), reuse=True):
        y = block(hf.constant([0.5, 0.25]), hf.constant(3.0))
    plain = hf.sin(hf.constant([0.5, 0.25]) * w) * 3.0
    with hf.Session() as session:
        session.run(w.initializer)
        np.testing.assert_array_equal(*session.run([y, plain]))
        np.testing.assert_array_equal(*session.run([hf.gradients(y, w), hf.gradients(plain, w)]))
    assert len(calls) == 2 and calls[0] != calls[1]


def test_gradients_that_pass_through(graph):
    w = hf.get_variable("w", initializer=5.0, use_resource=True)
    x = hf.constant(3.0)
    rounded = hf.grad_pass_through(lambda v: hf.round(v * w))(x)
    assert hf.gradients(rounded, w) == [None]
    assert run([hf.gradients(rounded * 2.0, x)[0]]) == [2]


def test_print_writes_tensors_and_other_values(capfd, tmp_path):
    x = hf.constant([1, 2])
    run(hf.print("x:", x, [hf.constant(3.5), {"k": "v"}], "{}", hf.range(9), sep="|", end="!"))
    assert capfd.readouterr().err == "x:|[1 2]|[3.5, {'k': 'v'}]|{}|[0 1 2 ... 6 7 8]!"
    run(hf.print(x, output_stream=f"file://{tmp_path / 'text'}"))
    assert (tmp_path / "text").read_text() == "[1 2]\n"
    run(hf.print(x, output_stream=hf.logging.warning))
    assert capfd.readouterr().err == "W [1 2]\n"
    with pytest.raises(ValueError, match="output_stream"):
        hf.print(x, output_stream=3)


def test_sizes_of_dimensions():
    shape = hf.TensorShape([3, None])
    assert [hf.dimension_value(d) for d in (*shape, 4)] == [3, None, 4]
    assert hf.compat.dimension_at_index(shape, 0).value == 3
    assert hf.dimension_at_index(hf.TensorShape(None), 1).value is None


def test_initializers_of_layers_by_name():
    for name, variance, bound in (("he_normal", 0.02, 2.3), ("he_uniform", 0.02, 1.8),
                                  ("lecun_normal", 0.01, 2.3), ("lecun_uniform", 0.01, 1.8)):
        values = run(getattr(hf.initializers, name)(seed=1)([100, 300]))
        np.testing.assert_allclose(values.var(), variance, rtol=0.05)
        assert np.abs(values).max() < bound * variance**0.5
    plain = hf.variance_scaling_initializer(distribution="untruncated_normal", seed=1)
    assert np.abs(run(plain([100, 300]))).max() > 0.3


@pytest.mark.parametrize("limit", [None, 3])
def test_a_loop_returns_one_variable_in_its_structure_if_asked(graph, limit):
    def loop(variables, **options):
        return hf.while_loop(lambda x: x < 10.0, lambda x: x * 2.0, variables,
                             maximum_iterations=limit, **options)

    wanted = 16.0 if limit is None else 8.0
    plain = loop([hf.constant(1.0)])
    kept = loop([hf.constant(1.0)], return_same_structure=True)
    assert isinstance(plain, hf.Tensor) and len(kept) == 1
    assert run([plain, kept[0]]) == [wanted, wanted]


def test_the_collections_of_a_graph(graph):
    hf.add_to_collection("mine", 1)
    assert "mine" in graph.collections


def test_the_shape_of_indexed_slices(graph):
    values, rows = hf.zeros([2, 3]), hf.constant([0, 4])
    assert hf.IndexedSlices(values, rows).shape.as_list() == [None, 3]
    assert hf.IndexedSlices(values, rows, hf.constant([7, 3])).shape.as_list() == [7, 3]
    some = hf.placeholder(hf.float32)
    assert hf.IndexedSlices(some, rows).shape.ndims is None


def test_statistics_of_a_wider_type(graph):
    """Half precision values, normalized by statistics in single precision."""
    x = np.linspace(-2, 2, 8, dtype=np.float16).reshape(4, 2)
    mean, variance = np.float32([0.5, -0.5]), np.float32([1.5, 2.5])
    y = hf.nn.batch_normalization(
        hf.constant(x), hf.constant(mean), hf.constant(variance), hf.constant(mean),
        hf.constant(variance), 1e-3)
    assert y.dtype is hf.float16
    wanted = (x - mean) / np.sqrt(variance + 1e-3) * variance + mean
    np.testing.assert_allclose(run(y), wanted, atol=4e-3)


def test_a_choice_keeps_a_list_of_one_if_strict(graph):
    def choice(**options):
        return hf.case([(hf.constant(False), lambda: [hf.constant(1.0)]),
                        (hf.constant(True), lambda: [hf.constant(2.0)])],
                       lambda: [hf.constant(3.0)], **options)

    plain, kept = choice(), choice(strict=True)
    assert isinstance(plain, hf.Tensor) and isinstance(kept, list) and len(kept) == 1
    assert run([plain, kept[0]]) == [2.0, 2.0]


def test_split_strings_with_a_separator_and_a_name(graph):
    parts = hf.string_split(["a,b", "c"], sep=",", name="parts")
    assert parts.values.op.name == "parts" and run(parts.values).tolist() == [b"a", b"b", b"c"]


def test_the_sample_of_a_softmax_loss_has_a_seed(graph):
    def loss():
        return hf.nn.sampled_softmax_loss(
            hf.ones([50, 2]), hf.to_float(hf.range(50)), hf.constant([[3]]), hf.ones([1, 2]), 5,
            50, seed=4)

    hf.set_random_seed(1)
    first, second = loss(), loss()
    with hf.Session() as session:
        a, b = session.run([first, second])
    np.testing.assert_array_equal(a, b)


S = ([[0, 1], [1, 0]], [3.0, 4.0], [2, 2])
IMAGES = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2)


@pytest.mark.parametrize(("later", "first"), [
    (lambda: hf.count_nonzero(input=X), lambda: hf.count_nonzero(X)),
    (lambda: hf.decode_raw(input_bytes="abcd", out_type=hf.int16),
     lambda: hf.decode_raw("abcd", hf.int16)),
    (lambda: hf.extract_image_patches(IMAGES, sizes=[1, 2, 2, 1], strides=[1, 1, 1, 1],
                                      rates=[1, 1, 1, 1], padding="VALID"),
     lambda: hf.extract_image_patches(IMAGES, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")),
    (lambda: hf.sparse_reduce_sum(hf.SparseTensor(*S), 0, keepdims=True),
     lambda: hf.sparse_reduce_sum(hf.SparseTensor(*S), 0, True)),
    (lambda: hf.sparse_reduce_max(hf.SparseTensor(*S), 0, keepdims=True),
     lambda: hf.sparse_reduce_max(hf.SparseTensor(*S), 0, True)),
    (lambda: hf.sparse_add(hf.SparseTensor(*S), hf.SparseTensor(*S), threshold=7.0).values,
     lambda: hf.sparse_add(hf.SparseTensor(*S), hf.SparseTensor(*S), 7.0).values),
    (lambda: hf.string_to_number(input="1.5"), lambda: hf.string_to_number("1.5")),
    (lambda: hf.string_to_hash_bucket(input="a", num_buckets=9),
     lambda: hf.string_to_hash_bucket("a", 9)),
    (lambda: hf.nn.weighted_cross_entropy_with_logits(labels=X / 12, logits=X, pos_weight=2.0),
     lambda: hf.nn.weighted_cross_entropy_with_logits(X / 12, X, 2.0)),
    (lambda: hf.space_to_batch(IMAGES, [[0, 0], [0, 0]], block_shape=2),
     lambda: hf.space_to_batch(IMAGES, [[0, 0], [0, 0]], 2)),
    (lambda: hf.batch_to_space(IMAGES.reshape(4, 2, 2, 2), [[0, 0], [0, 0]], block_shape=2),
     lambda: hf.batch_to_space(IMAGES.reshape(4, 2, 2, 2), [[0, 0], [0, 0]], 2)),
    (lambda: hf.nn.pool(IMAGES, [2, 2], "MAX", "VALID", dilations=[2, 1]),
     lambda: hf.nn.pool(IMAGES, [2, 2], "MAX", "VALID", [2, 1])),
    (lambda: hf.verify_tensor_all_finite(x=X, message="no"), lambda: hf.constant(X)),
    (lambda: hf.nn.dilation2d(IMAGES, filters=hf.ones([2, 2, 2]), strides=[1, 1, 1, 1],
                              dilations=[1, 1, 1, 1], padding="VALID"),
     lambda: hf.nn.dilation2d(IMAGES, hf.ones([2, 2, 2]), [1, 1, 1, 1], [1, 1, 1, 1], "VALID")),
    (lambda: hf.nn.batch_norm_with_global_normalization(
        input=IMAGES, mean=[1.0, 2], variance=[2.0, 3], beta=[0.0, 1], gamma=[1.0, 2],
        variance_epsilon=1e-3, scale_after_normalization=True),
     lambda: hf.nn.batch_norm_with_global_normalization(
        IMAGES, [1.0, 2], [2.0, 3], [0.0, 1], [1.0, 2], 1e-3, True)),
    (lambda: hf.convert_to_tensor([1, 2], dtype_hint=hf.float64),
     lambda: hf.constant([1.0, 2.0], hf.float64)),
    (lambda: hf.convert_to_tensor([1.5], dtype_hint=hf.int32), lambda: hf.constant([1.5])),
    (lambda: hf.arg_max(X, 1, output_type=hf.int32), lambda: hf.constant([3, 3, 3])),
    (lambda: hf.arg_min(X, 0, output_type=hf.int32), lambda: hf.constant([0, 0, 0, 0])),
])
def test_later_names_mean_the_same(graph, later, first):
    one, two = later(), first()
    assert one.dtype == two.dtype and one.shape.as_list() == two.shape.as_list()
    np.testing.assert_array_equal(*run([one, two]))


def test_a_product_with_a_scalar_has_a_name(graph):
    assert hf.scalar_mul(2.0, hf.constant(X), name="twice").op.name == "twice"


def test_patterns_that_are_none():
    for pattern in ("A[", hf.constant("A[")):
        matched = hf.strings.regex_full_match(["abc"], pattern)
        with pytest.raises(hf.errors.InvalidArgumentError, match="Invalid pattern"):
            run(matched)
