"""Pooling and its gradients on a device, in kernels that are written out.

A thread computes some channels of one place, up to 16 bytes, which it reads and writes at once. The
gradient of a maximum takes two launches: each output finds which element of its window it is, then
each element of the input collects from the windows that see it, in their order, so it has the same
bits in every run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, moves
from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels.common import device_windows as w
from hpcflow.kernels.nn import pooling as plain
from hpcflow.kernels.nn.convolution import described
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops import cuda_code
from hpcflow.loops.cuda import Programs
from hpcflow.loops.elements import ElementKernel, typed

_REAL = {"T": plain._REAL}
_FLOATS = plain._FLOATS
_EACH = "for (int j = 0; j < lanes; j++)"
_NO_TAP = 255  # -1 as uint8


def _types(lanes: int, **dtypes: str) -> str:
    """For each dtype what `typed` has by its name, ``x`` for instance, and ``xpack``, so many
    channels next to each other."""
    packs = (f"{typed(dtype, name)}struct alignas({lanes} * sizeof({name}stored)) {name}pack "
             f"{{ {name}stored lane[{lanes}]; }};\n" for name, dtype in dtypes.items())
    return f"constexpr int lanes = {lanes};\n{''.join(packs)}"


def _output(axes: int) -> str:
    """Where output ``i`` is: ``rest`` is the image, ``o#`` the place along an axis."""
    return f"position rest = i;\n{w.taken_apart(axes, 'out', 'o')}"


def _window(axes: int, body: str) -> str:
    """`body` for every element that output ``o#`` sees, in their order: it is element ``k#`` of the
    window, and ``at`` in the array."""
    inside = " && ".join(f"q{k} >= 0 && q{k} < size{k}" for k in range(axes))
    inner = f"""
{w.each(axes, "const position q# = o# * stride# - before# + k#;")}
if ({inside}) {{
  const position at = {w.place(axes, "rest", "size", "q")};
  {body}
}}"""
    return w.nested(axes, "for (position k# = 0; k# < window#; k#++)", inner)


def _outputs(axes: int, body: str) -> str:
    """`body` for every output that sees input ``i``, from the last on: it is at ``o#``, and ``at``
    in the array."""
    inner = f"""
{w.each(axes, "const position o# = last# - n#;")}
if ({" && ".join(f"o{k} >= first{k}" for k in range(axes))}) {{
  const position at = {w.place(axes, "rest", "out", "o")};
  {body}
}}"""
    most = "for (position n# = 0; n# < (window# + stride# - 1) / stride#; n#++)"
    return f"""
position rest = i;
{w.taken_apart(axes, "size", "p")}
{w.each(axes, "const position reach# = p# + before# - window# + stride#;")}
{w.each(axes, "const position first# = reach# > 0 ? reach# / stride# : 0;")}
{w.each(axes, "const position last# = min((p# + before#) / stride#, out# - 1);")}
{w.nested(axes, most, inner)}"""


def _tap(axes: int) -> str:
    """The number of element ``k#`` of the window."""
    return w.place(axes, "0", "window", "k")


def _first_equal(axes: int, what: str) -> str:
    """Statements that make ``found[j]`` `what` of the first element of the window that equals
    ``best[j]``; -1 if none does."""
    equal = f"if (found[j] < 0 && xget(v.lane[j]) == best[j]) found[j] = {what};"
    return f"""
position found[lanes];
{_EACH} found[j] = -1;
{_window(axes, f"const xpack v = x[at]; {_EACH} {equal}")}"""


def _given(name: str, array: str) -> str:
    """Statements that make ``best`` of an array of the outputs."""
    return f"""
xvalue best[lanes];
const xpack {name} = {array}[i];
{_EACH} best[j] = xget({name}.lane[j]);"""


def _largest(axes: int, dtype: str) -> str:
    """Statements that make ``best`` of the window's elements, and store it; a NaN stays one."""
    wide = "float32" if cuda_code.narrow_of(dtype) else dtype
    least = cuda_code.literal(w.lowest(np.dtype(dtype)), wide)
    body = f"""const xpack v = x[at];
  {_EACH} {{ const xvalue e = xget(v.lane[j]); if (e > best[j] || e != e) best[j] = e; }}"""
    return f"""
xvalue best[lanes];
{_EACH} best[j] = {least};
{_window(axes, body)}
xpack made;
{_EACH} made.lane[j] = xput(best[j]);
y[i] = made;"""


def _max(axes: int, dtype: str, lanes: int) -> ElementKernel:
    """(x, y, geometry)."""
    return ElementKernel(("const xpack* x", "xpack* y", *w.parameters(axes)),
                         _output(axes) + _largest(axes, dtype), _types(lanes, x=dtype))


def _argmax(axes: int, dtype: str, index: str, in_batch: bool, lanes: int) -> ElementKernel:
    """(x, y, places, geometry)."""
    image = " * ".join(["lanes", *(f"size{k}" for k in range(axes))])
    body = f"""{_output(axes)}
{_largest(axes, dtype)}
{_first_equal(axes, "at * lanes + j")}
const position start = rest * {image};
npack to;
{_EACH} to.lane[j] = (found[j] < 0 ? 0 : found[j] - start){" + start" if in_batch else ""};
places[i] = to;"""
    return ElementKernel(("const xpack* x", "xpack* y", "npack* places", *w.parameters(axes)),
                         body, _types(lanes, x=dtype, n=index))


def _taps(axes: int, dtype: str, tap: str, lanes: int) -> ElementKernel:
    """(x, y, taps, geometry): which element of its window each output is the first to equal."""
    body = f"""{_output(axes)}
{_given("mine", "y")}
{_first_equal(axes, _tap(axes))}
tpack to;
{_EACH} to.lane[j] = (tstored)found[j];
taps[i] = to;"""
    return ElementKernel(("const xpack* x", "const xpack* y", "tpack* taps", *w.parameters(axes)),
                         body, _types(lanes, x=dtype, t=tap))


def _max_grad(axes: int, tap: str, grad: str, lanes: int) -> ElementKernel:
    """(taps, dy, dx, geometry)."""
    add = "if (from.lane[j] == mine) total[j] = (gvalue)(total[j] + gget(d.lane[j]));"
    inner = f"""
{w.each(axes, "const position k# = p# + before# - o# * stride#;")}
const tstored mine = (tstored)({_tap(axes)});
const tpack from = taps[at];
const gpack d = dy[at];
{_EACH} {add}"""
    body = f"""
gvalue total[lanes];
{_EACH} total[j] = 0;
{_outputs(axes, inner)}
gpack made;
{_EACH} made.lane[j] = gput(total[j]);
dx[i] = made;"""
    return ElementKernel(("const tpack* taps", "const gpack* dy", "gpack* dx",
                          *w.parameters(axes)), body, _types(lanes, t=tap, g=grad))


def _max_grad_grad(axes: int, dtype: str, grad: str, lanes: int) -> ElementKernel:
    """(x, y, ddx, ddy, geometry)."""
    body = f"""{_output(axes)}
{_given("mine", "y")}
{_first_equal(axes, "at")}
gpack made;
{_EACH} made.lane[j] = found[j] < 0 ? gput(0) : ddx[found[j]].lane[j];
ddy[i] = made;"""
    return ElementKernel(("const xpack* x", "const xpack* y", "const gpack* ddx", "gpack* ddy",
                          *w.parameters(axes)), body, _types(lanes, x=dtype, g=grad))


def _count(axes: int) -> str:
    """How many elements output ``o#`` sees; one if it sees none."""
    seen = (f"max(min(o{k} * stride{k} - before{k} + window{k}, size{k}) - "
            f"max(o{k} * stride{k} - before{k}, (position)0), (position)0)" for k in range(axes))
    return f"max((position)1, {' * '.join(seen)})"


def _mean(axes: int, dtype: str, lanes: int) -> ElementKernel:
    """(x, y, geometry)."""
    body = f"""{_output(axes)}
xvalue total[lanes];
{_EACH} total[j] = 0;
{_window(axes, f"const xpack v = x[at]; {_EACH} total[j] += xget(v.lane[j]);")}
const xvalue count = (xvalue){_count(axes)};
xpack made;
{_EACH} made.lane[j] = xput(total[j] / count);
y[i] = made;"""
    return ElementKernel(("const xpack* x", "xpack* y", *w.parameters(axes)), body,
                         _types(lanes, x=dtype))


def _mean_grad(axes: int, dtype: str, lanes: int) -> ElementKernel:
    """(dy, dx, geometry)."""
    inner = f"""const xvalue count = (xvalue){_count(axes)};
const xpack d = dy[at];
{_EACH} total[j] += xget(d.lane[j]) / count;"""
    body = f"""
xvalue total[lanes];
{_EACH} total[j] = 0;
{_outputs(axes, inner)}
xpack made;
{_EACH} made.lane[j] = xput(total[j]);
dx[i] = made;"""
    return ElementKernel(("const xpack* dy", "xpack* dx", *w.parameters(axes)), body,
                         _types(lanes, x=dtype))


# ---------------------------------------------------------------- kernels


class _Launcher:
    """Runs kernels of one op that are given arrays in C order, the last of which they fill."""

    def __init__(self, programs: Programs, make: Callable[..., ElementKernel]) -> None:
        self._run, self._dense = w.runs_of_windows(programs, make), programs.dense

    def __call__(self, over: Sequence[Span], key: Sequence[Any], *arrays: Any,
                 results: int = 1) -> None:
        arrays = (*map(self._dense, arrays[:-results]), *arrays[-results:])
        lanes, last = _lanes(over[-1], arrays), over[-1]
        packed = (*over[:-1], last._replace(size=last.size // lanes, out=last.out // lanes))
        self._run(packed, *key, lanes)(arrays[-1].size // lanes, *arrays, *w.numbers(packed))


def _lanes(channels: Span, arrays: Sequence[Any]) -> int:
    """How many channels a thread takes at once."""
    lanes = 1 if moves(channels) else tuning.PACK_BYTES // max(a.itemsize for a in arrays)
    while channels.size % lanes or any(a.data.ptr % (lanes * a.itemsize) for a in arrays):
        lanes //= 2
    return lanes


def _dims(x: Any, over: Sequence[Span]) -> tuple[int, ...]:
    return (x.shape[0], *(s.out for s in over))


def _runs(otherwise: Callable, *makes: Callable[..., ElementKernel]) -> Callable:
    """Decorator: a factory of an op's kernel is given the node, its geometry, and what launches
    each of its kernels. Where no device runs these, the factory `otherwise` serves."""

    def decorate(factory: Callable) -> Callable:
        @functools.wraps(factory)
        def on_device(node: KernelNode) -> Callable:
            programs = w.programs_of(node.device)
            if programs is None:
                return otherwise(node)
            return factory(node, plain._geometry(node), *(_Launcher(programs, m) for m in makes))

        return on_device

    return decorate


def _pooled(what: str, node: KernelNode, geometry: Callable, launch: _Launcher) -> Callable:
    xp = node.xp

    def compute(x: Any) -> Any:
        over = geometry(x, what)
        y = xp.empty(_dims(x, over), x.dtype)
        launch(over, (x.dtype.name,), x, y)
        return y

    return compute


max_pool = _runs(plain.max_pool, _max)(functools.partial(_pooled, "input"))
avg_pool = _runs(plain.avg_pool, _mean)(functools.partial(_pooled, "value"))


def _with_checks(geometry: Callable, x: Any, y: Any, grad: Any, like_x: bool) -> tuple[Span, ...]:
    over = geometry(x, "orig_input")
    plain._check_shape("orig_output", y, _dims(x, over))
    plain._check_shape("grad", grad, x.shape if like_x else _dims(x, over))
    return over


@_runs(plain.max_pool_grad, _taps, _max_grad)
def max_pool_grad(node: KernelNode, geometry: Callable, find: _Launcher,
                  collect: _Launcher) -> Callable:
    """Each output's gradient at the first of its window's largest elements."""
    xp = node.xp

    def compute(x: Any, y: Any, dy: Any) -> Any:
        over = _with_checks(geometry, x, y, dy, False)
        tap = "uint8" if math.prod(s.window for s in over) <= _NO_TAP else "int32"
        taps, dx = xp.empty(y.shape, tap), xp.empty(x.shape, dy.dtype)
        find(over, (x.dtype.name, tap), x, y, taps)
        collect(over, (tap, dy.dtype.name), taps, dy, dx)
        return dx

    return compute


@_runs(plain.max_pool_grad_grad, _max_grad_grad)
def max_pool_grad_grad(node: KernelNode, geometry: Callable, launch: _Launcher) -> Callable:
    """The second gradient of max pooling: `ddx` at the position of each window's maximum."""
    xp = node.xp

    def compute(x: Any, y: Any, ddx: Any) -> Any:
        over = _with_checks(geometry, x, y, ddx, True)
        ddy = xp.empty(y.shape, ddx.dtype)
        launch(over, (x.dtype.name, ddx.dtype.name), x, y, ddx, ddy)
        return ddy

    return compute


@_runs(plain.max_pool_with_argmax, _argmax)
def max_pool_with_argmax(node: KernelNode, geometry: Callable, launch: _Launcher) -> Callable:
    """The largest elements, and where they are in the flattened image, or in all images."""
    xp, index = node.xp, node.np_dtype(1)
    in_batch = bool(node.attr("include_batch_in_index", False))

    def compute(x: Any) -> tuple:
        over = geometry(x)
        y, places = xp.empty(_dims(x, over), x.dtype), xp.empty(_dims(x, over), index)
        launch(over, (x.dtype.name, index.name, in_batch), x, y, places, results=2)
        return y, places

    return compute


@_runs(plain.avg_pool_grad, _mean_grad)
def avg_pool_grad(node: KernelNode, geometry: Any, launch: _Launcher) -> Callable:
    """Each output's gradient in equal parts over its window."""
    xp, rank = node.xp, len(node.attr("ksize"))

    def compute(shape: Any, dy: Any) -> Any:
        dims = described(shape, "orig_input_shape", rank)
        over = geometry.of(dims)
        plain._check_shape("grad", dy, (dims[0], *(s.out for s in over)))
        dx = xp.empty(dims, dy.dtype)
        launch(over, (dy.dtype.name,), dy, dx)
        return dx

    return compute


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
