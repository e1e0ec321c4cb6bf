"""VGG with 11, 16 and 19 layers (Simonyan and Zisserman, 2014, arXiv:1409.1556)."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.framework import arg_scope
from hpcflow.contrib.layers import conv2d, max_pool2d, repeat
from hpcflow.contrib.slim.nets.classifiers import Head, classified, collecting, sized, weight_scope
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.initializers import Zeros

_HEAD = Head((4096, 4096), 7)


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Return the arguments that the network's layers are to have."""
    with weight_scope(weight_decay, Zeros()), arg_scope([conv2d], padding="SAME") as scope:
        return scope


def _network(name: str, counts: tuple[int, ...]) -> Any:
    """The network with `counts` convolutions in each of five groups."""
    def network(inputs: Tensor, num_classes: int = 1000, is_training: bool = True,
                dropout_keep_prob: float = 0.5, spatial_squeeze: bool = True,
                scope: str | None = name) -> tuple[Tensor, dict[str, Tensor]]:
        """Return logits, and the layers by name, for images ``[batch, 224, 224, channels]``.

        Arguments as of ``alexnet_v2``.
        """
        with collecting(scope, name, inputs) as (opened, collection):
            net = inputs
            for number, (count, size) in enumerate(zip(counts, (64, 128, 256, 512, 512),
                                                       strict=True), 1):
                net = repeat(net, count, conv2d, size, [3, 3], scope=f"conv{number}")
                net = max_pool2d(net, [2, 2], scope=f"pool{number}")
            return classified(net, _HEAD, num_classes, is_training, dropout_keep_prob,
                              spatial_squeeze, opened, collection)

    network.__name__ = network.__qualname__ = name
    return sized(224)(network)


vgg_a = _network("vgg_a", (1, 1, 2, 2, 2))
vgg_16 = vgg_d = _network("vgg_16", (2, 2, 3, 3, 3))
vgg_19 = vgg_e = _network("vgg_19", (2, 2, 4, 4, 4))
