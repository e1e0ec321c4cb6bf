"""Functions of modules (strings, random, linalg ...), under the names of these modules."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf


def run(x):
    with hf.Session() as session:
        return session.run(x)


def test_parts_of_strings():
    found = run(hf.strings.split(["a b", " c ", ""]))
    assert found.values.tolist() == [b"a", b"b", b"c"]
    assert found.indices.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert run(hf.strings.split("a,b,c", ",", 1)).values.tolist() == [b"a", b"b,c"]
    with pytest.raises(ValueError, match="result_type"):
        hf.strings.split("a", result_type="RaggedTensor")


def test_text_with_values():
    text = hf.strings.format("{} and {}", [hf.constant([1, 2]), hf.constant("x")])
    assert text.get_shape().as_list() == []
    assert run(text) == b'[1 2] and "x"'
    with pytest.raises(ValueError, match="placeholder"):
        hf.strings.format("{} {}", [hf.constant(1)])


def test_numbers_of_seeds():
    x = hf.random.stateless_uniform([50], [1, 2], 3.0, 4.0, hf.float64)
    first, again, other = run([x, hf.random.stateless_uniform([50], [1, 2], 3.0, 4.0, hf.float64),
                               hf.random.stateless_uniform([50], [2, 2], 3.0, 4.0, hf.float64)])
    np.testing.assert_array_equal(first, again)
    assert (first != other).all() and first.min() >= 3 and first.max() < 4
    cut = run(hf.random.stateless_truncated_normal([200], [5, 6], 1.0, 2.0))
    assert np.abs(cut - 1).max() <= 4
    with pytest.raises(ValueError, match="minval and maxval"):
        hf.random.stateless_uniform([2], [1, 2], None, 3, hf.int32)


def test_modules_have_what_the_package_has():
    assert hf.io.decode_png is hf.image.decode_png
    assert hf.sets.union is hf.sets.set_union
    assert hf.dtypes.cast is hf.cast
    assert hf.queue.FIFOQueue is hf.FIFOQueue
    assert hf.quantization.dequantize is hf.dequantize
    assert hf.random.all_candidate_sampler is hf.nn.all_candidate_sampler
    assert run(hf.bitwise.bitwise_and(12, 10)) == 8
    with pytest.raises(AttributeError, match="no attribute"):
        _ = hf.dtypes.nothing_of_this_name


@pytest.mark.parametrize("value, most, shown", [
    (np.arange(16).reshape(2, 2, 2, 2), 1,
     b"[[[[%s]\n   [%s]]\n\n  [[%s]\n   [%s]]]\n\n\n [[[%s]\n   [%s]]\n\n  [[%s]\n   [%s]]]]"
     % (b"0 1", b"2 3", b"4 5", b"6 7", b"8 9", b"10 11", b"12 13", b"14 15")),
    (np.arange(7), 2, b"[0 1 ... 5 6]"), (np.arange(7), 0, b"[ ...]"), (np.int32(5), 0, b"..."),
    (np.zeros((2, 0)), -1, b"[\n ...]"), (np.zeros(0), -1, b"[]"), (np.zeros(0, bool), 3, b""),
])
def test_values_in_texts(value, most, shown):
    assert run(hf.strings.format("{}", [hf.constant(value)], summarize=most)) == shown
