"""Transpositions, tiles, paddings, reversals, and blocks of space, run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from op_forms import evaluate, failing
from thresholds import lower as lower_thresholds

import hpcflow as hf
from hpcflow import raw_ops

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
S = np.array([[b"a", b"b", b"c"], [b"d", b"e", b"f"]], object)


def equal(value, expected):
    np.testing.assert_array_equal(value, expected)


def ints(*values):
    return np.array(values, np.int32)


# ---------------------------------------------------------------- Transpose


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_transpose(perm, index):
    equal(evaluate(hf.transpose, X, np.array(perm, index)), X.transpose(perm))


def test_transpose_without_perm():
    for x in (X, X[0], X[0, 0], np.float32(3), S, np.zeros((0, 3))):
        equal(evaluate(hf.transpose, x), np.transpose(x))


def test_a_perm_of_one_element_says_no_rank():
    assert hf.transpose(hf.placeholder(hf.float32), [0]).shape.ndims is None
    assert hf.transpose(hf.placeholder(hf.float32), [1, 0]).shape.ndims == 2


def test_matrix_transpose():
    for x in (X, X[0], np.zeros((2, 1, 0, 3))):
        equal(evaluate(hf.matrix_transpose, x), np.swapaxes(x, -1, -2))
    with pytest.raises(ValueError, match="rank >= 2"):
        hf.matrix_transpose(hf.constant(X[0, 0]))


@pytest.mark.parametrize("perm", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3)])
def test_transpose_by_what_is_no_permutation(perm):
    failing(hf.transpose, X, ints(*perm))


# ---------------------------------------------------------------- Tile


@pytest.mark.parametrize("multiples", [(1, 1, 1), (2, 1, 1), (1, 3, 2), (2, 2, 2), (1, 0, 2)])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_tile(multiples, index):
    equal(evaluate(hf.tile, X, np.array(multiples, index)), np.tile(X, multiples))


def test_tile_of_scalars_strings_and_errors():
    assert evaluate(hf.tile, np.float32(3), ints()) == 3
    equal(evaluate(hf.tile, S, ints(2, 2)), np.tile(S, (2, 2)))
    equal(evaluate(hf.tile, np.zeros((0, 2)), ints(3, 2)), np.zeros((0, 4)))
    failing(hf.tile, X, ints(1, 2))
    failing(hf.tile, X, ints(1, 2, -1))


def test_tile_grad_sums_the_copies():
    build = lambda x, m: raw_ops.TileGrad(input=x, multiples=m)
    equal(evaluate(build, np.tile(X, (2, 1, 3)), ints(2, 1, 3)), X * 6)


# ---------------------------------------------------------------- Pad


@pytest.mark.parametrize("paddings", [((0, 0), (0, 0), (0, 0)), ((1, 2), (0, 3), (2, 0))])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.complex64, np.bool_])
def test_pad(paddings, dtype):
    x = X.astype(dtype)
    for index in (np.int32, np.int64):
        equal(evaluate(hf.pad, x, np.array(paddings, index)), np.pad(x, paddings))
    build = lambda x, p, v: raw_ops.PadV2(input=x, paddings=p, constant_values=v)
    value = dtype(1)
    equal(evaluate(build, x, np.array(paddings, np.int32), value),
          np.pad(x, paddings, constant_values=value))


def test_pad_of_scalars_strings_and_errors():
    assert evaluate(hf.pad, np.float32(3), np.zeros((0, 2), np.int32)) == 3
    equal(evaluate(hf.pad, S, ints((1, 0), (0, 1))),
          [[b""] * 4, [b"a", b"b", b"c", b""], [b"d", b"e", b"f", b""]])
    failing(hf.pad, X, ints((0, 0), (0, 0)))
    failing(hf.pad, X[0, 0], ints((-1, 0)))
    failing(hf.pad, X[0, 0], ints((1, 0, 0)), forms=("constant", "static"))
    with pytest.raises(ValueError, match="Unknown padding mode"):
        hf.pad(X, np.zeros((3, 2), np.int32), "WRAP")


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC", "reflect"])
@pytest.mark.parametrize("paddings", [((1, 2), (0, 3), (2, 2)), ((0, 0), (1, 0), (0, 1))])
def test_mirror_pad(mode, paddings):
    equal(evaluate(lambda x, p: hf.pad(x, p, mode), X, ints(*paddings)),
          np.pad(X, paddings, mode.lower()))


def test_mirror_pad_larger_than_the_content():
    for mode, most in (("REFLECT", 2), ("SYMMETRIC", 3)):
        x = X[:, 0, 0]
        equal(evaluate(lambda x, p: hf.pad(x, p, mode), x, ints((most, most))),
              np.pad(x, most, mode.lower()))
        failing(lambda x, p: hf.pad(x, p, mode), x, ints((0, most + 1)))


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_mirror_pad_grad_is_the_transposed_map(mode):
    paddings = ints((1, 2), (0, 3), (2, 2))
    grad = np.random.default_rng(0).normal(size=(6, 7, 9))
    build = lambda g, p: raw_ops.MirrorPadGrad(input=g, paddings=p, mode=mode)
    got = evaluate(build, grad, paddings)
    probe = np.random.default_rng(1).normal(size=X.shape)
    np.testing.assert_allclose((got * probe).sum(),
                               (grad * np.pad(probe, paddings, mode.lower())).sum())


# ---------------------------------------------------------------- Reverse


@pytest.mark.parametrize("axis", [(), (0,), (1, -1), (0, 1, 2)])
def test_reverse(axis):
    expected = np.flip(X, axis) if axis else X
    equal(evaluate(hf.reverse, X, np.array(axis, np.int32)), expected)
    equal(evaluate(hf.reverse_v2, X, np.array(axis, np.int64)), expected)
    marks = np.array([i in axis or i - 3 in axis for i in range(3)])
    equal(evaluate(lambda x, m: raw_ops.Reverse(tensor=x, dims=m), X, marks), expected)


def test_reverse_errors_and_strings():
    equal(evaluate(hf.reverse, S, ints(1)), S[:, ::-1])
    failing(hf.reverse, X, ints(0, -3))
    failing(hf.reverse, X, ints(3))
    failing(lambda x, m: raw_ops.Reverse(tensor=x, dims=m), X, np.array([True]))


@pytest.mark.parametrize("seq, batch", [(1, 0), (0, 1), (2, 0), (-1, 1), (0, 2)])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_reverse_sequence(seq, batch, index):
    lengths = np.arange(X.shape[batch], dtype=index) % (X.shape[seq] + 1)
    expected = np.moveaxis(X, (batch, seq), (0, 1)).copy()
    for row, n in zip(expected, lengths):
        row[:n] = row[:n][::-1].copy()
    expected = np.moveaxis(expected, (0, 1), (batch, seq))
    equal(evaluate(lambda x, n: hf.reverse_sequence(x, n, seq, batch), X, lengths), expected)
    equal(evaluate(lambda x, n: hf.reverse_sequence(x, n, seq_dim=seq, batch_dim=batch), X,
                   lengths), expected)


def test_reverse_sequence_errors():
    build = lambda x, n: hf.reverse_sequence(x, n, 1)
    failing(build, X, ints(1, 2, 5))
    failing(build, X, ints(1, -2, 3))
    failing(build, X, ints(1, 2))
    failing(lambda x, n: hf.reverse_sequence(x, n, 0), X, ints(1, 2, 3), forms=("constant",))
    with pytest.raises(ValueError, match="seq_axis"):
        hf.reverse_sequence(X, ints(1, 2, 3))


# ---------------------------------------------------------------- blocks of space

IMAGE = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)


def space_to_batch(x, block, paddings):
    """The definition, element by element of the block."""
    x = np.pad(x, [(0, 0), *paddings, *[(0, 0)] * (x.ndim - len(block) - 1)])
    parts = [x[(slice(None), *[slice(o, None, b) for o, b in zip(offset, block)])]
             for offset in itertools.product(*map(range, block))]
    return np.concatenate(parts)


@pytest.mark.parametrize("block, paddings", [((2, 3), ((0, 0), (0, 0))), ((3, 2), ((1, 1), (0, 2))),
                                             ((2,), ((0, 2),)), ((1, 1, 1), ((0, 0),) * 3),
                                             ((2, 2, 3), ((0, 0), (1, 1), (0, 0)))])
def test_space_to_batch_and_back(block, paddings):
    block, paddings = np.array(block, np.int32), np.array(paddings, np.int64)
    expected = space_to_batch(IMAGE, block.tolist(), paddings.tolist())
    equal(evaluate(hf.space_to_batch_nd, IMAGE, block, paddings), expected)
    equal(evaluate(hf.batch_to_space_nd, expected, block, paddings), IMAGE)


def test_space_to_batch_of_square_blocks():
    paddings = ints((0, 0), (1, 1))
    expected = space_to_batch(IMAGE, (2, 2), paddings.tolist())
    equal(evaluate(lambda x, p: hf.space_to_batch(x, p, 2), IMAGE, paddings), expected)
    equal(evaluate(lambda x, p: hf.batch_to_space(x, p, 2), expected, paddings), IMAGE)


def test_space_to_batch_errors():
    failing(hf.space_to_batch_nd, IMAGE, ints(3, 3), ints((0, 0), (0, 0)))
    failing(hf.space_to_batch_nd, IMAGE, ints(2, 0), ints((0, 0), (0, 0)))
    failing(hf.space_to_batch_nd, IMAGE, ints(2, 2), ints((0, 0), (-1, 1)))
    failing(hf.batch_to_space_nd, IMAGE, ints(3, 1), ints((0, 0), (0, 0)))
    failing(hf.batch_to_space_nd, IMAGE, ints(2, 1), ints((5, 5), (0, 0)))
    failing(lambda x: hf.space_to_depth(x, 3), IMAGE)
    failing(lambda x: hf.depth_to_space(x, 2), IMAGE)


def test_space_to_depth_and_back():
    got = evaluate(lambda x: hf.space_to_depth(x, 2), IMAGE)
    assert got.shape == (2, 2, 3, 12)
    for i, j in itertools.product(range(2), range(2)):
        first = 3 * (2 * i + j)
        equal(got[..., first : first + 3], IMAGE[:, i::2, j::2])
    equal(evaluate(lambda x: hf.depth_to_space(x, 2), got), IMAGE)
    first, moved = IMAGE.transpose(0, 3, 1, 2), got.transpose(0, 3, 1, 2)
    equal(evaluate(lambda x: hf.space_to_depth(x, 2, data_format="NCHW"), first), moved)
    equal(evaluate(lambda x: hf.depth_to_space(x, 2, data_format="NCHW"), moved), first)


def test_required_space_to_batch_paddings():
    for base in (None, ((1, 0), (2, 1))):
        shape, block = ints(7, 9), ints(4, 3)
        inputs = (shape, block) if base is None else (shape, block, ints(*base))
        paddings, crops = evaluate(hf.required_space_to_batch_paddings, *inputs,
                                   forms=("constant", "static"))
        start = np.zeros((2, 2), int) if base is None else np.array(base)
        assert ((shape + paddings.sum(1)) % block == 0).all()
        equal(paddings[:, 0], start[:, 0])
        assert (crops[:, 1] >= 0).all() and (crops[:, 1] < block).all()
        equal(paddings - crops, start)
    assert hf.required_space_to_batch_paddings([7, 9], [4, 3])[0].op.type == "Const"


# ---------------------------------------------------------------- grids and diagonals


def test_meshgrid():
    a, b, c = np.float32([1, 2, 3]), np.float32([4, 5]), np.float32([6])
    for indexing in ("xy", "ij"):
        for vectors in ((a,), (a, b), (a, b, c)):
            got = evaluate(lambda *v: hf.meshgrid(*v, indexing=indexing), *vectors)
            for value, expected in zip(got, np.meshgrid(*vectors, indexing=indexing), strict=True):
                equal(value, expected)
    assert hf.meshgrid() == []
    with pytest.raises(ValueError, match="indexing"):
        hf.meshgrid(a, indexing="yx")
    with pytest.raises(TypeError, match="sparse"):
        hf.meshgrid(a, sparse=True)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64, np.bool_])
def test_matrix_diagonals(dtype):
    x = X.astype(dtype)
    eye = np.eye(5, dtype=dtype)
    equal(evaluate(hf.matrix_diag, x), x[..., None] * eye)
    equal(evaluate(hf.matrix_diag_part, x), np.diagonal(x, 0, -2, -1))
    equal(evaluate(hf.matrix_diag_part, np.swapaxes(x, 1, 2)), np.diagonal(x, 0, -2, -1))
    diagonal = np.ones((3, 4), dtype)
    expected = x.copy()
    expected[:, range(4), range(4)] = 1
    equal(evaluate(hf.matrix_set_diag, x, diagonal), expected)
    failing(hf.matrix_set_diag, x, np.ones((3, 5), dtype))
    for op in ("Diag", "DiagPart", "SetDiag", "BandPart"):
        assert hasattr(raw_ops, f"BatchMatrix{op}")


@pytest.mark.parametrize("lower, upper", [(0, 0), (1, 2), (-1, 0), (0, -1), (-1, -1), (3, 5)])
def test_matrix_band_part(lower, upper):
    offset = np.arange(5) - np.arange(4)[:, None]
    keep = ((lower < 0) | (offset >= -lower)) & ((upper < 0) | (offset <= upper))
    equal(evaluate(hf.matrix_band_part, X, np.int64(lower), np.int64(upper)), X * keep)
    equal(evaluate(lambda x: hf.matrix_band_part(x, lower, upper), X[0] + np.inf),
          np.where(keep, np.inf, 0))


@pytest.mark.parametrize(("lower", "upper"), [(2, 1), (0, 0), (-1, 2), (3, -1), (40, 0), (0, 30)])
def test_bands_of_large_matrices(monkeypatch, lower, upper):
    """By rows, and narrow ones by diagonals."""
    lower_thresholds(monkeypatch, "PARALLEL_LARGE_BYTES", "MATRIX_LONG_ROW")
    for rows, columns in ((40, 30), (40, 60), (50, 50)):
        x = np.arange(1.0, 2 * rows * columns + 1).reshape(2, rows, columns)
        x[0, 0, -1] = np.nan
        offset = np.arange(columns) - np.arange(rows)[:, None]
        keep = ((lower < 0) | (offset >= -lower)) & ((upper < 0) | (offset <= upper))
        equal(evaluate(hf.matrix_band_part, x, np.int64(lower), np.int64(upper)),
              np.where(keep, x, 0))


def test_matrix_band_part_errors():
    for lower, upper in ((5, 0), (0, 6)):
        failing(hf.matrix_band_part, X, np.int64(lower), np.int64(upper))
    failing(hf.matrix_band_part, X[0, 0], np.int64(0), np.int64(0))


def test_diag():
    for x in (np.float32([1, 2, 3]), X[0, :2, :3]):
        expected = np.diag(x.reshape(-1)).reshape(x.shape * 2)
        equal(evaluate(hf.diag, x), expected)
        equal(evaluate(hf.diag_part, expected), x)
    failing(hf.diag_part, X)
    failing(hf.diag_part, X[0])


def test_eye():
    equal(evaluate(lambda: hf.eye(3)), np.eye(3, dtype=np.float32))
    equal(evaluate(lambda n: hf.eye(n, 2, dtype=hf.int32), np.int32(3)), np.eye(3, 2, dtype=int))
    equal(evaluate(lambda n: hf.eye(2, n, [2, 1]), np.int32(3)),
          np.broadcast_to(np.eye(2, 3), (2, 1, 2, 3)))


def test_transposes_in_order_check_the_rank(session):
    x = hf.placeholder(hf.float32)
    assert session.run(hf.transpose(x, [0]), {x: [1.0, 2.0]}).tolist() == [1, 2]
    with pytest.raises(hf.errors.InvalidArgumentError, match="size 2"):
        session.run(hf.transpose(x, [0]), {x: [[1.0, 2.0]]})
