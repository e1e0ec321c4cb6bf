"""The fused op types by oneDNN: bias and relu inside the convolution, products added in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.windows import check_rank, window_of
from hpcflow.kernels.nn import fused
from hpcflow.kernels.nn.convolution import channels_last, checked_spans, described
from hpcflow.kernels.nn.fused import check_bias, factors, targeted_factors
from hpcflow.kernels.onednn import convolution as c
from hpcflow.kernels.onednn.library import load
from hpcflow.kernels.onednn.products import is_large, multiply, product
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.resources.variables import VariableState

_OPTIONS: dict[str, Any] = {"device": "CPU", "priority": 10}


@kernel("_ConvBias", fresh=True, **_OPTIONS)
def _conv_bias(node: KernelNode) -> Callable:
    lib, plain = load(), fused.conv_bias(node)
    if lib is None:
        return plain
    window, kind = window_of(node), c.WithRelu if node.attr("relu") else c.WithBias
    first = window.channels_first

    def run(x: Any, w: Any, bias: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("filter", w, 4)
        check_bias(bias, w.shape[-1])
        dims = channels_last(x.shape, first)
        over = checked_spans(window, dims, w.shape)
        y = memory.empty(c.output_shape(dims, w.shape[-1], over, first), np.float32)
        primitive = None
        if y.size and x.size and w.size:
            primitive = c.primitive(kind, lib, dims, w.shape, over, first, False)
        if primitive is None:
            return plain(x, w, bias)
        primitive(*map(np.ascontiguousarray, (x, w, bias)), y)
        return y

    return run


@kernel("_Conv2DBackpropInputSum", fresh=True, takes_over=0, **_OPTIONS)
def _gradient_sum(node: KernelNode) -> Callable:
    lib, plain = load(), fused.gradient_sum(node)
    if lib is None:
        return plain
    window = window_of(node)
    first = window.channels_first

    def run(total: Any, sizes: Any, w: Any, dy: Any, own: bool = False) -> Any:
        check_rank("filter", w, 4)
        check_rank("out_backprop", dy, 4)
        shape = described(sizes, "input_sizes", 4)
        dims = channels_last(shape, first)
        over = checked_spans(window, dims, w.shape, channels_last(dy.shape, first))
        fused.check_sum(total, shape)
        primitive = None
        if total.size and dy.size and dims[-1] == w.shape[-2]:
            primitive = c.primitive(c.ByInputOnto, lib, dims, w.shape, over, first, False)
        if primitive is None:
            return plain(total, sizes, w, dy, own)
        in_place = own and total.flags.c_contiguous and total.flags.writeable
        dx = total if in_place else np.array(total, order="C")
        primitive(np.ascontiguousarray(dy), np.ascontiguousarray(w), dx)
        return dx

    return run


@kernel("_MatMulBias", fresh=True, **_OPTIONS)
def _layer(node: KernelNode) -> Callable:
    lib, plain = load(), fused.layer(node)
    if lib is None:
        return plain
    flips, relu = (node.attr("transpose_a"), node.attr("transpose_b")), node.attr("relu")
    oriented = factors(node)
    apart = fused.layer_by(node, lambda a, b, out: multiply(lib, a, b, False, False, out))
    known: dict[tuple, Any] = {}  # shapes -> the product with bias and relu inside

    def run(a: Any, b: Any, bias: Any) -> Any:
        found = known.get((a.shape, b.shape, bias.shape))
        if found is None:
            left, right = oriented(a, b)
            (m, k), n = left.shape, right.shape[1]
            if not is_large(m, k, n):
                return plain(a, b, bias)
            check_bias(bias, n)
            whole = None
            if k <= tuning.FUSED_DEEPEST:
                whole = product(lib, 1, m, k, n, *flips, bias=True, relu=relu)
            if whole is None:
                return apart(a, b, bias)
            if len(known) >= tuning.FUSED_MOST_KNOWN:
                known.clear()
            found = known[a.shape, b.shape, bias.shape] = whole, (m, n)
        whole, dims = found
        y = memory.empty(dims, np.float32)
        a, b, bias = np.ascontiguousarray(a), np.ascontiguousarray(b), np.ascontiguousarray(bias)
        whole(address_of(a), address_of(b), address_of(bias), address_of(y))
        return y

    return run


@kernel("_MatMulGradientDescent", **_OPTIONS)
def _descend(node: KernelNode) -> Callable:
    lib, plain, oriented = load(), fused.descend(node), targeted_factors(node)
    if lib is None:
        return plain

    def run(state: VariableState, alpha: Any, a: Any, b: Any) -> VariableState:
        with state.lock:
            left, right = oriented(a, b, state.read())
            if not is_large(left.shape[0], left.shape[1], right.shape[1]):
                return plain(state, alpha, a, b)
            multiply(lib, left, right, False, False, state.writable(), -float(alpha), 1.0)
        return state

    return run
