"""Checks of input shapes that are only known when a kernel runs.

Shape functions check all that is known when the graph is built. A kernel that would take other
shapes as well, and compute something of them, is listed here: what was not known is checked when it
runs. Where everything was known there is no check, and no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import SYNC, Kernel, KernelNode, invalid, shown

# Ranks of the first inputs; None where any will do.
_RANKS: dict[str, tuple[int | None, ...]] = {
    "Assert": (0,),
    "AvgPool3DGrad": (1,),
    "AvgPoolGrad": (1,),
    "BatchToSpace": (4, 2),
    "BroadcastArgs": (1, 1),
    "BroadcastGradientArgs": (1, 1),
    "Conv2DBackpropFilter": (None, 1),
    "Conv2DBackpropInput": (1,),
    "Conv3DBackpropFilterV2": (None, 1),
    "Conv3DBackpropInputV2": (1,),
    "CTCBeamSearchDecoder": (3, 1),
    "CTCGreedyDecoder": (3, 1),
    "DepthwiseConv2dNativeBackpropFilter": (None, 1),
    "DepthwiseConv2dNativeBackpropInput": (1,),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
                    (None, 1, 1, 1, 1)),
    "InTopKV2": (2, 1, 0),
    "LinSpace": (0, 0, 0),
    **dict.fromkeys(("MatrixDiagV2", "MatrixDiagV3"), (None, None, 0, 0, 0)),
    "OneHot": (None, 0, 0, 0),
    "PadV2": (None, 2, 0),
    "RandomUniform": (1,),
    "RegexFullMatch": (None, 0),
    "RegexReplace": (None, 0, 0),
    "Reverse": (None, 1),
    "SetSize": (2, 1, 1),
    "ShardedFilename": (0, 0, 0),
    "ShardedFilespec": (0, 0),
    "Slice": (None, 1, 1),
    "SpaceToBatch": (4, 2),
    "SparseSplit": (0, 2, 1, 1),
    "Split": (0,),
    "StridedSlice": (None, 1, 1, 1),
    "StridedSliceGrad": (1, 1, 1, 1),
    "Tile": (None, 1),
    "Transpose": (None, 1),
}

# Pairs of inputs of one shape.
_SAME: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("EluGrad", "InvGrad", "LeakyReluGrad", "ReciprocalGrad", "Relu6Grad",
                     "ReluGrad", "RsqrtGrad", "SeluGrad", "SigmoidGrad", "SoftplusGrad",
                     "SoftsignGrad", "SqrtGrad", "TanhGrad"), (0, 1)),
}


def checked(node: KernelNode, kernel: Kernel, function: Callable) -> Callable:
    """Wrap `function` with a check of the shapes that are not known statically."""
    if kernel.mode != SYNC:
        return function
    ranks = [(i, rank) for i, rank in enumerate(_RANKS.get(node.op_type, ()))
             if rank is not None and node.input_dims[i] is None]
    pair = _SAME.get(node.op_type)
    if pair is not None and all(node.static_dims(i) is not None for i in pair):
        pair = None
    if ranks:
        return _with_ranks(function, ranks, _WORDS.get(node.op_type, ""))
    return _with_pair(function, *pair) if pair is not None else function


# What 1.15 says of other ranks.
_WORDS = {
    "Slice": "Expected begin and size arguments to be 1-D tensors: ",
    "Tile": "Expected multiples to be 1-D: ",
    **dict.fromkeys(("RandomStandardNormal", "RandomUniform", "RandomUniformInt",
                     "TruncatedNormal"), "shape must be a vector: "),
}  # fmt: skip


def _with_ranks(function: Callable, ranks: list[tuple[int, int]], words: str) -> Callable:
    def run(*inputs: Any, **options: Any) -> Any:
        for i, rank in ranks:
            if np.ndim(inputs[i]) != rank:
                wanted = "a scalar" if rank == 0 else "a vector" if rank == 1 else f"rank {rank}"
                raise invalid(f"{words}input {i} must be {wanted}, but has shape "
                              f"{list(np.shape(inputs[i]))}")
        return function(*inputs, **options)

    return run


def _with_pair(function: Callable, first: int, second: int) -> Callable:
    def run(*inputs: Any, **options: Any) -> Any:
        if inputs[first].shape != inputs[second].shape:
            raise invalid(f"inputs {first} and {second} must have the same shape, got "
                          f"{shown(inputs[first])} and {shown(inputs[second])}")
        return function(*inputs, **options)

    return run
