"""What errors say: the words that programs look for, and whether building or running raises."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.errors import InvalidArgumentError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def fed(value, dtype=None):
    """A tensor of a value that building knows nothing of."""
    array = np.array(value, dtype)
    tensor = hf.placeholder(hf.as_dtype(array.dtype))
    FEEDS[tensor] = array
    return tensor


FEEDS: dict = {}

BUILDING = [
    (lambda: hf.reduce_sum(X, 2), r"Invalid reduction dimension 2 for input with 2 dim"),
    (lambda: hf.reduce_sum(X, -3), r"Invalid reduction dimension"),
    (lambda: hf.concat([X[0, 0], X[0, 0]], 0), r"Can't concatenate scalars \(use tf\.stack"),
    (lambda: hf.pad(X, [[1, 1, 1], [1, 1, 1]]), "paddings must be a matrix with 2 columns"),
    (lambda: hf.pad(X, [[-1, 1], [1, 1]]), "must be non-negative"),
    (lambda: hf.split(X, [1, -2, 4], 1), "Split size at index 1 must be >= .*. Got: -2"),
    (lambda: hf.split(X, [1, 1], 1), "Determined shape must either match input"),
    (lambda: hf.bitcast(hf.zeros([2], hf.int8), hf.int32), "Cannot bitcast from 6 to 3"),
    (lambda: hf.sequence_mask([1], [2]), "maxlen must be scalar"),
    (lambda: hf.clip_by_value(X, 0, np.zeros((4, 1, 1), np.float32)), "Shapes .* incompatible"),
    (lambda: hf.clip_by_norm(X, np.ones((4, 1, 1), np.float32)), "Shapes .* incompatible"),
    (lambda: hf.raw_ops.Bincount(arr=[1], size=[1], weights=[1]), "must be rank 0 but is rank 1"),
    (lambda: hf.reduce_sum(X, [[0], [1]]), "must be at most rank 1"),
    (lambda: hf.transpose(X, [0, 2]), "perm = 2 not in .* is out of range"),
    (lambda: hf.expand_dims(X, [0, 1]), "must be a tensor with a single value"),
    (lambda: hf.constant(1.0)[0], "Attempting to slice scalar input"),
    (lambda: hf.convert_to_tensor(hf.TensorShape([2**31]), hf.int32), "too large.*int64"),
    (lambda: hf.boolean_mask(X[0], [[True]]), "incompatible"),
    (lambda: hf.stack([X, X], axis=3), r"axis = 3 not in \[-3, 3\)"),
    (lambda: hf.unstack(X, axis=-3), r"axis = -3 not in \[-2, 2\)"),
    (lambda: hf.concat([X, X[:, :2]], 0), "Dimension 1 in both shapes must be equal, but are 3"),
    (lambda: hf.add_n([X, X[0]]), "Shapes must be equal rank, but are 2 and 1"),
    (lambda: hf.matmul(X, X), "Dimensions must be equal, but are 3 and 2"),
    (lambda: hf.unique(X), "Shape must be rank 1 but is rank 2"),
    (lambda: hf.nn.top_k(X, [1]), "Shape must be rank 0 but is rank 1"),
    (lambda: hf.nn.top_k(X, -1), "Need k >= 0, got -1"),
    (lambda: hf.reshape(X, [5]), r"Cannot reshape a tensor with 6 elements to shape \[5\]"),
    (lambda: hf.reshape(X, [4, -1]), "must be evenly divisible by 4 but is 6"),
    (lambda: hf.split(X, 2, 1), "must be evenly divisible by 2 but is 3"),
    (lambda: hf.squeeze(X, [0]), r"Can not squeeze dim\[0\], expected a dimension of 1, got 2"),
    (lambda: hf.expand_dims(X, 3), r"dim 3 not in the interval \[-3, 2\]"),
    (lambda: hf.reverse(X, [0, -2]), "axis 0 specified more than once"),
    (lambda: hf.reverse_sequence(X, [1, 1], 2), "seq_dim must be < input rank: 2 vs. 2"),
    (lambda: hf.reverse_sequence(X, [1, 1], 1, 2), "batch_dim must be < input rank: 2 vs. 2"),
    (lambda: hf.invert_permutation([[0]]), "Shape must be rank 1 but is rank 2"),
    (lambda: hf.range(5, 1), r"Requires start <= limit when delta > 0: 5/1"),
    (lambda: hf.range(1, 5, -1), r"Requires start >= limit when delta < 0: 1/5"),
    (lambda: hf.range(-1e38, 1.0), r"Requires \(\(limit - start\) / delta\) <= "),
    (lambda: hf.range(0.0, np.inf), r"Requires \(\(limit - start\) / delta\) <= "),
    (lambda: hf.range(0.0, np.nan), "Requires start <= limit when delta > 0: 0.0/nan"),
    (lambda: hf.roll(7, 1, 0), "Shape must be at least rank 1 but is rank 0"),
    (lambda: hf.roll(X, [[1]], 0), "Shape must be at most rank 1 but is rank 2"),
    (lambda: hf.roll(X, [1, 2], [0]), "Dimension 0 in both shapes must be equal, but are 2 and 1"),
    (lambda: hf.raw_ops.UniqueV2(x=X, axis=[[0]]), "axis expects a 1D vector"),
    (lambda: hf.raw_ops.UniqueV2(x=X, axis=[0, 1]), "larger than 1 elements"),
    (lambda: hf.raw_ops.UniqueV2(x=X, axis=np.int32([])), "x expects a 1D vector"),
    (lambda: hf.raw_ops.UniqueV2(x=X, axis=[2]), r"axis = 2 not in \[-2, 2\)"),
    (lambda: hf.scatter_nd([[0]], [1], [0]), "specified for empty output"),
    (lambda: hf.boolean_mask(X, [True, False], axis=fed(0)), "must be known as the graph is built"),
    (lambda: hf.argmax(X, [0]), "Shape must be rank 0 but is rank 1"),
    (lambda: hf.unsorted_segment_sum(X, [0, 0], [3]), "Shape must be rank 0 but is rank 1"),
    (lambda: hf.histogram_fixed_width(X, [0.0, 1.0], [3]), "Shape must be rank 0 but is rank 1"),
    (lambda: hf.nn.conv2d(X[None, ..., None], np.ones((1, 1, 1, 1), np.float32), [1] * 4, "SAME",
                          dilations=[]), r"dilations must be of length 1, 2 or 4 but is \[\]"),
    (lambda: hf.raw_ops.StringUpper(input=["a"], encoding="latin"),
     "passed string 'latin' not in: \"\", \"utf-8\""),
    (lambda: hf.cholesky(X), "Dimensions must be equal, but are 2 and 3"),
    (lambda: hf.matrix_solve(X[:, :2], X.T), "Dimensions must be equal, but are 2 and 3"),
    (lambda: hf.norm(X, "fro"), "'ord' must be a supported vector norm"),
    (lambda: hf.norm(X, 3, [0, 1]), "'ord' must be a supported matrix norm"),
    (lambda: hf.norm(X, axis=[0, 0]), "a tuple of 2 unique integers"),
    (lambda: hf.betainc(0.5, [0.5], [[0.5]]), "must be equal"),
    (lambda: hf.fill([2, -1], 7), "dimensions must be >= 0"),
    (lambda: hf.scatter_nd([[0], [1]], [1, 2, 3], [4]), r"The outer 1 dimensions of indices\.sha"),
    (lambda: hf.scatter_nd([[0]], X[:1], [4, 2]), "The inner 1 dimensions of output"),
]


@pytest.mark.parametrize("case", range(len(BUILDING)))
def test_refused_while_building(case):
    build, message = BUILDING[case]
    with pytest.raises(ValueError, match=message):
        build()


RUNNING = [
    (lambda: hf.reduce_sum(X, [0, -2]), "Axes contains duplicate dimension: 0"),
    (lambda: hf.reduce_sum(fed(X), fed([2], "int32")), "Invalid reduction dimension 2"),
    (lambda: hf.argmax(X[:0], 0), r"Reduction axis 0 is empty in shape \[0,3\]"),
    (lambda: hf.argmax(fed(X), fed(2, "int32")), r"Expected dimension in the range \[-2, 2\)"),
    (lambda: hf.transpose(X, [0, 0]), r"1 is missing from \{0,0\}"),
    (lambda: hf.transpose(fed(X), [0, 0]), r"1 is missing from \{0,0\}"),
    (lambda: hf.transpose(fed(X), fed([0, 2], "int32")), r"2 is out of range \[0 .. 2\)"),
    (lambda: hf.transpose(fed(X), fed([0], "int32")), "expects a vector of size 2"),
    (lambda: hf.tile(X, [1, -1]), r"Expected multiples\[1\] >= 0, but got -1"),
    (lambda: hf.pad(X, [[2, 0], [0, 0]], "REFLECT"), "must be less than the dimension size"),
    (lambda: hf.slice(X, [0, 1], [1, 3]), r"Expected size\[1\] in \[0, 2\], but got 3"),
    (lambda: hf.reverse_sequence(X, [1, 1], 0, 0), "batch_dim == seq_dim == 0"),
    (lambda: hf.reverse_sequence(X, [1, 4], 1), r"seq_lens\(1\) > input.dims\(1\)"),
    (lambda: hf.segment_sum(X, [0, 0, 1]), "segment_ids should be the same size"),
    (lambda: hf.sparse_segment_sum(X, [0, -1], [0, 0]), r"indices\[1\] == -1 out of range \[0, 2"),
    (lambda: hf.raw_ops.ConcatOffset(concat_dim=2, shape=[[1, 2], [1, 3]]),
     "Concat dim is out of range: 2 vs. 2"),
    (lambda: hf.raw_ops.ConcatOffset(concat_dim=1, shape=[[1, 2], [2, 3]]),
     r"Input 1 has shape \[2 3\] and doesn't match input 0 with shape \[1 2\]"),
    (lambda: hf.raw_ops.ConcatOffset(concat_dim=1, shape=[[1, 2], [2]]), "should contain 2 elem"),
    (lambda: hf.roll(X, 1, 2), "is out of range"),
    (lambda: hf.roll(X, fed([1, 2]), [0]), "shift and axis must have the same size"),
    (lambda: hf.range(fed(0.0), np.nan), "Requires start <= limit when delta > 0: 0.0/nan"),
    (lambda: hf.range(fed(0.0), np.inf), r"Requires \(\(limit - start\) / delta\) <= "),
    (lambda: hf.raw_ops.DenseToDenseSetOperation(set1=fed(b"a", object), set2=fed([[b"a"]], object),
                                                 set_operation="union"),
     r"a set needs at least 2 dimensions, but has shape \[\]"),
    (lambda: hf.raw_ops.StringNGrams(
        data=["a"], data_splits=[0, 1], separator="", ngram_widths=[0], left_pad="", right_pad="",
        pad_width=0, preserve_short_sequences=False), "ngram_widths must contain positive values"),
    (lambda: hf.raw_ops.UnicodeTranscode(
        input="a", input_encoding="UTF-8", output_encoding="UTF-8", replacement_char=-1),
     "replacement_char out of unicode codepoint range: -1"),
    (lambda: hf.raw_ops.UnicodeDecode(input="", input_encoding="other"), "Could not create conv"),
    (lambda: hf.image.crop_and_resize(np.ones((1, 2, 2, 1)), [[0, 0, np.inf, 1]], [0], [1, 1]),
     "at least one element that is not finite"),
    (lambda: hf.raw_ops.RaggedRange(starts=0.0, limits=np.nan, deltas=1.0), r"Requires \(\(limit"),
    (lambda: hf.self_adjoint_eigvals(fed([[1, np.inf], [np.inf, 1]], "float64")), "not successful"),
    (lambda: hf.nn.softmax(X, 2), r"Dimension \(2\) must be in the range \[-2, 2\)"),
    (lambda: hf.raw_ops.SoftmaxCrossEntropyWithLogits(features=fed(X), labels=fed(X[:, :2])),
     "must be matrices of one shape, or that broadcast"),
    (lambda: hf.raw_ops.CTCLoss(
        inputs=np.zeros((1, 0, 2), np.float32), labels_indices=np.zeros((0, 2), np.int64),
        labels_values=np.zeros(0, np.int32), sequence_length=np.zeros(0, np.int32)),
     "batch_size must not be 0"),
    (lambda: hf.image.decode_bmp(b"BM" + bytes(26) + b"\x18" + bytes(40)),
     "a BMP image of 0 x 0 pixels"),
    (lambda: hf.gather_nd(X[:0], fed(np.zeros([2, 0], np.int32))), "params is empty"),
    (lambda: hf.tile(fed(X), fed(2)), "must be a vector"),
    (lambda: hf.random_uniform(fed(3, "int32")), "must be a vector"),
    (lambda: hf.gather(X, [[0, 2]]), r"indices\[0,1\] = 2 is not in \[0, 2\)"),
    (lambda: hf.gather(X, 2), r"indices = 2 is not in \[0, 2\)"),
    (lambda: hf.gather_nd(X, [[0, 3]]), r"indices\[0\] = \[0,3\] does not index into param shape"),
    (lambda: hf.scatter_nd(fed([[0]]), fed([1]), fed([0])), "specified for empty output"),
    (lambda: hf.nn.top_k(fed(X), fed(4, "int32")), "must have at least k columns"),
    (lambda: hf.invert_permutation([2, 2, 1]), "2 is duplicated in the input"),
    (lambda: hf.sparse_to_dense([3, 1], [5], 1), r"indices\[1\] = \[1\] is out of order"),
    (lambda: hf.sparse_to_dense([1, 7], [5], 1), r"\[7\] is out of bounds: need 0 <= index < \[5"),
    (lambda: hf.sparse_to_dense([1, 3], [5], 1, [0]), "default_value should be a scalar"),
    (lambda: hf.sparse_to_dense([1, 3], [5], [1, 2, 3]),
     r"sparse_values has incorrect shape \[3\], should be \[\] or \[2\]"),
    (lambda: hf.betainc(0.5, fed([0.5]), fed([[0.5]])), "Shapes of .* are inconsistent"),
    (lambda: hf.broadcast_dynamic_shape([2, 2], [3]), r"Incompatible shapes: \[2,2\] vs\. \[3\]"),
    (lambda: hf.as_string([1], precision=2), "precision not supported"),
    (lambda: hf.as_string([1], scientific=True), "scientific and shortest format not supported"),
    (lambda: hf.decode_base64(["Y"]), "1 modulo 4"),
    (lambda: hf.decode_raw(["ab", "cde"], hf.uint8), "element 1 has size 2 != 3"),
    (lambda: hf.confusion_matrix([1, -2], [1, 0]), "`labels` contains negative values"),
    (lambda: hf.confusion_matrix([1, 7], [1, 0], 3), "`labels` out of bound"),
]


@pytest.mark.parametrize("case", range(len(RUNNING)))
def test_refused_when_run(case):
    build, message = RUNNING[case]
    FEEDS.clear()
    with hf.Session() as session, pytest.raises(InvalidArgumentError, match=message):
        fetched = build()
        session.run(fetched, dict(FEEDS))


def test_a_range_that_no_memory_holds():
    with hf.Session() as session, pytest.raises(hf.errors.ResourceExhaustedError):
        session.run(hf.range(0, 2**63 - 1))


def test_reshape_of_a_sparse_tensor():
    wanted = hf.placeholder(hf.int64)
    places = hf.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 3])
    result = hf.sparse_reshape(places, wanted)
    for shape, message in (([4, 2], "is a tensor with 6 dense values"),
                           ([-1, -1], "only one output dimension may be -1"),
                           ([4, -1], "requested shape requires a multiple")):
        with hf.Session() as session, pytest.raises(InvalidArgumentError, match=message):
            session.run(result, {wanted: shape})


def test_features_that_do_not_fit():
    values = hf.train.Feature(float_list=hf.train.FloatList(value=[1.0, 2.0]))
    text = hf.train.Example(features=hf.train.Features(feature={"a": values})).SerializeToString()
    for key, message in (("a", "Key: a, Index: 0.  Number of float values != expected"),
                         ("b", r"Feature: b \(data type: float\) is required")):
        parsed = hf.parse_example([text], {key: hf.FixedLenFeature([3], hf.float32)})
        with hf.Session() as session, pytest.raises(InvalidArgumentError, match=message):
            session.run(parsed)


def test_an_axis_that_is_no_integer():
    with pytest.raises(TypeError, match="int32"):
        hf.concat(X, 4.2)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: hf.placeholder(hf.float32, name=3), "expected string .* got 3"),
    (lambda: hf.Tensor(X, 0, hf.float32), "op needs to be an Operation"),
    (lambda: hf.graph_util.extract_sub_graph("x", ["a"]), "must be a GraphDef proto, got str"),
    (lambda: hf.data.get_output_types(hf.constant(X)), "must be a Dataset or Iterator"),
    (lambda: hf.assert_rank(X, 1 << 40), "must be of type .*int32"),
    (lambda: hf.Session().make_callable(object()), "has invalid type")])
def test_what_is_of_another_type_is_refused_at_once(call, text):
    with hf.Graph().as_default(), pytest.raises(TypeError, match=text):
        call()
