"""Kernels of rearranged tensors: Transpose, Tile, Pad, MirrorPad, Reverse, ReverseSequence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import loops as tuning
from hpcflow.kernels.common.sizes import check_count
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import strided_copy

# ---------------------------------------------------------------- Transpose


@kernel("Transpose", host_inputs=(1,))
@also_strings("Transpose")
def transpose(node: KernelNode) -> Callable:
    """A view with permuted strides."""
    perm = node.constant(1)
    if perm is None:
        return lambda x, perm: _transpose(x, perm.tolist())
    axes = tuple(perm.tolist())
    rank = len(axes)
    dims = node.input_dims[0]
    if dims is not None and len(dims) == rank and all(-rank <= p < rank for p in axes) and (
            len({p % rank for p in axes}) == rank):
        return lambda x, _: x.transpose(axes)
    return lambda x, _: _transpose(x, axes)


def _transpose(x: Any, perm: Any) -> Any:
    try:
        return x.transpose(perm)
    except ValueError:
        raise invalid(_no_permutation(list(perm), x.ndim)) from None


def _no_permutation(perm: list[int], rank: int) -> str:
    """Return an error message that says why `perm` is no permutation of `rank` dimensions."""
    if len(perm) != rank:
        return (f"transpose expects a vector of size {rank}. But input(1) is a vector of size "
                f"{len(perm)}")
    for p in perm:
        if not -rank <= p < rank:
            return f"{p} is out of range [0 .. {rank})"
    missing = next(i for i in range(rank) if i not in perm)
    return f"{missing} is missing from {{{','.join(map(str, perm))}}}."


# ---------------------------------------------------------------- Tile


@kernel("Tile", fresh=True, host_inputs=(1,))
@also_strings("Tile")
def tile(node: KernelNode) -> Callable:
    """Kernel of Tile: copy along each dimension in turn."""
    multiples = node.constant(1)
    if multiples is None:
        return lambda x, multiples: _tile(x, multiples.tolist())
    counts = multiples.tolist()
    return lambda x, _: _tile(x, counts)


def _tile(x: Any, counts: list) -> Any:
    if len(counts) != x.ndim:
        raise invalid(f"Expected multiples argument to be a vector of length {x.ndim} but got "
                      f"length {len(counts)}")
    for i, count in enumerate(counts):
        if count < 0:
            raise invalid(f"Expected multiples[{i}] >= 0, but got {count}")
    check_count((*counts, *x.shape), x.dtype.itemsize * (type(x) is np.ndarray))
    if (type(x) is np.ndarray and x.nbytes * math.prod(counts) >= tuning.COPY_LARGE_BYTES
            and set(counts) != {1}):
        return _tile_large(x, counts)
    if set(counts) <= {1}:
        return x.copy()
    # From the innermost outwards: few long runs are copied last.
    for axis in reversed(range(len(counts))):
        if counts[axis] != 1:
            x = _repeat_block(x, axis, counts[axis], counts)
    return x


def _tile_large(x: np.ndarray, counts: list) -> np.ndarray:
    """Tile by one broadcast copy, in which each dimension is preceded by a repeated one."""
    out = memory.empty([n * count for n, count in zip(x.shape, counts)], x.dtype)
    pairs = [n for count, size in zip(counts, x.shape) for n in (count, size)]
    strided_copy.assign(out.reshape(pairs), x[(None, slice(None)) * x.ndim])
    return out


def _repeat_block(x: Any, axis: int, count: int, counts: list) -> Any:
    if count < 0:
        raise invalid(f"Expected multiples[{axis}] >= 0, but got {count} in {counts}")
    dims = list(x.shape)
    rows, length = math.prod(dims[:axis]), math.prod(dims[axis:])
    dims[axis] *= count
    # Repeating each row of the rest sets the blocks of this dimension side by side.
    return x.reshape(rows, length).repeat(count, 0).reshape(dims)


@kernel("TileGrad", fresh=True, host_inputs=(1,))
def tile_grad(node: KernelNode) -> Callable:
    """Kernel of TileGrad: sum over the copies."""
    dtype = node.np_dtype()

    def run(x: Any, multiples: Any) -> Any:
        split: list[int] = []
        for dim, count in zip(x.shape, multiples.tolist()):
            split += [count, dim // max(count, 1)]
        return x.reshape(split).sum(tuple(range(0, len(split), 2)), dtype)

    return run


# ---------------------------------------------------------------- Pad


@kernel("Pad", fresh=True, host_inputs=(1,))
def pad(node: KernelNode) -> Callable:
    """Kernel of padding with zeros."""
    return _padder(node, node.np_dtype().type(0))


@also_strings("Pad")
def pad_strings(node: KernelNode) -> Callable:
    """Kernel of padding with empty strings."""
    return _padder(node, b"")


def _padder(node: KernelNode, value: Any) -> Callable:
    xp, paddings, dims = node.xp, node.constant(1), node.static_dims(0)
    if paddings is None:
        return lambda x, paddings: _pad(xp, x, *_frame(x.shape, _pairs(paddings)), value)
    rows = _pairs(paddings)
    if dims is None:
        return lambda x, _: _pad(xp, x, *_frame(x.shape, rows), value)
    shape, inner = _frame(dims, rows)
    return lambda x, _: _pad(xp, x, shape, inner, value)


@kernel("PadV2", fresh=True, host_inputs=(1, 2))
@also_strings("PadV2")
def pad_v2(node: KernelNode) -> Callable:
    """A given value around the input."""
    xp, known = node.xp, node.constant(1)

    def run(x: Any, paddings: Any, value: Any) -> Any:
        if value.ndim:
            raise invalid(f"constant_values must be a scalar. Found: {shown(value)}")
        rows = paddings if known is None else known
        return _pad(xp, x, *_frame(x.shape, _pairs(rows)), value)

    return run


def _pad(xp: Any, x: Any, shape: tuple, inner: tuple, value: Any) -> Any:
    """An array of `shape` with `x` at the place `inner`, and `value` around it."""
    if xp is not np or x.nbytes < tuning.COPY_LARGE_BYTES:
        out = xp.empty(shape, x.dtype)
        out[...] = value  # xp.full would take final zeros off a string
        out[inner] = x
        return out
    out = memory.empty(shape, x.dtype)
    for axis, part in enumerate(inner):
        # What lies before and after along this axis, within the content of those before it.
        out[inner[:axis] + (slice(None, part.start),)] = value
        out[inner[:axis] + (slice(part.stop, None),)] = value
    strided_copy.assign(out[inner], x)
    return out


def _pairs(paddings: Any) -> list:
    """Return the (before, after) pairs of the paddings, checked."""
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        raise invalid(f"paddings must be a matrix with 2 columns: {shown(paddings)}")
    return paddings.tolist()


def _frame(dims: tuple, rows: list) -> tuple[tuple, tuple]:
    """Return the padded shape, and the slices of the content in it."""
    if len(rows) != len(dims):
        raise invalid(f"The first dimension of paddings must be the rank of inputs [{len(dims)},2]"
                      f", got {rows}")
    for before, after in rows:
        if before < 0 or after < 0:
            raise invalid(f"Paddings must be non-negative: {before} {after}")
    shape = tuple([b + d + a for d, (b, a) in zip(dims, rows)])
    return shape, tuple([slice(b, b + d) for d, (b, _) in zip(dims, rows)])


# ---------------------------------------------------------------- MirrorPad


@kernel("MirrorPad", fresh=True, host_inputs=(1,))
@also_strings("MirrorPad")
def mirror_pad(node: KernelNode) -> Callable:
    """Kernel of MirrorPad: mirror the content, with or without the border element."""
    mode, xp = node.attr("mode").decode().lower(), node.xp
    offset = 1 if mode == "reflect" else 0

    def run(x: Any, paddings: Any) -> Any:
        rows = _pairs(paddings)
        _frame(x.shape, rows)
        for dim, (before, after) in zip(x.shape, rows):
            if max(before, after) > dim - offset:
                raise invalid(f"paddings must be {'less than' if offset else 'no greater than'} "
                              f"the dimension size: {before}, {after} and {dim}")
        return xp.pad(x, rows, mode=mode) if rows else x.copy()

    return run


@kernel("MirrorPadGrad", fresh=True, host_inputs=(1,))
def mirror_pad_grad(node: KernelNode) -> Callable:
    """Kernel of MirrorPadGrad: add the gradients of the mirror images to those of the content."""
    offset = 1 if node.attr("mode") == b"REFLECT" else 0

    def run(grad: Any, paddings: Any) -> Any:
        out = grad
        if len(paddings) != grad.ndim or (paddings < 0).any():
            raise invalid(f"paddings must be {grad.ndim} pairs of numbers that are not negative, "
                          f"got {paddings.tolist()}")
        for axis, (before, after) in enumerate(paddings.tolist()):
            out = _fold(out, axis, before, after, offset)
        return out.copy() if out is grad else out

    return run


def _fold(grad: Any, axis: int, before: int, after: int, offset: int) -> Any:
    """Add the borders along `axis`, mirrored, to what they are images of."""
    if not before and not after:
        return grad
    lead = (slice(None),) * axis
    size = grad.shape[axis] - before - after
    if size < max(before, after) + offset:
        raise invalid(f"paddings {before}, {after} leave {size} of dimension {axis}, too few to "
                      "have been mirrored")
    out = grad[lead + (slice(before, before + size),)].copy()
    if before:
        image = grad[lead + (slice(before - 1, None, -1),)]
        out[lead + (slice(offset, offset + before),)] += image
    if after:
        image = grad[lead + (slice(None, before + size - 1, -1),)]
        out[lead + (slice(size - offset - after, size - offset),)] += image
    return out


# ---------------------------------------------------------------- Reverse, ReverseSequence


@kernel("Reverse", host_inputs=(1,))
@also_strings("Reverse")
def reverse(node: KernelNode) -> Callable:
    """A view that runs backwards along the marked dimensions."""

    def run(x: Any, marked: Any) -> Any:
        if len(marked) != x.ndim:
            raise invalid("'dims' must have the same number of values as 'input' has dimensions. "
                          f"'input' has {x.ndim}, 'dims' has {len(marked)} values")
        return x[tuple([slice(None, None, -1 if m else 1) for m in marked.tolist()])]

    return run


@kernel("ReverseV2", host_inputs=(1,))
@also_strings("ReverseV2")
def reverse_v2(node: KernelNode) -> Callable:
    """A view that runs backwards along the listed dimensions."""
    axis, dims = node.constant(1), node.input_dims[0]
    if axis is None or dims is None:
        return lambda x, axis: x[_backwards(x.ndim, axis.tolist())]
    index = _backwards(len(dims), axis.tolist())
    return lambda x, _: x[index]


def _backwards(rank: int, axes: list) -> tuple:
    index = [slice(None)] * rank
    for axis in axes:
        if not -rank <= axis < rank:
            raise invalid(f"'axis' {axis} is out of valid range [{-rank}, {rank})")
        if index[axis].step is not None:
            raise invalid(f"axis {axis % rank} specified more than once.")
        index[axis] = slice(None, None, -1)
    return tuple(index)


@kernel("ReverseSequence", fresh=True)
@also_strings("ReverseSequence")
def reverse_sequence(node: KernelNode) -> Callable:
    """Each sequence taken in the order length-1, ..., 0, length, length+1, ..."""
    xp, seq, batch = node.xp, node.attr("seq_dim"), node.attr("batch_dim")

    def run(x: Any, lengths: Any) -> Any:
        _check_lengths(xp, x.shape, lengths, seq, batch)
        steps = xp.arange(x.shape[seq])
        ends = lengths.reshape(-1, 1)
        order = xp.where(steps < ends, ends - 1 - steps, steps)
        rows = xp.moveaxis(x, (batch, seq), (0, 1))
        taken = rows[xp.arange(len(lengths)).reshape(-1, 1), order]
        return xp.moveaxis(taken, (0, 1), (batch, seq))

    return run


def _check_lengths(xp: Any, dims: tuple, lengths: Any, seq: int, batch: int) -> None:
    if lengths.ndim != 1 or len(lengths) != dims[batch]:
        raise invalid(f"Length of seq_lens != input.dims({batch}), ({shown(lengths)} vs. "
                      f"{dims[batch]})")
    if batch == seq:
        raise invalid(f"batch_dim == seq_dim == {seq}")
    for i, length in enumerate(lengths.tolist()):
        if length < 0:
            raise invalid(f"seq_lens({i}) < 0")
        if length > dims[seq]:
            raise invalid(f"seq_lens({i}) > input.dims({seq}): {length} and {dims[seq]}")
