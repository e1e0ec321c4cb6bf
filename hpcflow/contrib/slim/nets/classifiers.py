"""What AlexNet, OverFeat and VGG have in common: convolutions for fully connected layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hpcflow.contrib.framework import arg_scope
from hpcflow.contrib.layers import conv2d, dropout, fully_connected, l2_regularizer, max_pool2d
from hpcflow.contrib.layers.building import convert_collection_to_dict
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu
from hpcflow.ops.arrays.shape_ops import squeeze
from hpcflow.ops.state.initializers import TruncatedNormal
from hpcflow.ops.state.variable_scope import variable_scope


class Head(NamedTuple):
    """The last three layers: `sizes` of the first two, of which the first has a square `window`,
    then one number for each class.

    `dense` are arguments for all three, `last` more for the last one.
    """

    sizes: tuple[int, int]
    window: int
    dense: dict[str, Any] = {}  # noqa: RUF012 - never changed
    last: dict[str, Any] = {}  # noqa: RUF012


def trunc_normal(stddev: float) -> TruncatedNormal:
    """Return an initializer of normal numbers within two deviations."""
    return TruncatedNormal(0.0, stddev)


def weight_scope(weight_decay: float, biases: Any) -> Any:
    """Return the arguments of convolutional and dense layers: ReLU, an L2 loss, `biases`."""
    return arg_scope([conv2d, fully_connected], activation_fn=relu, biases_initializer=biases,
                     weights_regularizer=l2_regularizer(weight_decay))


@contextmanager
def collecting(scope: str | None, default: str, inputs: Tensor) -> Iterator[tuple[Any, str]]:
    """Open the variable scope of a network whose layers are collected; gives it and the name of
    the collection."""
    with variable_scope(scope, default, [inputs]) as opened:
        collection = opened.original_name_scope + "_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=[collection]):
            yield opened, collection


def classified(net: Tensor, head: Head, num_classes: int, is_training: bool,
               dropout_keep_prob: float, spatial_squeeze: bool, opened: Any, collection: str,
               ) -> tuple[Tensor, dict[str, Tensor]]:
    """Add the last layers, ``fc6`` to ``fc8``. Returns the logits and all layers by their names."""
    first, second = head.sizes
    with arg_scope([conv2d], **head.dense):
        net = conv2d(net, first, [head.window] * 2, padding="VALID", scope="fc6")
        net = dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout6")
        net = conv2d(net, second, [1, 1], scope="fc7")
        net = dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout7")
        net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                     scope="fc8", **head.last)
    end_points = convert_collection_to_dict(collection)
    if spatial_squeeze:
        net = squeeze(net, [1, 2], name="fc8/squeezed")
        end_points[f"{opened.name}/fc8"] = net
    return net, end_points


def sized(size: int) -> Callable[[Any], Any]:
    """A decorator that notes the side of the images that a network is for."""
    def mark(network: Any) -> Any:
        network.default_image_size = size
        return network
    return mark
