"""Inception with batch normalization (Ioffe and Szegedy, 2015, arXiv:1502.03167)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.framework import arg_scope
from hpcflow.contrib.layers import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dropout,
    max_pool2d,
    separable_conv2d,
    softmax,
)
from hpcflow.contrib.slim.nets.classifiers import sized, trunc_normal
from hpcflow.contrib.slim.nets.inception_blocks import (
    EndPoints,
    Style,
    Table,
    depth_of,
    layer_scope,
    logits_of,
    run,
    window_within,
)
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.variable_scope import VariableScope, variable_scope

_FIRST = "Conv2d_1a_7x7"


def _mixed(alone: int, three: tuple[int, int], twice: tuple[int, int], pooled: int,
           pool: str = "avg") -> tuple[str, ...]:
    return (f"{alone}:1x1", f"{three[0]}:1x1 {three[1]}:3x3",
            f"{twice[0]}:1x1 {twice[1]}:3x3 {twice[1]}:3x3", f"{pool}:3x3 {pooled}:1x1")


def _reduced(three: tuple[int, int], twice: tuple[int, int]) -> tuple[str, ...]:
    return (f"{three[0]}:1x1 {three[1]}:3x3/2", f"{twice[0]}:1x1 {twice[1]}:3x3 {twice[1]}:3x3/2",
            "max:3x3/2")


_TABLE: Table = {
    "MaxPool_2a_3x3": "max:3x3/2",
    "Conv2d_2b_1x1": "64:1x1",
    "Conv2d_2c_3x3": "192:3x3",
    "MaxPool_3a_3x3": "max:3x3/2",
    "Mixed_3b": _mixed(64, (64, 64), (64, 96), 32),
    "Mixed_3c": _mixed(64, (64, 96), (64, 96), 64),
    "Mixed_4a": _reduced((128, 160), (64, 96)),
    "Mixed_4b": _mixed(224, (64, 96), (96, 128), 128),
    "Mixed_4c": _mixed(192, (96, 128), (96, 128), 128),
    "Mixed_4d": _mixed(160, (128, 160), (128, 160), 96),
    "Mixed_4e": _mixed(96, (128, 192), (160, 192), 96),
    "Mixed_5a": _reduced((128, 192), (192, 256)),
    "Mixed_5b": _mixed(352, (192, 320), (160, 224), 128),
    "Mixed_5c": _mixed(352, (192, 320), (192, 224), 128, "max"),
}


def inception_v2_base(inputs: Tensor, final_endpoint: str = "Mixed_5c", min_depth: int = 16,
                      depth_multiplier: float = 1.0,
                      scope: str | VariableScope | None = None) -> tuple[Tensor, EndPoints]:
    """Return the layer `final_endpoint`, and all up to it by name, for images.

    `depth_multiplier` scales the channels of all layers, of which `min_depth` remain at least.
    Raises ``ValueError`` for an unknown end point or a multiplier that is not positive.
    """
    depth = depth_of(depth_multiplier, min_depth)
    with variable_scope(scope, "InceptionV2", [inputs]), \
            arg_scope([conv2d, max_pool2d, avg_pool2d, separable_conv2d], stride=1,
                      padding="SAME"):
        net = separable_conv2d(inputs, depth(64), [7, 7], min(int(depth(64) / 3), 8), stride=2,
                               weights_initializer=trunc_normal(1.0), scope=_FIRST)
        if final_endpoint == _FIRST:
            return net, {_FIRST: net}
        style = Style(depth, {}, 0.09, 0.1)
        last, end_points = run(_TABLE, net, final_endpoint, style)
        return last, {_FIRST: net, **end_points}


@sized(224)
def inception_v2(inputs: Tensor, num_classes: int = 1000, is_training: bool = True,
                 dropout_keep_prob: float = 0.8, min_depth: int = 16,
                 depth_multiplier: float = 1.0, prediction_fn: Callable = softmax,
                 spatial_squeeze: bool = True, reuse: bool | None = None,
                 scope: str | None = "InceptionV2") -> tuple[Tensor, EndPoints]:
    """Return logits, and the layers by name, for images ``[batch, 224, 224, channels]``.

    Arguments as of ``inception_v1`` and ``inception_v2_base``.
    """
    with variable_scope(scope, "InceptionV2", [inputs], reuse=reuse) as opened, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        net, end_points = inception_v2_base(inputs, min_depth=min_depth, scope=opened,
                                            depth_multiplier=depth_multiplier)
        with variable_scope("Logits"):
            window = window_within(net, 7)
            logits = logits_of(net, "AvgPool_1a_{}x{}".format(*window), window, num_classes,
                               dropout_keep_prob, ("Dropout_1b", "Conv2d_1c_1x1"),
                               spatial_squeeze)
        end_points["Logits"] = logits
        end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


def inception_v2_arg_scope(weight_decay: float = 0.00004,
                           batch_norm_var_collection: str = "moving_vars") -> Any:
    """Return the arguments that the network's layers are to have."""
    return layer_scope(weight_decay, True, batch_norm_var_collection)
