"""Convolutions with bias and relu by cuDNN: in one pass over the result, where that is fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.common.windows import check_rank
from hpcflow.kernels.cudnn import convolution
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.cudnn.choosing import Choice, Way
from hpcflow.kernels.nn import device_fused as plain
from hpcflow.kernels.nn.fused import check_bias
from hpcflow.kernels.registry import KernelNode, kernel

Finish = Callable[[Any, Any], Any]


class _Then:
    """A way to convolve, and then a pass for bias and relu."""

    def __init__(self, way: Way, finish: Finish) -> None:
        self._way, self._finish = way, finish
        self.title, self.memory, self.extra = way.title, way.memory, way.extra

    def __call__(self, xp: Any, x: Any, w: Any, bias: Any) -> Any:
        return self._finish(self._way(xp, x, w), bias)


def choice_of(plan: convolution.Plan, finish: Finish, relu: bool) -> Choice:
    """By all ways to convolve, each with a pass of its own behind it or, if the library takes it
    so, without. The rule: those that are two passes first, which have the bits of the ops alone."""
    apart = plan.forward_ways()
    joined = [way for way in (plan.joined(w, relu) for w in apart) if way is not None]
    return plan.choice_of([*(_Then(way, finish) for way in apart), *joined])


class _Fused:
    """What computes an op, by the plans of the shapes that it has seen."""

    def __init__(self, node: KernelNode) -> None:
        self._finish = plain.finishing(node)
        self._relu = bool(node.attr("relu"))
        self._choices: dict[convolution.Plan, Choice] = {}

    def __call__(self, by: Any, images: Any, w: Any, bias: Any) -> Any:
        if not isinstance(by, convolution.Convolution):  # a product
            return self._finish(by.forward(images, w), bias)
        found = self._choices.get(by.plan)
        if found is None:
            found = self._choices[by.plan] = choice_of(by.plan, self._finish, self._relu)
        return found(by.xp, by.plan.images(by.xp, images), w, bias)


@kernel("_ConvBias", device="GPU", types=plain.TYPES, fresh=True, priority=1)
def conv_bias(node: KernelNode) -> Callable:
    """A convolution, plus a bias, without what is negative."""
    simple, lib = plain.conv_bias(node), c.serving(node.xp)
    if lib is None or node.attr("data_format") == b"NCHW":
        return simple
    shapes, fused = convolution.Shapes(node, lib), _Fused(node)

    def run(x: Any, w: Any, bias: Any) -> Any:
        check_rank("input", x, shapes.rank)
        check_bias(bias, w.shape[-1])
        found = shapes.of(x.shape, w.shape)
        return convolution.attempted(shapes, found, lambda by: fused(by, x, w, bias),
                                     lambda: simple(x, w, bias))

    return run
