"""The loss of connectionist temporal classification on a device: see `hpcflow.kernels.nn.ctc`.

The labels are checked and spread out on the host, which they usually come from. One launch computes
a step in time of all probabilities, of the beginnings forward and of the ends backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.device_windows import programs_of, runs
from hpcflow.kernels.nn import ctc
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops import cuda_code
from hpcflow.loops.elements import ElementKernel

_FUNCTIONS = """
static __device__ __forceinline__ double sum_of(double a, double b, double c) {
  const double top = fmax(a, fmax(b, c)), safe = top == NONE ? 0.0 : top;
  return safe + log(exp(a - safe) + exp(b - safe) + exp(c - safe));
}
static __device__ __forceinline__ bool skips(const int* symbols, position s, int blank, int merge) {
  return s > 1 && symbols[s] != blank && !(merge && symbols[s] == symbols[s - 2]);
}
""".replace("NONE", f"({cuda_code.literal(-np.inf, 'float64')})")

_TABLES = ("const double* log_y", "const int* symbols", "const int* ends", "const int* lengths")
_DIMS = ("position steps", "position batch", "position width", "position classes")

_STEP = """
const position size = batch * width, b = i % size / width, s = i % width;
const int* own = symbols + b * width;
const int blank = (int)classes - 1;
const bool stays = merge || own[s] == blank;
if (i < size) {
  const double* last = alpha + (t - 1) * size + b * width;
  double found = t || s > 1 ? NONE : 0.0;
  if (t) found = sum_of(stays ? last[s] : NONE, s ? last[s - 1] : NONE,
                        skips(own, s, blank, (int)merge) ? last[s - 2] : NONE);
  alpha[t * size + b * width + s] = found + log_y[(t * batch + b) * classes + own[s]];
} else {
  const position now = steps - 1 - t;
  double found = NONE;
  if (lengths[b] == now + 1) {
    found = s == ends[b] || s == ends[b] - 1 ? 0.0 : NONE;
  } else if (t) {
    const double* last = beta + (now + 1) * size + b * width;
    const double* y = log_y + ((now + 1) * batch + b) * classes;
    found = sum_of(stays ? last[s] + y[own[s]] : NONE,
                   s + 1 < width ? last[s + 1] + y[own[s + 1]] : NONE,
                   s + 2 < width && skips(own, s + 2, blank, (int)merge)
                       ? last[s + 2] + y[own[s + 2]] : NONE);
  }
  beta[now * size + b * width + s] = found;
}""".replace("NONE", f"({cuda_code.literal(-np.inf, 'float64')})")

_LOSS = """
const double* last = alpha + (((lengths[i] + steps - 1) % steps) * batch + i) * width;
const double none = NONE;
log_p[i] = sum_of(last[ends[i]], ends[i] ? last[ends[i] - 1] : none, none);
""".replace("NONE", cuda_code.literal(-np.inf, "float64"))

_GRADIENT = """
const position b = i % batch, t = i / batch;
double* row = grad + i * classes;
const bool is_over = t >= lengths[b];
const double* y = log_y + i * classes;
for (position c = 0; c < classes; c++) row[c] = is_over ? 0.0 : exp(y[c]);
const double whole = log_p[b] == NONE ? 0.0 : log_p[b];
for (position s = 0; s < width && !is_over; s++)
  row[symbols[b * width + s]] -= exp(alpha[i * width + s] + beta[i * width + s] - whole);
""".replace("NONE", f"({cuda_code.literal(-np.inf, 'float64')})")

KERNELS = {
    "step": ElementKernel((*_TABLES, "double* alpha", "double* beta", *_DIMS, "position merge",
                           "position t"), _STEP, _FUNCTIONS),
    "loss": ElementKernel(("const double* alpha", *_TABLES[2:], "double* log_p", *_DIMS[:3]),
                          _LOSS, _FUNCTIONS),
    "gradient": ElementKernel((*_TABLES, "const double* alpha", "const double* beta",
                               "const double* log_p", "double* grad", *_DIMS), _GRADIENT),
}


class _Paths(ctc.Labels):
    """All ways in which the labels can be spread over time, for a batch of examples."""

    def __init__(self, node: KernelNode, run: Callable[..., Any], inputs: Any, labels: Any,
                 counts: Any, lengths: Any, merge: bool) -> None:
        super().__init__(labels, counts, inputs.shape[2])
        self._xp, send = node.xp, node.device.to_device
        self._run, self._inputs, self._merge = run, inputs, int(merge)
        self._symbols, self._ends, self._lengths = (
            send(v.astype(np.int32)) for v in (self.symbols, self.ends, lengths))

    def loss_and_gradient(self) -> tuple:
        """As on the CPU."""
        xp, (steps, batch, classes) = self._xp, self._inputs.shape
        width = self.symbols.shape[1]
        log_y = xp.ascontiguousarray(ctc.log_softmax(xp, self._inputs))
        tables = log_y, self._symbols, self._ends, self._lengths
        alpha, beta = (xp.empty((steps, batch, width), np.float64) for _ in range(2))
        for t in range(steps):
            self._run("step")(2 * batch * width, *tables, alpha, beta, steps, batch, width,
                              classes, self._merge, t)
        log_p, grad = xp.empty(batch, np.float64), xp.empty(log_y.shape, np.float64)
        self._run("loss")(batch, alpha, *tables[2:], log_p, steps, batch, width)
        self._run("gradient")(steps * batch, *tables, alpha, beta, log_p, grad, steps, batch,
                              width, classes)
        return -log_p, grad


def _paths(node: KernelNode) -> Callable[..., _Paths]:
    programs = programs_of(node.device)
    assert programs is not None, "GPUs run kernels that are written out"
    return functools.partial(_Paths, node, runs(programs, KERNELS.__getitem__))


@kernel("CTCLoss", device="GPU", fresh=True, host_inputs=(1, 2, 3))
def loss(node: KernelNode) -> Callable:
    """The last class is the blank; every example has labels."""
    return ctc.loss_of(node, False, _paths(node))


@kernel("CTCLossV2", device="GPU", fresh=True, host_inputs=(1, 2, 3))
def loss_v2(node: KernelNode) -> Callable:
    """The first class is the blank; examples may have no labels, or more than there is time for."""
    return ctc.loss_v2_of(node, _paths(node))
