"""OverFeat (Sermanet et al., 2013, arXiv:1312.6229), its fast form."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.framework import arg_scope
from hpcflow.contrib.layers import conv2d, max_pool2d
from hpcflow.contrib.slim.nets.classifiers import (
    Head,
    classified,
    collecting,
    sized,
    trunc_normal,
    weight_scope,
)
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.initializers import Constant, Zeros

_HEAD = Head((3072, 4096), 6, {"weights_initializer": trunc_normal(0.005),
                               "biases_initializer": Constant(0.1)},
             {"biases_initializer": Zeros()})


def overfeat_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Return the arguments that the network's layers are to have."""
    with weight_scope(weight_decay, Zeros()), arg_scope([conv2d], padding="SAME"), \
            arg_scope([max_pool2d], padding="VALID") as scope:
        return scope


@sized(231)
def overfeat(inputs: Tensor, num_classes: int = 1000, is_training: bool = True,
             dropout_keep_prob: float = 0.5, spatial_squeeze: bool = True,
             scope: str | None = "overfeat") -> tuple[Tensor, dict[str, Tensor]]:
    """Return logits, and the layers by name, for images ``[batch, 231, 231, channels]``.

    Arguments as of ``alexnet_v2``.
    """
    with collecting(scope, "overfeat", inputs) as (opened, collection):
        net = conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
        net = max_pool2d(net, [2, 2], scope="pool1")
        net = conv2d(net, 256, [5, 5], padding="VALID", scope="conv2")
        net = max_pool2d(net, [2, 2], scope="pool2")
        for number, size in ((3, 512), (4, 1024), (5, 1024)):
            net = conv2d(net, size, [3, 3], scope=f"conv{number}")
        net = max_pool2d(net, [2, 2], scope="pool5")
        return classified(net, _HEAD, num_classes, is_training, dropout_keep_prob,
                          spatial_squeeze, opened, collection)
