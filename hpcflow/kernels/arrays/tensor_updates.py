"""Copies of tensors with some elements or rows replaced, added to, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_SCATTERS: dict[str, Any] = {"Add": np.add, "Sub": np.subtract, "Max": np.maximum,
                             "Min": np.minimum}


def _scatter(name: str, *op_types: str) -> None:
    @kernel(f"TensorScatter{name}", *op_types, device="CPU", fresh=True)
    def factory(node: KernelNode) -> Any:
        combine = _SCATTERS.get(name)

        def run(x: Any, indices: Any, updates: Any) -> Any:
            if not x.size and indices.size and updates.size:
                raise invalid("Indices and updates specified for empty output")
            at = _places(indices, x.shape)
            wanted = indices.shape[:-1] + x.shape[indices.shape[-1]:]
            if updates.shape != wanted:
                raise invalid(f"updates must have shape {shown(wanted)} for indices "
                              f"{shown(indices)} into {shown(x)}, got "
                              f"{shown(updates)}")
            out = x.copy()
            if combine is None:
                out[at] = updates
            else:
                combine.at(out, at, updates)
            return out

        return run


_scatter("Update")
_scatter("Add", "ScatterNdNonAliasingAdd")
for _name in ("Sub", "Max", "Min"):
    _scatter(_name)


def _places(indices: Any, shape: tuple) -> tuple:
    """Indices along the last dimension as an index of NumPy, checked."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not indices.ndim or depth > len(shape):
        raise invalid(f"indices of shape {shown(indices)} do not fit {shown(shape)}")
    limits = np.array(shape[:depth])
    wrong = ((indices < 0) | (indices >= limits)).any(-1)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise invalid(f"indices[{','.join(map(str, first))}] = {indices[first].tolist()} does not "
                      f"index into shape {shown(shape)}")
    return tuple(indices[..., i] for i in range(depth))


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
