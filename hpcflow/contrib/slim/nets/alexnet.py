"""AlexNet in one column (Krizhevsky, 2014, arXiv:1404.5997)."""

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

_HEAD = Head((4096, 4096), 5, {"weights_initializer": trunc_normal(0.005),
                               "biases_initializer": Constant(0.1)},
             {"biases_initializer": Zeros()})


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Return the arguments that the network's layers are to have."""
    with weight_scope(weight_decay, Constant(0.1)), arg_scope([conv2d], padding="SAME"), \
            arg_scope([max_pool2d], padding="VALID") as scope:
        return scope


@sized(224)
def alexnet_v2(inputs: Tensor, num_classes: int = 1000, is_training: bool = True,
               dropout_keep_prob: float = 0.5, spatial_squeeze: bool = True,
               scope: str | None = "alexnet_v2") -> tuple[Tensor, dict[str, Tensor]]:
    """Return logits, and the layers by name, for images ``[batch, 224, 224, channels]``.

    Args:
        inputs: the images; larger ones give a map of logits.
        num_classes: the number of classes.
        is_training: whether layers are dropped.
        dropout_keep_prob: probability of keeping a number.
        spatial_squeeze: logits are ``[batch, classes]``; else ``[batch, 1, 1, classes]``.
        scope: the variable scope.
    """
    with collecting(scope, "alexnet_v2", inputs) as (opened, collection):
        net = conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
        net = max_pool2d(net, [3, 3], 2, scope="pool1")
        net = conv2d(net, 192, [5, 5], scope="conv2")
        net = max_pool2d(net, [3, 3], 2, scope="pool2")
        for number, size in ((3, 384), (4, 384), (5, 256)):
            net = conv2d(net, size, [3, 3], scope=f"conv{number}")
        net = max_pool2d(net, [3, 3], 2, scope="pool5")
        return classified(net, _HEAD, num_classes, is_training, dropout_keep_prob,
                          spatial_squeeze, opened, collection)
