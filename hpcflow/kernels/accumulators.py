"""Kernels of accumulators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.queues import waiting
from hpcflow.kernels.registry import ASYNC, RESOURCE, KernelNode, invalid, kernel
from hpcflow.kernels.shared import shared
from hpcflow.resources.accumulators import Accumulator, DenseAccumulator, SparseAccumulator


@kernel("ConditionalAccumulator", device="CPU", mode=RESOURCE)
def _dense(node: KernelNode) -> Accumulator:
    return _accumulator(node, DenseAccumulator)


@kernel("SparseConditionalAccumulator", device="CPU", mode=RESOURCE)
def _sparse(node: KernelNode) -> Accumulator:
    return _accumulator(node, SparseAccumulator)


def _accumulator(node: KernelNode, kind: type[Accumulator]) -> Accumulator:
    averages = node.attr("reduction_type", b"MEAN") == b"MEAN"
    return shared(node, "accumulator", lambda name: kind(
        name, node.attr("dtype"), node.attr("shape"), averages))


def _check_type(accumulator: Accumulator, node: KernelNode) -> None:
    if accumulator.dtype != node.attr("dtype"):
        raise invalid(f"{accumulator.kind} '{accumulator.name}' has type "
                      f"{accumulator.dtype.name}, the op {node.attr('dtype').name}")


@kernel("AccumulatorApplyGradient", device="CPU")
def _apply(node: KernelNode) -> Callable:
    def run(accumulator: Accumulator, local_step: Any, gradient: Any) -> None:
        _check_type(accumulator, node)
        accumulator.apply(int(local_step), (gradient,))

    return run


@kernel("SparseAccumulatorApplyGradient", device="CPU")
def _apply_sparse(node: KernelNode) -> Callable:
    has_shape = node.attr("has_known_shape")

    def run(accumulator: Accumulator, local_step: Any, indices: Any, values: Any,
            shape: Any) -> None:
        _check_type(accumulator, node)
        accumulator.apply(int(local_step), (indices, values, shape if has_shape else ()))

    return run


@kernel("AccumulatorTakeGradient", "SparseAccumulatorTakeGradient", device="CPU", mode=ASYNC)
def _take(node: KernelNode) -> Callable:
    def begin(done: Callable, accumulator: Accumulator, num_required: Any) -> tuple:
        _check_type(accumulator, node)
        return accumulator, accumulator.take(int(num_required), done)

    return waiting(begin)


@kernel("AccumulatorNumAccumulated", device="CPU")
def _count(node: KernelNode) -> Callable:
    return lambda accumulator: np.int32(accumulator.num_accumulated())


@kernel("AccumulatorSetGlobalStep", device="CPU")
def _set_step(node: KernelNode) -> Callable:
    return lambda accumulator, step: accumulator.set_global_step(int(step))
