"""Op types for parts of variables, arrays and ragged rows: their gradients, and what they say.

Their values are compared with the reference runtime in ``tests/oracle``.
"""

import gradcheck
import numpy as np
import pytest

import hpcflow as hf

raw = hf.raw_ops
rng = np.random.default_rng(17)
pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


# ---------------------------------------------------------------- parts of variables


def resource(value):
    """A variable by handle, with the operation that gives it `value`."""
    handle = raw.VarHandleOp(shape=value.shape, dtype=hf.as_dtype(value.dtype), shared_name="v")
    return handle, raw.AssignVariableOp(resource=handle, value=value)


@pytest.mark.parametrize(("gather", "indices"), [
    (raw.ResourceGather, [[2, 0], [2, 1]]), (raw.ResourceGatherNd, [[[2], [0]], [[2], [1]]])])
def test_gradient_of_rows_of_a_variable_by_handle(gather, indices):
    value, weights = rng.normal(size=(4, 3)), rng.normal(size=(2, 2, 3))
    handle, assign = resource(value)
    rows = gather(resource=handle, indices=np.array(indices, np.int32), dtype=hf.float64)
    grad = hf.convert_to_tensor(hf.gradients(rows, handle, weights)[0])
    with hf.Session() as session:
        session.run(assign)
        got, found = session.run([rows, grad])
    places = np.array([[2, 0], [2, 1]])
    np.testing.assert_array_equal(got, value[places])
    wanted = np.zeros_like(value)
    np.add.at(wanted, places, weights)
    np.testing.assert_array_equal(found, wanted)


def test_gradient_of_a_variable_by_handle():
    handle, assign = resource(np.array([1.0, 2.0, 3.0]))
    value = raw.ReadVariableOp(resource=handle, dtype=hf.float64)
    grad, = hf.gradients(value * value, handle)
    assert grad.shape == [3]
    with hf.Session() as session:
        session.run(assign)
        np.testing.assert_array_equal(session.run(grad), [2, 4, 6])


def test_coordinates_outside_of_a_variable_by_handle():
    handle, assign = resource(np.zeros((4, 3)))
    element = raw.ResourceGatherNd(resource=handle, indices=[[1, 3]], dtype=hf.float64)
    with hf.Session() as session:
        session.run(assign)
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"\[1, 3\] does not index"):
            session.run(element)


def test_gradient_of_a_replaced_slice():
    x, value = rng.normal(size=(4, 5)), rng.normal(size=(2, 2))
    gradcheck.check_gradient(
        lambda a, b: raw.TensorStridedSliceUpdate(
            input=a, begin=[1, 0], end=[3, 4], strides=[1, 2], value=b), x, value)


# ---------------------------------------------------------------- arrays

x34, positive = rng.normal(size=(3, 4)), rng.uniform(0.5, 2, size=(5, 2))
IDS = np.array([2, 0, 2, 1, 2], np.int32)
LATER = {
    "ConjugateTranspose": (lambda x: raw.ConjugateTranspose(x=x, perm=[1, 0]), x34),
    "ConjugateTranspose of complex numbers": (
        lambda x: raw.ConjugateTranspose(x=x, perm=[1, 0]), x34 + 1j * x34[::-1]),
    "NthElement": (lambda x: raw.NthElement(input=x, n=1), rng.permutation(12).reshape(3, 4) / 2),
    "CumulativeLogsumexp": (lambda x: raw.CumulativeLogsumexp(x=x, axis=1), x34),
    "CumulativeLogsumexp from the end": (
        lambda x: raw.CumulativeLogsumexp(x=x, axis=0, reverse=True), x34),
    "CumulativeLogsumexp of those before": (  # of none at first, which is minus infinity
        lambda x: raw.CumulativeLogsumexp(x=x, axis=1, exclusive=True)[:, 1:], x34),
    "UnsortedSegmentProd": (
        lambda x: raw.UnsortedSegmentProd(data=x, segment_ids=IDS, num_segments=3), positive),
    "UnsortedSegmentMin": (
        lambda x: raw.UnsortedSegmentMin(data=x, segment_ids=IDS, num_segments=3), positive),
    "SparseSegmentSumGrad": (
        lambda x: raw.SparseSegmentSumGrad(grad=x, indices=IDS, segment_ids=np.arange(5, dtype="i"),
                                           output_dim0=4), positive),
    "NextAfter": (lambda x: raw.NextAfter(x1=x, x2=np.ones((2, 1, 4))), x34),
}


@pytest.mark.parametrize("name", LATER)
def test_gradient(name):
    build, value = LATER[name]
    gradcheck.check_gradient(build, value)


def test_a_value_that_no_branch_gives():
    found = raw.FakeParam(dtype=hf.float32, shape=[2, 3])
    assert found.shape == [2, 3]
    with hf.Session() as session:
        np.testing.assert_array_equal(session.run(found), np.zeros((2, 3), np.float32))
        assert session.run(raw.Timestamp()) > 1.7e9


def test_printing(tmp_path, capsys):
    path = tmp_path / "lines"
    step = [raw.PrintV2(input=b"one", output_stream=f"file://{path}"),
            raw.PrintV2(input="zw\u00f6lf", output_stream="stdout", end="!\n")]
    with hf.Session() as session:
        session.run(step)
        session.run(step[0])
    assert path.read_text() == "one\none\n"
    assert capsys.readouterr().out == "zw\u00f6lf!\n"


# ---------------------------------------------------------------- numbers of seeds


def test_numbers_follow_from_their_seeds():
    draws = [raw.StatelessRandomUniform(shape=[5], seed=np.array(seed, np.int64))
             for seed in ([3, 5], [3, 5], [5, 3])]
    key, counter, algorithm = raw.StatelessRandomGetKeyCounterAlg(seed=[3, 5])
    draws.append(raw.StatelessRandomUniformV2(shape=[5], key=key, counter=counter, alg=algorithm))
    with hf.Session() as session:
        first, again, other, keyed = session.run(draws)
        assert session.run(raw.StatelessRandomGetAlg()) == session.run(algorithm)
        # Of seeds that change from step to step.
        seed = hf.placeholder(hf.int64, [2])
        fed = raw.StatelessRandomUniform(shape=[5], seed=seed)
        np.testing.assert_array_equal(session.run(fed, {seed: [5, 3]}), other)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, keyed)
    assert not np.array_equal(first, other)
    # What other writers' runtimes draw of these seeds.
    np.testing.assert_allclose(first[:3], [0.30866754, 0.09597003, 0.3703704], rtol=1e-6)


# ---------------------------------------------------------------- rows


def test_gradient_of_ragged_rows_as_a_sparse_matrix():
    splits = np.array([0, 2, 2, 5], np.int64)
    gradcheck.check_gradient(lambda x: raw.RaggedTensorToSparse(
        rt_nested_splits=[splits], rt_dense_values=x)[1], rng.normal(size=(5, 2)))


@pytest.mark.parametrize("indices", [[2, 0, 2], [[2, 0], [1, 2]]])
@pytest.mark.parametrize("dims", [(5,), (5, 2)])
def test_gradient_of_gathered_ragged_rows(indices, dims):
    gradcheck.check_gradient(lambda values: raw.RaggedGather(
        params_nested_splits=[hf.constant([0, 2, 2, 5])], params_dense_values=values,
        indices=indices, OUTPUT_RAGGED_RANK=np.ndim(indices)).output_dense_values,
        rng.normal(size=dims))


@pytest.mark.parametrize("default", [0.5, np.array([0.5, 2.0])])
def test_gradient_of_ragged_rows_as_a_dense_tensor(default):
    # The last row is cut, the others are filled up.
    gradcheck.check_gradient(lambda values, rest: raw.RaggedTensorToTensor(
        shape=[-1, 3, 2], values=values, default_value=rest,
        row_partition_tensors=[hf.constant([0, 2, 2, 6])], row_partition_types=["ROW_SPLITS"]),
        rng.normal(size=(6, 2)), default)


def test_gradient_of_filled_rows():
    indices, shape = np.array([[1, 0], [1, 2], [3, 1]], np.int64), np.array([5, 3], np.int64)
    gradcheck.check_gradient(
        lambda values, default: raw.SparseFillEmptyRows(
            indices=indices, values=values, dense_shape=shape, default_value=default)[1],
        rng.normal(size=3), rng.normal(), second=False)


def test_rows_that_do_not_fit_their_values():
    wrong = raw.RaggedTensorToSparse(rt_nested_splits=[np.array([0, 2, 4], np.int64)],
                                     rt_dense_values=np.zeros(5))
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError,
                                                match="rise from 0 to 5"):
        session.run(wrong)


# ---------------------------------------------------------------- rounded numbers


def test_gradient_of_rounded_numbers():
    x, low, high = (np.array(v, np.float32) for v in ([-2, 0.3, 5], -1, 1))
    inputs = {"input": hf.constant(x), "input_min": low, "input_max": high}
    through = raw.QuantizeAndDequantizeV2(**inputs, range_given=True)
    by_bits = raw.QuantizeAndDequantizeV3(**inputs, num_bits=8)
    within = raw.QuantizeAndDequantizeV4(**inputs, range_given=True)
    grads = hf.gradients([through, by_bits, within], inputs["input"])[0]
    alone = hf.gradients(within, inputs["input"])[0]
    with hf.Session() as session:
        np.testing.assert_array_equal(session.run(grads), [2, 3, 2])
        np.testing.assert_array_equal(session.run(alone), [0, 1, 0])
        np.testing.assert_allclose(session.run(within), [-128 / 127, 38 / 127, 1], rtol=1e-6)


def test_nth_element_of_too_few():
    x = np.float32([[1, 2, 3]])
    for n, message in ((-1, "non-negative"), (3, "last dimension > n")):
        with pytest.raises(ValueError, match=message):
            raw.NthElement(input=x, n=n)


def test_gradient_of_the_gradient_of_rounded_numbers():
    # Some are outside of the range.
    gradcheck.check_gradient(
        lambda grad, x: raw.QuantizeAndDequantizeV4Grad(
            gradients=grad, input=x, input_min=np.float64(-0.5), input_max=np.float64(0.7))[0],
        rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), second=False)
