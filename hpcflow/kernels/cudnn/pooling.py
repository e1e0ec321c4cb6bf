"""Pooling of images and volumes by cuDNN, and its gradients: where no window moves over the
channels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, moves
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import device_pooling as written
from hpcflow.kernels.nn import pooling as plain
from hpcflow.kernels.nn.convolution import described
from hpcflow.kernels.registry import KernelNode, kernel

_TYPES = {"T": ("float16", "float32", "float64")}
_MAX, _MEAN_INSIDE, _NAN = 0, 2, 1


class _Plan:
    """The descriptors of one pooling, and what computes it.

    The library's padding is the one before; windows may reach over the end, as far as the outputs
    ask for it.
    """

    def __init__(self, lib: Any, mode: int, dtype: np.dtype, x_dims: tuple,
                 over: Sequence[Span]) -> None:
        self.lib = lib
        space = over[:-1]
        self.x_dims, self.y_dims = x_dims, (x_dims[0], *(s.out for s in space), x_dims[-1])
        self.x, self.y = c.tensor(lib, x_dims, dtype), c.tensor(lib, self.y_dims, dtype)
        self.pooling = lib.create("Pooling", (
            "SetPoolingNdDescriptor", mode, _NAN, len(space), c.ints(s.window for s in space),
            c.ints(s.before for s in space), c.ints(s.stride for s in space)))
        self.one, self.zero = c.scales(dtype)

    @functools.cached_property
    def forward(self) -> Callable[..., None]:
        """(x, y): compute y."""
        return self.lib.prepare("PoolingForward", self.pooling, self.one, self.x, c.ARRAY,
                                self.zero, self.y, c.ARRAY)

    @functools.cached_property
    def backward(self) -> Callable[..., None]:
        """(y, dy, x, dx): compute dx."""
        return self.lib.prepare("PoolingBackward", self.pooling, self.one, self.y, c.ARRAY, self.y,
                                c.ARRAY, self.x, c.ARRAY, self.zero, self.x, c.ARRAY)


_plan = functools.lru_cache(maxsize=1024)(_Plan)


def _serves(dims: Sequence[int], over: Sequence[Span]) -> bool:
    """True if cuDNN computes the same: every window sees something."""
    return (not moves(over[-1]) and 0 not in dims
            and all(s.rate == 1 and 0 <= s.before < s.window and s.out > 0
                    and (s.out - 1) * s.stride - s.before < s.size for s in over[:-1]))


class _Shapes:
    """The plans of one op, by the shapes of its input that it has seen."""

    def __init__(self, node: KernelNode, lib: Any, mode: int) -> None:
        self._lib, self._mode, self._dtype = lib, mode, node.np_dtype()
        self._geometry, self.rank = plain._geometry(node), len(node.attr("ksize"))
        self._found: dict[tuple, _Plan | None] = {}

    def of(self, dims: tuple) -> _Plan | None:
        """The plan for an input; None for what is left to the plain kernel."""
        try:
            return self._found[dims]
        except KeyError:
            made = self._found[dims] = self._made(dims)
            return made

    def _made(self, dims: tuple) -> _Plan | None:
        if len(dims) != self.rank:
            return None  # the plain kernel says so
        over = self._geometry.of(dims)  # type: ignore[attr-defined]
        if not _serves(dims, over):
            return None
        try:
            return _plan(self._lib, self._mode, self._dtype, dims, over)
        except c.NoWayError:
            return None

    def attempted(self, dims: tuple, compute: Callable[[_Plan], Any],
                  simple: Callable[[], Any]) -> Any:
        """What the library computes of an input of `dims`; by the plain kernel where it does not
        take that."""
        plan = self.of(dims)
        if plan is not None:
            try:
                return compute(plan)
            except c.NoWayError:
                self._found[dims] = None
        return simple()


def _forward(mode: int, simple_of: Callable) -> Callable:
    def factory(node: KernelNode) -> Callable:
        simple, lib, xp = simple_of(node), c.serving(node.xp), node.xp
        if lib is None:
            return simple
        shapes = _Shapes(node, lib, mode)

        def run(x: Any) -> Any:
            def compute(plan: _Plan) -> Any:
                y = xp.empty(plan.y_dims, x.dtype)
                plan.forward(xp.ascontiguousarray(x), y)
                return y

            return shapes.attempted(x.shape, compute, lambda: simple(x))

        return run

    return factory


kernel("MaxPool", "MaxPool3D", device="GPU", types=_TYPES, fresh=True, priority=1)(
    _forward(_MAX, written.max_pool))
kernel("AvgPool", "AvgPool3D", device="GPU", types=_TYPES, fresh=True, priority=1)(
    _forward(_MEAN_INSIDE, written.avg_pool))


@kernel("MaxPoolGrad", device="GPU", types=_TYPES, fresh=True, priority=1)
@kernel("MaxPool3DGrad", device="GPU", types={**_TYPES, "TInput": _TYPES["T"]}, fresh=True,
        priority=1)
def max_pool_grad(node: KernelNode) -> Callable:
    """Each output's gradient at one of its window's largest elements."""
    simple, lib, xp = written.max_pool_grad(node), c.serving(node.xp), node.xp
    if lib is None:
        return simple
    shapes = _Shapes(node, lib, _MAX)

    def run(x: Any, y: Any, dy: Any) -> Any:
        def compute(plan: _Plan) -> Any:
            if not y.shape == dy.shape == plan.y_dims:
                return simple(x, y, dy)  # which says what is wrong
            dx = xp.empty(x.shape, x.dtype)
            plan.backward(*map(xp.ascontiguousarray, (y, dy, x)), dx)
            return dx

        return shapes.attempted(x.shape, compute, lambda: simple(x, y, dy))

    return run


@kernel("AvgPoolGrad", "AvgPool3DGrad", device="GPU", types=_TYPES, fresh=True, priority=1,
        host_inputs=(0,))
def avg_pool_grad(node: KernelNode) -> Callable:
    """Each output's gradient in equal parts over its window."""
    simple, lib, xp = written.avg_pool_grad(node), c.serving(node.xp), node.xp
    if lib is None:
        return simple
    shapes = _Shapes(node, lib, _MEAN_INSIDE)

    def run(sizes: Any, dy: Any) -> Any:
        def compute(plan: _Plan) -> Any:
            if dy.shape != plan.y_dims:
                return simple(sizes, dy)  # which says what is wrong
            dx = xp.empty(plan.x_dims, dy.dtype)
            grads = xp.ascontiguousarray(dy)
            plan.backward(grads, grads, dx, dx)  # the values do not matter for means
            return dx

        return shapes.attempted(described(sizes, "orig_input_shape", shapes.rank), compute,
                                lambda: simple(sizes, dy))

    return run
