"""Op types that graphs hold and 1.0 had no function for: numbers, arrays, text, optionals."""

import gradcheck
import numpy as np
import pytest
from running import run

import hpcflow as hf

raw = hf.raw_ops
rng = np.random.default_rng(11)
pytestmark = pytest.mark.usefixtures("checked")
F = np.float32


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


# ---------------------------------------------------------------- element by element


@pytest.mark.parametrize(("name", "function", "low", "high"), [
    ("Sinh", np.sinh, -2, 2), ("Cosh", np.cosh, -2, 2), ("Asinh", np.arcsinh, -2, 2),
    ("Acosh", np.arccosh, 1.2, 3), ("Atanh", np.arctanh, -0.8, 0.8)])
def test_hyperbolic_functions(name, function, low, high):
    x = rng.uniform(low, high, size=(2, 3))
    np.testing.assert_allclose(run(getattr(raw, name)(x=x)), function(x))
    gradcheck.check_gradient(lambda v: getattr(raw, name)(x=v), x)


def test_atan2():
    y, x = rng.normal(size=(2, 3)), rng.normal(size=3)
    np.testing.assert_allclose(run(raw.Atan2(y=y, x=x)), np.arctan2(y, x))
    gradcheck.check_gradient(lambda a, b: raw.Atan2(y=a, x=b), y, x)


@pytest.mark.parametrize(("name", "x", "y", "wanted"), [
    ("DivNoNan", [1, 2, 0], [0, 4, 0], [0, 0.5, 0]),
    ("MulNoNan", [np.inf, 2, np.nan], [0, 4, 0], [0, 8, 0]),
    ("Xdivy", [0, 2], [0, 4], [0, 0.5]),
    ("Xlogy", [0, 2], [0, np.e], [0, 2]),
    ("Xlog1py", [0, 2], [-1, np.e - 1], [0, 2])])
def test_products_that_are_zero_where_a_factor_is(name, x, y, wanted):
    op = getattr(raw, name)
    np.testing.assert_allclose(run(op(x=np.array(x, F), y=np.array(y, F))), wanted, rtol=1e-6)
    gradcheck.check_gradient(lambda a, b: op(x=a, y=b), rng.uniform(0.5, 2, size=(2, 3)),
                             rng.uniform(0.5, 2, size=3), tolerance=1e-5)


def test_bits():
    x, y = np.array([12, 10, 7], np.uint8), np.array([10, 3, 7], np.uint8)
    for name, wanted in (("And", x & y), ("Or", x | y), ("Xor", x ^ y)):
        got = run(getattr(raw, f"Bitwise{name}")(x=x, y=y))
        assert got.dtype == np.uint8 and got.tolist() == wanted.tolist()
    assert run(raw.Invert(x=x)).tolist() == (~x).tolist()
    assert run(raw.LeftShift(x=np.array([1, 3], np.int8), y=np.int8(2))).tolist() == [4, 12]
    assert run(raw.RightShift(x=np.array([-8, 8]), y=np.array([1, 99]))).tolist() == [-4, 0]


def test_activations():
    x = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
    away = np.array([-2.0, -0.5, 0.3, 2.0])
    leaky = run(raw.LeakyRelu(features=x, alpha=0.1))
    np.testing.assert_allclose(leaky, np.where(x > 0, x, x / 10))
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    wanted = scale * np.where(x < 0, alpha * np.expm1(x), x)
    np.testing.assert_allclose(run(raw.Selu(features=x)), wanted)
    gradcheck.check_gradient(lambda v: raw.LeakyRelu(features=v), away)
    gradcheck.check_gradient(lambda v: raw.Selu(features=v), away)


def test_select_v2_broadcasts():
    c, t, e = np.array([[True], [False]]), rng.normal(size=3), rng.normal(size=(2, 3))
    assert run(raw.SelectV2(condition=c, t=t, e=e)).tolist() == np.where(c, t, e).tolist()
    assert run(raw.SelectV2(condition=True, t="a", e=["b", "c"])).tolist() == [b"a", b"a"]
    gradcheck.check_gradient(lambda a, b: raw.SelectV2(condition=c, t=a, e=b), t, e)
    with pytest.raises(ValueError, match="broadcast"):
        raw.SelectV2(condition=c, t=np.zeros(3), e=np.zeros(4))


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, False), (True, False), (False, True),
                                              (True, True)])
def test_batch_matmul_broadcasts(adj_x, adj_y):
    x = rng.normal(size=(2, 1, 4, 3) if adj_x else (2, 1, 3, 4))
    y = rng.normal(size=(5, 2, 4) if adj_y else (5, 4, 2))
    z = raw.BatchMatMulV2(x=x, y=y, adj_x=adj_x, adj_y=adj_y)
    wanted = np.matmul(x.swapaxes(-1, -2) if adj_x else x, y.swapaxes(-1, -2) if adj_y else y)
    assert z.shape.as_list() == [2, 5, 3, 2]
    np.testing.assert_allclose(run(z), wanted)
    gradcheck.check_gradient(
        lambda a, b: raw.BatchMatMulV2(x=a, y=b, adj_x=adj_x, adj_y=adj_y), x, y)


def test_batch_matmul_of_other_types():
    x, y = np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)
    assert run(raw.BatchMatMulV2(x=x, y=y)).tolist() == (x @ y).tolist()
    half = run(raw.BatchMatMulV2(x=x.astype(np.float16), y=y.astype(np.float16)))
    assert half.dtype == np.float16 and half.tolist() == (x @ y).tolist()
    with pytest.raises(ValueError, match="inner dimensions differ"):
        raw.BatchMatMulV2(x=x, y=x)


def test_ensure_shape():
    x = hf.placeholder(hf.float32)
    y = raw.EnsureShape(input=x, shape=[None, 2])
    assert y.shape.as_list() == [None, 2]
    with hf.Session() as session:
        assert session.run(y, {x: [[1, 2]]}).tolist() == [[1, 2]]
        with pytest.raises(hf.errors.InvalidArgumentError, match="not compatible with expected"):
            session.run(y, {x: [1, 2]})
    gradcheck.check_gradient(lambda v: raw.EnsureShape(input=v, shape=[2]), np.ones(2))


def test_roll():
    x = rng.normal(size=(3, 4))
    got = run(raw.Roll(input=x, shift=[1, -2], axis=[0, 1]))
    assert got.tolist() == np.roll(x, (1, -2), (0, 1)).tolist()
    gradcheck.check_gradient(lambda v: raw.Roll(input=v, shift=1, axis=1), x)
    with pytest.raises(hf.errors.InvalidArgumentError, match="do not fit shape"):
        run(raw.Roll(input=x, shift=1, axis=2))


def test_scatter_into_tensors():
    x, at, u = np.zeros((3, 2)), np.array([[0], [2], [0]]), rng.normal(size=(3, 2))
    wanted = x.copy()
    np.add.at(wanted, at[:, 0], u)
    np.testing.assert_allclose(run(raw.TensorScatterAdd(tensor=x, indices=at, updates=u)), wanted)
    np.testing.assert_allclose(run(raw.TensorScatterSub(tensor=x, indices=at, updates=u)), -wanted)
    one = run(raw.TensorScatterUpdate(tensor=x, indices=[[1, 1]], updates=[7.0]))
    assert one.tolist() == [[0, 0], [0, 7], [0, 0]]
    assert run(raw.TensorScatterMax(tensor=x, indices=[[1, 1]], updates=[-7.0])).max() == 0
    assert run(raw.TensorScatterMin(tensor=x, indices=[[1, 1]], updates=[-7.0])).min() == -7
    single = np.array([[0], [2]])
    for name in ("Update", "Add", "Sub"):
        gradcheck.check_gradient(
            lambda a, b, n=name: getattr(raw, f"TensorScatter{n}")(
                tensor=a, indices=single, updates=b), rng.normal(size=(3, 2)), u[:2])
    for name in ("Max", "Min"):
        gradcheck.check_gradient(
            lambda a, b, n=name: getattr(raw, f"TensorScatter{n}")(
                tensor=a, indices=single, updates=b), rng.normal(size=(3, 2)), 2 * u[:2])
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"indices\[0\] = \[3\] does not"):
        run(raw.TensorScatterAdd(tensor=x, indices=[[3]], updates=u[:1]))
    with pytest.raises(ValueError, match=r"dimensions of updates\.shape"):
        run(raw.TensorScatterAdd(tensor=x, indices=[[1]], updates=u))


def test_extremes_share_their_gradient():
    x, u = hf.constant([[1.0, 5.0]]), hf.constant([[1.0, 2.0]])
    y = raw.TensorScatterMax(tensor=x, indices=[[0]], updates=u)
    gx, gu = hf.gradients(y, [x, u])
    assert run(gx).tolist() == [[0.5, 1.0]]
    assert run(gu).tolist() == [[0.5, 0.0]]


def test_counting_and_searching():
    rows, values = np.array([[0.0, 1.0, 1.0], [2.0, 3.0, 4.0]]), np.array([[1.0], [5.0]])
    assert run(raw.LowerBound(sorted_inputs=rows, values=values)).tolist() == [[1], [3]]
    assert run(raw.UpperBound(sorted_inputs=rows, values=values)).tolist() == [[3], [3]]
    found = run(raw.HistogramFixedWidth(values=[-1.0, 0.0, 1.5, 2.0, 5.0, 15.0],
                                        value_range=[0.0, 5.0], nbins=5))
    assert found.tolist() == [2, 1, 1, 0, 2]
    with pytest.raises(hf.errors.InvalidArgumentError, match="2 elements, increasing numbers"):
        run(raw.HistogramFixedWidth(values=[1.0], value_range=[1.0, 1.0], nbins=5))
    none = np.zeros(0, F)
    assert run(raw.DenseBincount(input=[1, 1, 3, 9], size=4, weights=none)).tolist() == [0, 2, 0, 1]
    assert run(raw.DenseBincount(input=[[1, 1], [0, 2]], size=3, weights=none)).tolist() == [
        [0, 2, 0], [1, 0, 1]]
    assert run(raw.DenseBincount(input=[1, 1], size=2, weights=none,
                                 binary_output=True)).tolist() == [0, 1]
    assert run(raw.Bincount(arr=[0, 1, 1], size=2, weights=[1.0, 2.0, 3.0])).tolist() == [1, 5]
    with pytest.raises(hf.errors.InvalidArgumentError, match="non-negative"):
        run(raw.Bincount(arr=[-1], size=2, weights=none))
    scores = np.array([[0.1, 0.9, 0.5], [0.4, 0.3, 0.2]], F)
    assert run(raw.InTopKV2(predictions=scores, targets=[2, 2], k=2)).tolist() == [True, False]
    assert run(raw.Bucketize(input=[-5.0, 3.0, 100.0], boundaries=[0.0, 10.0, 100.0])
               ).tolist() == [0, 1, 3]


def test_rows_counted_by_64_bits():
    got = run(raw.UnsortedSegmentSum(data=[1.0, 2.0], segment_ids=[1, 1],
                                     num_segments=np.int64(2)))
    assert got.tolist() == [0, 3]


# ---------------------------------------------------------------- strings


def test_strings():
    text = np.array(["Häb", " c "])
    assert run(raw.StringLength(input=text)).tolist() == [4, 3]
    assert run(raw.StringLength(input=text, unit="UTF8_CHAR")).tolist() == [3, 3]
    assert run(raw.StringStrip(input=text)).tolist() == ["Häb".encode(), b"c"]
    assert run(raw.StringLower(input="AbÄ")) == "abÄ".encode()
    assert run(raw.StringUpper(input="abä", encoding="utf-8")) == "ABÄ".encode()
    assert run(raw.StaticRegexReplace(input=["aab", "b"], pattern="a+", rewrite="x")
               ).tolist() == [b"xb", b"b"]
    assert run(raw.RegexReplace(input="aa", pattern="a", rewrite=r"<\0>".replace("\\0", "b"),
                                replace_global=False)) == b"<b>a"
    assert run(raw.RegexFullMatch(input=["aa", "ab"], pattern="a*")).tolist() == [True, False]
    with pytest.raises(hf.errors.InvalidArgumentError, match="Invalid pattern"):
        run(raw.RegexReplace(input="a", pattern="(", rewrite=""))


# ---------------------------------------------------------------- optionals, text


def test_optionals():
    some = raw.OptionalFromValue(components=[1.0, [2, 3]])
    none = raw.OptionalNone()
    types = {"output_types": [hf.float32, hf.int32], "output_shapes": [[], [2]]}
    first, second = raw.OptionalGetValue(optional=some, **types)
    assert second.shape.as_list() == [2]
    found = run(first, second, *(raw.OptionalHasValue(optional=o) for o in (some, none)))
    assert [np.asarray(v).tolist() for v in found] == [1, [2, 3], True, False]
    with pytest.raises(hf.errors.InvalidArgumentError, match="does not have a value"):
        run(raw.OptionalGetValue(optional=none, **types)[0])
    with pytest.raises(hf.errors.InvalidArgumentError, match="has 2 values, 1 are wanted"):
        run(raw.OptionalGetValue(optional=some, output_types=[hf.float32], output_shapes=[[]])[0])


def test_rewriting_by_groups_and_the_whole_match():
    replace = hf.strings.regex_replace
    assert run(replace(["abc", "xbx"], "b", r"[\0]")).tolist() == [b"a[b]c", b"x[b]x"]
    assert run(replace("ab", "(a)(b)", r"\2\\0\1")) == b"b\\0a"
    with pytest.raises(hf.errors.InvalidArgumentError, match="Invalid rewrite pattern"):
        run(replace("ab", "(a)", r"\7"))


def test_labels_and_logits_that_broadcast():
    logits, labels = np.float32([[0, 1, 2]]), np.float32([[1, 0, 0], [0, 0.5, 0.5]])
    loss, back = raw.SoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
    assert loss.shape.as_list() == [2] and back.shape.as_list() == [2, 3]
    shares = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(run(loss), -(labels * np.log(shares)).sum(1), rtol=1e-6)
    np.testing.assert_allclose(run(back), shares - labels, rtol=1e-6, atol=1e-7)
    column = raw.SoftmaxCrossEntropyWithLogits(features=logits, labels=np.float32([[1], [2]]))
    np.testing.assert_allclose(run(column[1]), shares - [[1], [2]], rtol=1e-6)


def test_nothing_joined_in_segments():
    nothing = raw.UnsortedSegmentJoin(inputs=np.zeros((0, 2), object), num_segments=1,
                                      segment_ids=np.zeros(0, np.int32))
    assert run(nothing).tolist() == [[b"", b""]]


def test_characters_are_counted_by_the_bytes_that_begin_them():
    assert run(raw.StringLength(input=b"a\xff\x00\x80", unit="UTF8_CHAR")) == 3


def test_numbers_of_all_types_as_strings():
    for dtype, text in (("int16", b"-3"), ("uint8", b"253"), ("uint16", b"65533"),
                        ("float16", b"-3.000000"), ("complex128", b"(-3.000000,0.000000)")):
        value = np.array(-3).astype(dtype)
        assert run(raw.AsString(input=value)) == text
