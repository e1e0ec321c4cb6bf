"""Op types that other tools and later versions put into graphs, imported and run."""

import threading

import numpy as np
import pytest
from running import run

import hpcflow as hf
from hpcflow.framework.function import Defun
from hpcflow.graph.attr_values import Func, to_proto

raw = hf.raw_ops
pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own and draws from a generator of its own."""
    global rng
    rng = np.random.default_rng(7)


def node(op_type, inputs, results=1, definition=None, **attrs):
    """The outputs of one node of a GraphDef whose inputs are these tensors."""
    definition = hf.GraphDef() if definition is None else definition
    made = definition.node.add(name="it", op=op_type)
    given = {}
    for i, value in enumerate(inputs):
        made.input.append(f"in{i}")
        given[f"in{i}"] = hf.convert_to_tensor(value)
    for key, value in attrs.items():
        made.attr[key].CopyFrom(to_proto(value))
    return hf.import_graph_def(definition, given, [f"it:{i}" for i in range(results)])


def normal(*shape):
    return rng.normal(size=shape).astype("float32")


_WINDOW = {"strides": [1, 1, 1, 1], "padding": b"SAME", "T": hf.float32}
_ACTIVATIONS = {"Relu": hf.nn.relu, "Relu6": hf.nn.relu6, "Elu": hf.nn.elu, "Tanh": hf.tanh,
                "Sigmoid": hf.sigmoid, "LeakyRelu": lambda x: hf.nn.leaky_relu(x, 0.3)}


@pytest.mark.parametrize("activation", [None, *_ACTIVATIONS])
def test_products_that_an_optimizer_joined_with_what_follows(activation):
    x, w, b = hf.constant(normal(1, 4, 5, 2)), hf.constant(normal(3, 3, 2, 3)), normal(3)
    names = [b"BiasAdd"] if activation is None else [b"BiasAdd", activation.encode()]
    follow = _ACTIVATIONS.get(activation, lambda v: v)
    attrs = {"fused_ops": names, "num_args": 1, "leakyrelu_alpha": 0.3}
    (made,) = node("_FusedConv2D", [x, w, b], **attrs, **_WINDOW)
    plain = follow(hf.nn.bias_add(hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
    found = run([made, plain, hf.gradients(made, [x, w]), hf.gradients(plain, [x, w])])
    for ours, right in zip(hf.contrib.framework.nest.flatten(found[::2]),
                           hf.contrib.framework.nest.flatten(found[1::2]), strict=True):
        np.testing.assert_array_equal(ours, right)
    m, k = hf.constant(normal(2, 4)), hf.constant(normal(3, 4))
    (made,) = node("_FusedMatMul", [m, k, b], **attrs, T=hf.float32, transpose_b=True)
    ours, right = run([made, follow(hf.nn.bias_add(hf.matmul(m, k, transpose_b=True), b))])
    np.testing.assert_array_equal(ours, right)


def test_a_convolution_that_an_optimizer_joined_with_batch_normalization():
    x, w = normal(1, 4, 5, 2), normal(3, 3, 2, 3)
    vectors = [normal(3), normal(3), normal(3), abs(normal(3))]
    (made,) = node("_FusedConv2D", [x, w, *vectors], num_args=4, epsilon=0.01,
                   fused_ops=[b"FusedBatchNorm", b"Relu"], **_WINDOW)
    y = hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
    scale, offset, mean, variance = vectors
    right = hf.nn.relu(hf.nn.fused_batch_norm(y, scale, offset, mean, variance, 0.01,
                                              is_training=False)[0])
    np.testing.assert_array_equal(*run([made, right]))
    side = normal(1, 4, 5, 3)
    found = node("_FusedBatchNormEx", [y, *vectors, side], 6, num_side_inputs=1, U=hf.float32,
                 T=hf.float32, epsilon=0.01, activation_mode=b"Relu", is_training=False)
    right = hf.nn.relu(hf.nn.fused_batch_norm(y, scale, offset, mean, variance, 0.01,
                                              is_training=False)[0] + side)
    np.testing.assert_array_equal(*run([found[0], right]))
    with pytest.raises(ValueError, match="Unknown op among fused_ops"):
        node("_FusedMatMul", [normal(2, 2), normal(2, 2)], num_args=0, fused_ops=[b"Other"],
             T=hf.float32)


def test_a_function_that_servers_call_with_batches():
    @Defun(hf.float32, hf.float32, func_name="affine")
    def affine(x, w):
        return hf.matmul(x, w)

    x, w = hf.constant(normal(3, 2)), hf.constant(normal(2, 2))
    affine.add_to_graph(hf.get_default_graph())
    (made,) = node("BatchFunction", [x, w], f=Func("affine"), num_batch_threads=1,
                   max_batch_size=8, batch_timeout_micros=10, Tin=[hf.float32],
                   Tcaptured=[hf.float32], Tout=[hf.float32], allowed_batch_sizes=[4, 8])
    np.testing.assert_array_equal(*run([made, hf.matmul(x, w)]))
    np.testing.assert_array_equal(run(hf.gradients(made, w)[0]), run(x).sum(0)[:, None] * [[1, 1]])
    (made,) = node("RemoteCall", [b"/cpu:0", x, w], f=Func("affine"), Tin=[hf.float32] * 2,
                   Tout=[hf.float32])
    np.testing.assert_array_equal(*run([made, hf.matmul(x, w)]))


def test_statistics_that_batch_normalization_averages_itself():
    x, scale, offset, mean, variance = normal(2, 3, 3, 4), *normal(3, 4), abs(normal(4))
    given = {"T": hf.float32, "U": hf.float32}
    plain = run(node("FusedBatchNormV3", [x, scale, offset, mean, variance], 6, **given))
    ours = run(node("FusedBatchNormV3", [x, scale, offset, mean, variance], 6,
                    exponential_avg_factor=0.25, **given))
    np.testing.assert_array_equal(ours[0], plain[0])
    for k, old in ((1, mean), (2, variance)):
        np.testing.assert_allclose(ours[k], 0.75 * old + 0.25 * plain[k], rtol=1e-6)
        np.testing.assert_array_equal(ours[k + 2], plain[k + 2])


def test_ragged_tensors_go_through_lists():
    splits, values = np.array([0, 2, 2, 5]), hf.constant(np.arange(5, dtype="float32"))
    encoded = raw.RaggedTensorToVariant([splits], values, batched_input=True)
    assert encoded.shape == (3,)
    items = raw.TensorListFromTensor(encoded, np.zeros(0, "int32"))

    def total(i):
        row = raw.TensorListGetItem(items, i, np.zeros(0, "int32"), element_dtype=hf.variant)
        return hf.reduce_sum(raw.RaggedTensorFromVariant(
            row, input_ragged_rank=-1, output_ragged_rank=0, Tvalues=hf.float32)[-1])

    sums = hf.map_fn(total, np.arange(3, dtype="int32"), dtype=hf.float32)
    found, slope = run([sums, hf.gradients(sums * sums, values)[0]])
    assert found.tolist() == [1, 0, 9]
    assert slope.tolist() == [2, 2, 18, 18, 18]
    nested = raw.RaggedTensorToVariant([np.array([0, 1, 3]), np.array([0, 2, 2, 5])], values,
                                       batched_input=True)
    back = run(raw.RaggedTensorFromVariant(nested, input_ragged_rank=1, output_ragged_rank=2,
                                           Tvalues=hf.float32))
    assert [s.tolist() for s in back[0]] == [[0, 1, 3], [0, 2, 2, 5]]
    assert back[1].tolist() == [0, 1, 2, 3, 4]


def test_segments_whose_number_is_given():
    x, ids = hf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 0, 2], "int32")
    for name, rows in (("Sum", [[4, 6], [0, 0], [5, 6]]), ("Prod", [[3, 8], [1, 1], [5, 6]]),
                       ("Max", [[3, 4], None, [5, 6]]), ("Min", [[1, 2], None, [5, 6]])):
        made = getattr(raw, f"Segment{name}V2")(x, ids, np.int32(3))
        found, slope = run([made, hf.gradients(made, x)[0]])
        assert [row for row, right in zip(found.tolist(), rows) if right] == [r for r in rows if r]
        assert slope.shape == (3, 2)


# ---------------------------------------------------------------- data sets

_NUMBERS = {"output_types": [hf.int64], "output_shapes": [hf.TensorShape(())]}
_ROWS = {"output_types": [hf.int64], "output_shapes": [hf.TensorShape([None])]}


def long(value):
    return np.array(value, "int64")


def counting(count):
    return raw.RangeDataset(long(0), long(count), long(1), **_NUMBERS)


def elements(dataset, attrs):
    """All elements, of one component."""
    resource = raw.IteratorV2(shared_name="", container="", **attrs)
    made, following = raw.MakeIterator(dataset, resource), raw.IteratorGetNext(resource, **attrs)
    found = []
    with hf.Session() as session:
        session.run(made)
        while True:
            try:
                found.append(session.run(following)[0].tolist())
            except hf.errors.OutOfRangeError:
                return found


def test_newer_forms_of_data_sets():
    shared = raw.DummySeedGenerator()
    mixed = raw.ShuffleDatasetV3(counting(9), long(4), long(3), long(5), shared, **_NUMBERS)
    older = raw.ShuffleDataset(counting(9), long(4), long(3), long(5), **_NUMBERS)
    assert elements(mixed, _NUMBERS) == elements(older, _NUMBERS)
    kept = raw.CacheDatasetV2(counting(3), b"", raw.DummyMemoryCache(), **_NUMBERS)
    said = raw.OptionsDataset(kept, serialized_options=b"", **_NUMBERS)
    assert elements(raw.FinalizeDataset(said, **_NUMBERS), _NUMBERS) == [0, 1, 2]
    rows = raw.ParallelBatchDataset(counting(5), long(2), long(-1), False, **_ROWS)
    assert elements(rows, _ROWS) == [[0, 1], [2, 3], [4]]
    rows = raw.SlidingWindowDataset(counting(8), long(3), long(2), long(2), **_ROWS)
    assert elements(rows, _ROWS) == [[0, 2, 4], [2, 4, 6]]


def test_a_data_set_of_parsed_examples():
    def example(**features):
        return hf.train.Example(features=hf.train.Features(feature={
            key: hf.train.Feature(int64_list=hf.train.Int64List(value=value))
            for key, value in features.items()})).SerializeToString()

    batch = raw.TensorSliceDataset([hf.constant([[example(a=[1, 2], b=[5]), example(b=[6])]])],
                                   output_shapes=[hf.TensorShape([2])])
    attrs = {"output_types": [hf.variant, hf.int64],
             "output_shapes": [hf.TensorShape(None), hf.TensorShape([2, 1])]}
    parsed = raw.ParseExampleDatasetV2(
        batch, long(1), [np.zeros(0, "int64")], sparse_keys=["a"], dense_keys=["b"],
        sparse_types=[hf.int64], dense_shapes=[[1]], **attrs)
    resource = raw.IteratorV2(shared_name="", container="", **attrs)
    made = raw.MakeIterator(parsed, resource)
    encoded, dense = raw.IteratorGetNext(resource, **attrs)
    with hf.Session() as session:
        session.run(made)
        sparse, rows = session.run([raw.DeserializeSparse(encoded, dtype=hf.int64), dense])
    assert [part.tolist() for part in sparse] == [[[0, 0], [0, 1]], [1, 2], [2, 2]]
    assert rows.tolist() == [[5], [6]]


def test_a_data_set_of_sparse_batches():
    lines = raw.SlidingWindowDataset(counting(4), long(2), long(1), long(1), **_ROWS)
    attrs = {"output_types": [hf.variant], "output_shapes": [hf.TensorShape(None)]}
    for bound, width in ((-1, 2), (3, 3)):
        sparse = raw.DenseToSparseBatchDataset(lines, long(2), long([bound]), **attrs)
        resource = raw.IteratorV2(shared_name="", container="", **attrs)
        made = raw.MakeIterator(sparse, resource)
        parts = raw.DeserializeSparse(raw.IteratorGetNext(resource, **attrs)[0], dtype=hf.int64)
        with hf.Session() as session:
            session.run(made)
            found = [part.tolist() for part in session.run(parts)]
            assert found == [[[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 2], [2, width]]
    wrong = raw.DenseToSparseBatchDataset(lines, long(2), long([1]), **attrs)
    with pytest.raises(hf.errors.DataLossError, match="larger than the row shape"):
        elements(wrong, attrs)


def test_a_data_set_of_an_asserted_number_of_elements():
    right = raw.AssertCardinalityDataset(counting(3), long(3), **_NUMBERS)
    assert elements(right, _NUMBERS) == [0, 1, 2]
    for count, words in ((2, "contained at least 3"), (4, "contained 3 elements")):
        wrong = raw.AssertCardinalityDataset(counting(3), long(count), **_NUMBERS)
        with pytest.raises(hf.errors.FailedPreconditionError, match=words):
            elements(wrong, _NUMBERS)


def test_an_iterator_of_one_step():
    handle, deleter = raw.AnonymousIteratorV2(**_NUMBERS)
    with hf.control_dependencies([raw.MakeIterator(counting(3), handle)]):
        first = raw.IteratorGetNext(handle, **_NUMBERS)[0]
    with hf.control_dependencies([first]):
        second = raw.IteratorGetNext(handle, **_NUMBERS)[0]
    with hf.control_dependencies([second]):
        deleted = raw.DeleteIterator(handle, deleter)
    with hf.Session() as session:
        for _ in range(2):  # each step begins anew
            assert session.run([first, second, deleted])[:2] == [0, 1]


def test_critical_sections_of_other_writers():
    mutex = raw.MutexV2(shared_name="m")
    count = hf.Variable(0, use_resource=True)
    lock = raw.MutexLock(mutex)
    with hf.control_dependencies([lock]):
        now = count.read_value()
    with hf.control_dependencies([now]):
        added = count.assign(now + 1, read_value=False)
    with hf.control_dependencies([added]):
        over = raw.ConsumeMutexLock(lock)
    with hf.Session() as session:
        session.run(count.initializer)
        runs = [threading.Thread(target=lambda: [session.run(over) for _ in range(20)])
                for _ in range(3)]
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join()
        assert session.run(count.read_value()) == 60
