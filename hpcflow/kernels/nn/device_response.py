"""Local response normalization on a device, one launch each way.

A thread computes some channels of a place one after the other, so that each number that they need
is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common import device_windows as w
from hpcflow.kernels.common.windows import check_rank, in_float32
from hpcflow.kernels.nn import response as plain
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import cuda_code
from hpcflow.loops.elements import ElementKernel

_EACH = 8  # channels of a thread
_PARAMETERS = ("position channels", "position parts")
# A thread's place in the image, and its channels: from `start` to before `end`.
_START = f"""
const position row = i / parts * channels, start = i % parts * {_EACH};
const position end = min(start + {_EACH}, channels);"""


class _Numbers:
    """The attributes of an op as C++."""

    def __init__(self, node: KernelNode) -> None:
        self.radius = int(node.attr("depth_radius"))
        self.beta = float(node.attr("beta"))
        alpha, bias = np.float32(node.attr("alpha")), np.float32(node.attr("bias"))
        self.factor = _literal(np.float32(2 * alpha * self.beta))
        self.alpha, self.bias = _literal(alpha), _literal(bias)

    def power(self, norm: str) -> str:
        """One over a power of the norm; the usual ones by square roots."""
        if self.beta == 0.5:
            return f"1.0f / sqrtf({norm})"
        if self.beta == 0.75:
            return f"1.0f / (sqrtf({norm}) * sqrtf(sqrtf({norm})))"
        return f"powf({norm}, {_literal(np.float32(-self.beta))})"

    def norms(self, reach: int) -> str:
        """Statements that make ``norm``, from the channel `reach` before ``start`` on, of
        ``squares`` around."""
        count, window = _EACH + 2 * reach, 2 * self.radius + 1
        width = count + 2 * self.radius
        return f"""
float squares[{width}], norm[{count}];
for (int k = 0; k < {width}; k++) {{
  const position c = start + k - {reach + self.radius};
  const float v = c >= 0 && c < channels ? x[row + c] : 0.0f;
  squares[k] = v * v;
}}
for (int k = 0; k < {count}; k++) {{
  float total = 0.0f;
  for (int j = 0; j < {window}; j++) total += squares[k + j];
  norm[k] = total * {self.alpha} + {self.bias};
}}"""


def _literal(number: np.float32) -> str:
    return cuda_code.literal(float(number), "float32")


def _forward(numbers: _Numbers) -> ElementKernel:
    """(x, y, channels, parts)."""
    body = f"""{_START}
{numbers.norms(0)}
for (position c = start; c < end; c++) {{
  const float n = norm[c - start];
  y[row + c] = x[row + c] * ({numbers.power("n")});
}}"""
    return ElementKernel(("const float* x", "float* y", *_PARAMETERS), body)


def _gradient(numbers: _Numbers) -> ElementKernel:
    """(dy, x, y, dx, channels, parts)."""
    radius, count = numbers.radius, _EACH + 2 * numbers.radius
    body = f"""{_START}
{numbers.norms(radius)}
float parts_of[{count}];
for (int k = 0; k < {count}; k++) {{
  const position c = start + k - {radius};
  parts_of[k] = c >= 0 && c < channels ? dy[row + c] * y[row + c] / norm[k] : 0.0f;
}}
for (position c = start; c < end; c++) {{
  const int k = (int)(c - start);
  float around = 0.0f;
  for (int j = 0; j < {2 * radius + 1}; j++) around += parts_of[k + j];
  const float n = norm[k + {radius}];
  dx[row + c] = dy[row + c] * ({numbers.power("n")}) - around * x[row + c] * {numbers.factor};
}}"""
    return ElementKernel(("const float* dy", "const float* x", "const float* y", "float* dx",
                          *_PARAMETERS), body)


def _factory(make: Callable[[_Numbers], ElementKernel], plain_of: Callable,
             check: Callable[..., None]) -> Callable:
    def factory(node: KernelNode) -> Callable:
        programs, xp = w.programs_of(node.device), node.xp
        if programs is None:
            return plain_of(node)
        run = programs.elements(make(_Numbers(node)))

        def compute(*images: Any) -> Any:
            check(*images)
            x = images[0]
            made, channels = xp.empty(x.shape, np.float32), x.shape[-1]
            if made.size:
                parts = -(-channels // _EACH)
                run(made.size // channels * parts, *map(programs.dense, images), made, channels,
                    parts)
            return made

        return in_float32(node, compute)

    return factory


def _check_input(x: Any) -> None:
    check_rank("input", x, 4)


def _check_gradient(dy: Any, x: Any, y: Any) -> None:
    check_rank("input_image", x, 4)
    if not dy.shape == x.shape == y.shape:
        raise invalid(f"input_grads {shown(dy)}, input_image {shown(x)} and "
                      f"output_image {shown(y)} must have one shape")


_TYPES = {"T": ("float16", "float32")}
lrn = kernel("LRN", device="GPU", types=_TYPES, fresh=True)(
    _factory(_forward, plain.lrn, _check_input))
lrn_grad = kernel("LRNGrad", device="GPU", types=_TYPES, fresh=True)(
    _factory(_gradient, plain.lrn_grad, _check_gradient))
