"""Kernels of array op types of later writers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.layout import transpose
from hpcflow.kernels.partition import unique
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.string_hashes import fingerprint64
from hpcflow.kernels.strings import also_strings
from hpcflow.kernels.text import as_bytes, flat

# ---------------------------------------------------------------- order


@kernel("ConjugateTranspose", host_inputs=(1,))
@also_strings("ConjugateTranspose")
def _conjugate_transpose(node: KernelNode) -> Callable:
    moved = transpose(node)
    if node.np_dtype().kind != "c":
        return moved
    return lambda x, perm: moved(x, perm).conj()


def _formats(node: KernelNode) -> tuple[str, str]:
    found = tuple(node.attr(f"{name}_format").decode() for name in ("src", "dst"))
    if len(found[0]) not in (4, 5) or sorted(found[0]) != sorted(found[1]):
        raise invalid(f"formats of four or five of the same letters are needed, got {found[0]!r} "
                      f"and {found[1]!r}")
    return found  # type: ignore[return-value]


@kernel("DataFormatDimMap", device="CPU", fresh=True)
def _dim_map(node: KernelNode) -> Callable:
    """Where the dimensions with these numbers are in the other format."""
    source, target = _formats(node)
    places = np.array([target.index(c) for c in source], node.np_dtype())
    rank = len(source)

    def run(x: Any) -> Any:
        if np.size(x) and (np.min(x) < -rank or np.max(x) >= rank):
            raise invalid(f"dimensions must be in [{-rank}, {rank}), got {np.ravel(x).tolist()}")
        return places[x]

    return run


@kernel("DataFormatVecPermute", device="CPU", fresh=True)
def _vec_permute(node: KernelNode) -> Callable:
    """Sizes (or pairs of paddings) of the dimensions, in the order of the other format."""
    source, target = _formats(node)

    def run(x: Any) -> Any:
        rank = len(source)
        if x.ndim not in (1, 2) or len(x) not in (rank, rank - 2) or x.ndim == 2 and (
                x.shape[1] != 2):
            raise invalid(f"expected {rank} or {rank - 2} numbers, or as many pairs, got shape "
                          f"{shown(x)}")
        of, to = source, target
        if len(x) == rank - 2:  # of the spatial dimensions alone
            of, to = ("".join(c for c in f if c not in "NC") for f in (of, to))
        return x[[of.index(c) for c in to]]

    return run


@kernel("NthElement", device="CPU", fresh=True)
def _nth_element(node: KernelNode) -> Callable:
    backwards = node.attr("reverse")

    def run(x: Any, n: Any) -> Any:
        if np.ndim(n):
            raise invalid(f"n must be scalar, got shape {shown(np.shape(n))}")
        if not x.ndim:
            raise invalid("input must be at least rank 1 but is rank 0")
        size = x.shape[-1]
        if not 0 <= n < size:
            raise invalid(f"n must be in [0, {size}), got {int(n)}")
        place = size - 1 - int(n) if backwards else int(n)
        return np.partition(x, place, -1)[..., place]

    return run


# ---------------------------------------------------------------- distinct rows


@kernel("UniqueV2", "UniqueWithCountsV2", fresh=True)
@also_strings("UniqueV2", "UniqueWithCountsV2")
def _unique(node: KernelNode) -> Callable:
    """Distinct parts along an axis, in the order of their first occurrence."""
    of_vector = unique(node)
    dtype, counted = node.np_dtype(1), node.op_type == "UniqueWithCountsV2"

    def run(x: Any, axis: Any) -> tuple:
        if np.ndim(axis) != 1 or np.size(axis) > 1:
            raise invalid("axis must be a vector of at most one element, got shape "
                          f"{shown(np.shape(axis))}")
        if x.ndim == 1 and (not np.size(axis) or axis[0] in (0, -1)):
            return of_vector(x)
        if not np.size(axis):
            raise invalid("unique expects a 1D vector.")
        if not -x.ndim <= axis[0] < x.ndim:
            raise invalid(f"axis must be in [{-x.ndim}, {x.ndim}), got {int(axis[0])}")
        along = int(axis[0])
        first, places = _groups(np.moveaxis(x, along, 0))
        outputs = np.take(x, first, along), places.astype(dtype)
        counts = np.bincount(places, minlength=len(first)).astype(dtype)
        return (*outputs, counts) if counted else outputs

    return run


def _groups(rows: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Where each distinct row is first, and for each row the number of the one that it equals."""
    known: dict[Any, int] = {}
    first: list[int] = []
    places = np.empty(len(rows), np.intp)
    for i, row in enumerate(rows):
        key = tuple(np.ravel(row).tolist())
        places[i] = known.setdefault(key, len(first))
        if places[i] == len(first):
            first.append(i)
    return first, places


# ---------------------------------------------------------------- rows replaced

_IN_PLACE = {"InplaceUpdate": None, "InplaceAdd": np.add, "InplaceSub": np.subtract}


@kernel(*_IN_PLACE, device="CPU", fresh=True)
def _inplace(node: KernelNode) -> Callable:
    """A copy of x with other rows; their numbers count round."""
    combine = _IN_PLACE[node.op_type]

    def run(x: Any, i: Any, v: Any) -> Any:
        if np.ndim(i) > 1 or not x.ndim or np.shape(v) != (*np.shape(i), *x.shape[1:]):
            raise invalid(f"v must have the shape of i and of a row of x, got x {shown(x)}, "
                          f"i {shown(np.shape(i))}, v {shown(np.shape(v))}")
        out = x.copy()
        if np.size(i):
            rows = np.asarray(i) % max(len(x), 1)
            if combine is None:
                out[rows] = v
            else:
                combine.at(out, rows, v)
        return out

    return run


@kernel("DeepCopy", fresh=True)
@also_strings("DeepCopy")
def _deep_copy(node: KernelNode) -> Callable:
    return lambda x: x.copy()


# ---------------------------------------------------------------- element by element


@kernel("ApproximateEqual", fresh=True)
def _approximate_equal(node: KernelNode) -> Callable:
    xp, tolerance = node.xp, node.attr("tolerance")

    def run(x: Any, y: Any) -> Any:
        if x.shape != y.shape:
            raise invalid(f"x and y must be of the same shape, got {shown(x)} and {shown(y)}")
        return xp.abs(x - y) < x.real.dtype.type(tolerance)

    return run


@kernel("NextAfter", fresh=True)
def _next_after(node: KernelNode) -> Callable:
    return node.xp.nextafter


@kernel("PopulationCount", device="CPU", fresh=True)
def _population_count(node: KernelNode) -> Callable:
    def run(x: Any) -> Any:
        array = np.ascontiguousarray(x)
        parts = array.reshape(-1, 1).view(np.uint8)
        return np.unpackbits(parts, axis=1).sum(1, dtype=np.uint8).reshape(np.shape(x))[()]

    return run


_TRUTHS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "string")


@kernel("ToBool", device="CPU", fresh=True)
def _to_bool(node: KernelNode) -> Callable:
    """A number is true if it is not zero, a string or an array if it is not empty."""

    dtype = node.input_dtypes[0].name

    def run(x: Any) -> Any:
        if np.ndim(x):
            return np.bool_(x.size > 0)
        if dtype not in _TRUTHS:
            raise invalid(f"{dtype} cannot be converted to a boolean")
        return np.bool_(len(x) > 0 if isinstance(x, bytes) else bool(x))

    return run


# ---------------------------------------------------------------- fingerprints, time


@kernel("Fingerprint", device="CPU", fresh=True)
def _fingerprint(node: KernelNode) -> Callable:
    """64 bits of each row as eight bytes."""

    def run(data: Any, method: Any) -> Any:
        if np.ndim(method) or as_bytes(method) != b"farmhash64":
            raise invalid(f"method must be farmhash64, got {method!r}")
        if not np.ndim(data):
            raise invalid("data must have at least one dimension")
        rows = data.reshape(len(data), -1)
        if data.dtype != object:
            return _bytes_of_hashes([row.tobytes() for row in rows])
        if data.ndim == 1:
            return _bytes_of_hashes(flat(data))
        # Strings are hashed one by one, then their hashes.
        return _bytes_of_hashes([_bytes_of_hashes(list(row)).tobytes() for row in rows])

    return run


def _bytes_of_hashes(texts: list[bytes]) -> np.ndarray:
    found = np.asarray(fingerprint64(texts), "<u8") if texts else np.zeros(0, "<u8")
    return found.reshape(-1, 1).view(np.uint8)


@kernel("Timestamp", device="CPU", fresh=True)
def _timestamp(node: KernelNode) -> Callable:
    return lambda: np.float64(time.time())


@kernel("FakeParam", device="CPU", fresh=True)
def _fake_param(node: KernelNode) -> Callable:
    """Zeros, which nobody reads: where only one branch of a conditional has a value."""
    dims = tuple(d or 0 for d in node.attr("shape")._dims or ())
    dtype = node.output_dtypes[0]
    if dtype.name == "string":
        return lambda: np.full(dims, b"", object)[()]
    return lambda: np.zeros(dims, dtype.np)[()]
