"""Pooling and its gradients on a device, one launch each, in kernels that are written out.

The gradient of a maximum is collected by each element of the input from the windows that see it,
in their order, so it has the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span
from hpcflow.kernels.common import device_windows as w
from hpcflow.kernels.nn import pooling as plain
from hpcflow.kernels.nn.convolution import described
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops import cuda_code
from hpcflow.loops.elements import ElementKernel, typed

_REAL = {"T": plain._REAL}
_FLOATS = plain._FLOATS
_INDEX = {"int32": "int", "int64": "long long"}


def _window(axes: int) -> str:
    """The part of the input that output element ``i`` sees: from ``a#`` to before ``b#``."""
    return f"""
position rest = i;
{w.taken_apart(axes, "out", "o")}
{w.each(axes, "const position a# = max(o# * stride# - before#, (position)0);")}
{w.each(axes, "const position b# = min(o# * stride# - before# + window#, size#);")}"""


def _windows(axes: int) -> str:
    """The outputs that see input element ``i``: from ``first#`` to ``last#``."""
    return f"""
position rest = i;
{w.taken_apart(axes, "size", "p")}
{w.each(axes, "const position reach# = p# + before# - window# + stride#;")}
{w.each(axes, "const position first# = reach# > 0 ? reach# / stride# : 0;")}
{w.each(axes, "const position last# = min((p# + before#) / stride#, out# - 1);")}"""


def _first_equal(axes: int) -> str:
    """The function that finds the first element of a window that equals a number, or -1."""
    bounds = ", ".join(f"position a{k}, position b{k}, position size{k}" for k in range(axes))
    inner = f"""
const position at = {w.place(axes, "image", "size", "q")};
if (get(x[at]) == wanted) return at;"""
    return f"""
static __device__ __forceinline__ position first_equal(
    const stored* x, value wanted, position image, {bounds}) {{
{w.nested(axes, "for (position q# = a#; q# < b#; q#++)", inner)}
return -1;
}}
"""


def _call(axes: int, wanted: str) -> str:
    bounds = ", ".join(f"a{k}, b{k}, size{k}" for k in range(axes))
    return f"first_equal(x, {wanted}, rest, {bounds})"


def _largest(axes: int, dtype: str) -> str:
    """Statements that make ``best`` of the window's elements; a NaN stays one."""
    wide = "float32" if cuda_code.narrow_of(dtype) else dtype
    least = cuda_code.literal(w.lowest(np.dtype(dtype)), wide)
    inner = f"""
const value v = get(x[{w.place(axes, "rest", "size", "q")}]);
if (v > best || v != v) best = v;"""
    return f"""
value best = {least};
{w.nested(axes, "for (position q# = a#; q# < b#; q#++)", inner)}"""


def _max(axes: int, dtype: str) -> ElementKernel:
    """(x, y, geometry)."""
    return ElementKernel(("const stored* x", "stored* y", *w.parameters(axes)),
                         f"{_window(axes)}\n{_largest(axes, dtype)}\ny[i] = put(best);",
                         typed(dtype))


def _argmax(axes: int, dtype: str, index: str, in_batch: bool) -> ElementKernel:
    """(x, y, places, geometry)."""
    image = " * ".join(f"size{k}" for k in range(axes))
    body = f"""{_window(axes)}
{_largest(axes, dtype)}
y[i] = put(best);
const position found = {_call(axes, "best")};
const position start = rest * {image};
places[i] = (found < 0 ? 0 : found - start){" + start" if in_batch else ""};"""
    return ElementKernel(("const stored* x", "stored* y", f"{_INDEX[index]}* places",
                          *w.parameters(axes)), body, typed(dtype) + _first_equal(axes))


def _max_grad(axes: int, dtype: str, grad: str) -> ElementKernel:
    """(x, y, dy, dx, geometry)."""
    inner = f"""
const position at = {w.place(axes, "rest", "out", "o")};
if (get(y[at]) == mine) {{
  {w.each(axes, "const position a# = max(o# * stride# - before#, (position)0);")}
  {w.each(axes, "const position b# = min(o# * stride# - before# + window#, size#);")}
  if ({_call(axes, "mine")} == i) total = (gvalue)(total + gget(dy[at]));
}}"""
    body = f"""{_windows(axes)}
const value mine = get(x[i]);
gvalue total = 0;
{w.nested(axes, "for (position o# = last#; o# >= first#; o#--)", inner)}
dx[i] = gput(total);"""
    return ElementKernel(("const stored* x", "const stored* y", "const gstored* dy", "gstored* dx",
                          *w.parameters(axes)), body,
                         typed(dtype) + typed(grad, "g") + _first_equal(axes))


def _max_grad_grad(axes: int, dtype: str, grad: str) -> ElementKernel:
    """(x, y, ddx, ddy, geometry)."""
    body = f"""{_window(axes)}
const position found = {_call(axes, "get(y[i])")};
ddy[i] = found < 0 ? gput(0) : ddx[found];"""
    return ElementKernel(("const stored* x", "const stored* y", "const gstored* ddx",
                          "gstored* ddy", *w.parameters(axes)), body,
                         typed(dtype) + typed(grad, "g") + _first_equal(axes))


def _count(axes: int) -> str:
    return "max((position)1, " + " * ".join(
        f"max(b{k} - a{k}, (position)0)" for k in range(axes)) + ")"


def _mean(axes: int, dtype: str) -> ElementKernel:
    """(x, y, geometry)."""
    body = f"""{_window(axes)}
value total = 0;
{w.nested(axes, "for (position q# = a#; q# < b#; q#++)",
          f"total += get(x[{w.place(axes, 'rest', 'size', 'q')}]);")}
y[i] = put(total / (value){_count(axes)});"""
    return ElementKernel(("const stored* x", "stored* y", *w.parameters(axes)), body, typed(dtype))


def _mean_grad(axes: int, dtype: str) -> ElementKernel:
    """(dy, dx, geometry)."""
    inner = f"""
{w.each(axes, "const position a# = max(o# * stride# - before#, (position)0);")}
{w.each(axes, "const position b# = min(o# * stride# - before# + window#, size#);")}
total += get(dy[{w.place(axes, "rest", "out", "o")}]) / (value){_count(axes)};"""
    body = f"""{_windows(axes)}
value total = 0;
{w.nested(axes, "for (position o# = last#; o# >= first#; o#--)", inner)}
dx[i] = put(total);"""
    return ElementKernel(("const stored* dy", "stored* dx", *w.parameters(axes)), body,
                         typed(dtype))


# ---------------------------------------------------------------- kernels


def _dims(x: Any, over: Sequence[Span]) -> tuple[int, ...]:
    return (x.shape[0], *(s.out for s in over))


def _forward(make: Callable[[int, str], ElementKernel], plain_of: Callable, what: str) -> Callable:
    def factory(node: KernelNode) -> Callable:
        programs, xp = w.programs_of(node.device), node.xp
        if programs is None:
            return plain_of(node)
        geometry, run = plain._geometry(node), w.runs(programs, make)

        def compute(x: Any) -> Any:
            over = geometry(x, what)
            y = xp.empty(_dims(x, over), x.dtype)
            run(len(over), x.dtype.name)(y.size, programs.dense(x), y, *w.numbers(over))
            return y

        return compute

    return factory


max_pool = _forward(_max, plain.max_pool, "input")
avg_pool = _forward(_mean, plain.avg_pool, "value")


def _with_checks(geometry: Callable, x: Any, y: Any, grad: Any, like_x: bool) -> tuple[Span, ...]:
    over = geometry(x, "orig_input")
    plain._check_shape("orig_output", y, _dims(x, over))
    plain._check_shape("grad", grad, x.shape if like_x else _dims(x, over))
    return over


def _of_maximum(make: Callable[[int, str, str], ElementKernel], plain_of: Callable,
                is_second: bool) -> Callable:
    """The first gradient (x, y, dy) or the second (x, y, ddx)."""
    def factory(node: KernelNode) -> Callable:
        programs, xp = w.programs_of(node.device), node.xp
        if programs is None:
            return plain_of(node)
        geometry, run = plain._geometry(node), w.runs(programs, make)

        def compute(x: Any, y: Any, grad: Any) -> Any:
            over = _with_checks(geometry, x, y, grad, is_second)
            made = xp.empty(y.shape if is_second else x.shape, grad.dtype)
            run(len(over), x.dtype.name, grad.dtype.name)(
                made.size, *map(programs.dense, (x, y, grad)), made, *w.numbers(over))
            return made

        return compute

    return factory


max_pool_grad = _of_maximum(_max_grad, plain.max_pool_grad, False)
max_pool_grad_grad = _of_maximum(_max_grad_grad, plain.max_pool_grad_grad, True)


def max_pool_with_argmax(node: KernelNode) -> Callable:
    """The largest elements, and where they are in the flattened image, or in all images."""
    programs, xp = w.programs_of(node.device), node.xp
    if programs is None:
        return plain.max_pool_with_argmax(node)
    geometry, run = plain._geometry(node), w.runs(programs, _argmax)
    index, in_batch = node.np_dtype(1), bool(node.attr("include_batch_in_index", False))

    def compute(x: Any) -> tuple:
        over = geometry(x)
        y, places = xp.empty(_dims(x, over), x.dtype), xp.empty(_dims(x, over), index)
        run(len(over), x.dtype.name, index.name, in_batch)(
            y.size, programs.dense(x), y, places, *w.numbers(over))
        return y, places

    return compute


def avg_pool_grad(node: KernelNode) -> Callable:
    """Each output's gradient in equal parts over its window."""
    programs, xp = w.programs_of(node.device), node.xp
    if programs is None:
        return plain.avg_pool_grad(node)
    geometry, run, rank = plain._geometry(node), w.runs(programs, _mean_grad), len(
        node.attr("ksize"))

    def compute(shape: Any, dy: Any) -> Any:
        dims = described(shape, "orig_input_shape", rank)
        over = geometry.of(dims)  # type: ignore[attr-defined]
        plain._check_shape("grad", dy, (dims[0], *(s.out for s in over)))
        dx = xp.empty(dims, dy.dtype)
        run(len(over), dy.dtype.name)(dx.size, programs.dense(dy), dx, *w.numbers(over))
        return dx

    return compute


# cuDNN's, where it is, are registered later for the types that it takes, and go first.
kernel("MaxPool", "MaxPool3D", device="GPU", types=_REAL, fresh=True)(max_pool)
kernel("MaxPoolGrad", device="GPU", types=_REAL, fresh=True)(max_pool_grad)
kernel("MaxPool3DGrad", device="GPU", types={**_REAL, "TInput": plain._REAL},
       fresh=True)(max_pool_grad)
kernel("MaxPoolGradGrad", "MaxPool3DGradGrad", device="GPU", types=_REAL,
       fresh=True)(max_pool_grad_grad)
kernel("MaxPoolWithArgmax", device="GPU", types=_REAL, fresh=True)(max_pool_with_argmax)
kernel("AvgPool", "AvgPool3D", device="GPU", types=_FLOATS, fresh=True)(avg_pool)
kernel("AvgPoolGrad", "AvgPool3DGrad", device="GPU", types=_FLOATS, fresh=True,
       host_inputs=(0,))(avg_pool_grad)
