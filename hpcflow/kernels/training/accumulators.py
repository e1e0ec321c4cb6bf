"""Kernels of accumulators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.io.queues import waiting
from hpcflow.kernels.registry import ASYNC, RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.accumulators import Accumulator, DenseAccumulator, SparseAccumulator


@kernel("ConditionalAccumulator", "ResourceConditionalAccumulator", device="CPU", mode=RESOURCE)
def _dense(node: KernelNode) -> Accumulator:
    return _accumulator(node, DenseAccumulator)


@kernel("SparseConditionalAccumulator", device="CPU", mode=RESOURCE)
def _sparse(node: KernelNode) -> Accumulator:
    return _accumulator(node, SparseAccumulator)


def _accumulator(node: KernelNode, kind: type[Accumulator]) -> Accumulator:
    averages = node.attr("reduction_type", b"MEAN") == b"MEAN"
    return shared(node, "accumulator", lambda name: kind(
        name, node.attr("dtype"), node.attr("shape"), averages))


def _check_type(accumulator: Accumulator, dtype: DType) -> None:
    if accumulator.dtype is not dtype and accumulator.dtype != dtype:
        raise invalid(f"{accumulator.kind} '{accumulator.name}' has type "
                      f"{accumulator.dtype.name}, the op {dtype.name}")


@kernel("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient", device="CPU")
def _apply(node: KernelNode) -> Callable:
    dtype = node.attr("dtype")

    def run(accumulator: Accumulator, local_step: Any, gradient: Any) -> None:
        _check_type(accumulator, dtype)
        accumulator.apply(int(local_step), (gradient,))

    return run


@kernel("SparseAccumulatorApplyGradient", device="CPU")
def _apply_sparse(node: KernelNode) -> Callable:
    dtype, has_shape = node.attr("dtype"), node.attr("has_known_shape")

    def run(accumulator: Accumulator, local_step: Any, indices: Any, values: Any,
            shape: Any) -> None:
        _check_type(accumulator, dtype)
        accumulator.apply(int(local_step), (indices, values, shape if has_shape else ()))

    return run


@kernel("AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient",
        "SparseAccumulatorTakeGradient", device="CPU", mode=ASYNC)
def _take(node: KernelNode) -> Callable:
    dtype = node.attr("dtype")

    def begin(done: Callable, accumulator: Accumulator, num_required: Any) -> tuple:
        _check_type(accumulator, dtype)
        return accumulator, accumulator.take(int(num_required), done)

    return waiting(begin)


@kernel("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated", device="CPU")
def _count(node: KernelNode) -> Callable:
    return lambda accumulator: np.int32(accumulator.num_accumulated())


@kernel("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", device="CPU")
def _set_step(node: KernelNode) -> Callable:
    return lambda accumulator, step: accumulator.set_global_step(int(step))
