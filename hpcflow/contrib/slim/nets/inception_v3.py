"""Inception-v3 (Szegedy et al., 2015, arXiv:1512.00567)."""

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
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.shape_ops import squeeze
from hpcflow.ops.state.variable_scope import VariableScope, variable_scope


def _fives(pooled: int, five: str = "48:1x1 64:5x5") -> tuple[str, ...]:
    return ("64:1x1", five, "64:1x1 96:3x3 96:3x3", f"avg:3x3 {pooled}:1x1")


def _sevens(size: int) -> tuple[str, ...]:
    return ("192:1x1", f"{size}:1x1 {size}:1x7 192:7x1",
            f"{size}:1x1 {size}:7x1 {size}:1x7 {size}:7x1 192:1x7", "avg:3x3 192:1x1")


def _wide(name: str = "") -> tuple[str, ...]:
    return ("320:1x1", f"384:1x1 384:1x3+384:3x1{name}", "448:1x1 384:3x3 384:1x3+384:3x1",
            "avg:3x3 192:1x1")


_STEM: Table = {
    "Conv2d_1a_3x3": "32:3x3/2",
    "Conv2d_2a_3x3": "32:3x3",
    "Conv2d_2b_3x3": "64:3x3",
    "MaxPool_3a_3x3": "max:3x3/2",
    "Conv2d_3b_1x1": "80:1x1",
    "Conv2d_4a_3x3": "192:3x3",
    "MaxPool_5a_3x3": "max:3x3/2",
}
_TABLE: Table = {
    "Mixed_5b": _fives(32),
    "Mixed_5c": _fives(64, "48:1x1@Conv2d_0b_1x1 64:5x5@Conv_1_0c_5x5"),
    "Mixed_5d": _fives(64),
    "Mixed_6a": ("384:3x3/2@Conv2d_1a_1x1", "64:1x1 96:3x3 96:3x3/2@Conv2d_1a_1x1", "max:3x3/2"),
    "Mixed_6b": _sevens(128),
    "Mixed_6c": _sevens(160),
    "Mixed_6d": _sevens(160),
    "Mixed_6e": _sevens(192),
    "Mixed_7a": ("192:1x1 320:3x3/2", "192:1x1 192:1x7 192:7x1 192:3x3/2", "max:3x3/2"),
    "Mixed_7b": _wide("@Conv2d_0b_3x1"),
    "Mixed_7c": _wide(),
}
_LAYERS = [conv2d, max_pool2d, avg_pool2d]


def inception_v3_base(inputs: Tensor, final_endpoint: str = "Mixed_7c", min_depth: int = 16,
                      depth_multiplier: float = 1.0,
                      scope: str | VariableScope | None = None) -> tuple[Tensor, EndPoints]:
    """Return the layer `final_endpoint`, and all up to it by name; see ``inception_v2_base``."""
    style = Style(depth_of(depth_multiplier, min_depth), {"padding": "VALID"})
    with variable_scope(scope, "InceptionV3", [inputs]):
        net, end_points = _stem(inputs, final_endpoint, style)
        if final_endpoint in _STEM:
            return net, end_points
        with arg_scope(_LAYERS, stride=1, padding="SAME"):
            net, more = run(_TABLE, net, final_endpoint, style)
        return net, {**end_points, **more}


def _stem(net: Tensor, final_endpoint: str, style: Style) -> tuple[Tensor, EndPoints]:
    """The layers in a row, without padding but for one."""
    end_points: EndPoints = {}
    for name, form in _STEM.items():
        padding = "SAME" if name == "Conv2d_2b_3x3" else "VALID"
        with arg_scope(_LAYERS, stride=1, padding=padding):
            net, _ = run({name: form}, net, name, style)
        end_points[name] = net
        if name == final_endpoint:
            break
    return net, end_points


@sized(299)
def inception_v3(inputs: Tensor, num_classes: int = 1000, is_training: bool = True,
                 dropout_keep_prob: float = 0.8, min_depth: int = 16,
                 depth_multiplier: float = 1.0, prediction_fn: Callable = softmax,
                 spatial_squeeze: bool = True, reuse: bool | None = None,
                 scope: str | None = "InceptionV3") -> tuple[Tensor, EndPoints]:
    """Return logits, and the layers by name, for images ``[batch, 299, 299, channels]``.

    "AuxLogits" are those of a second classifier in the middle. Arguments as of ``inception_v1``
    and ``inception_v2_base``.
    """
    with variable_scope(scope, "InceptionV3", [inputs], reuse=reuse) as opened, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        net, end_points = inception_v3_base(inputs, min_depth=min_depth, scope=opened,
                                            depth_multiplier=depth_multiplier)
        with arg_scope(_LAYERS, stride=1, padding="SAME"), variable_scope("AuxLogits"):
            end_points["AuxLogits"] = _auxiliary(end_points["Mixed_6e"], num_classes,
                                                 depth_of(depth_multiplier, min_depth),
                                                 spatial_squeeze)
        with variable_scope("Logits"):
            window = window_within(net, 8)
            logits = logits_of(net, "AvgPool_1a_{}x{}".format(*window), window, num_classes,
                               dropout_keep_prob, ("Dropout_1b", "Conv2d_1c_1x1"),
                               spatial_squeeze, end_points)
        end_points["Logits"] = logits
        end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


def _auxiliary(net: Tensor, num_classes: int, depth: Callable[[int], int],
               spatial_squeeze: bool) -> Tensor:
    net = avg_pool2d(net, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
    net = conv2d(net, depth(128), [1, 1], scope="Conv2d_1b_1x1")
    window = window_within(net, 5)
    net = conv2d(net, depth(768), window, padding="VALID",
                 weights_initializer=trunc_normal(0.01),
                 scope="Conv2d_2a_{}x{}".format(*window))
    net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                 weights_initializer=trunc_normal(0.001), scope="Conv2d_2b_1x1")
    return squeeze(net, [1, 2], name="SpatialSqueeze") if spatial_squeeze else net


def inception_v3_arg_scope(weight_decay: float = 0.00004,
                           batch_norm_var_collection: str = "moving_vars",
                           batch_norm_decay: float = 0.9997, batch_norm_epsilon: float = 0.001,
                           updates_collections: str | None = GraphKeys.UPDATE_OPS,
                           use_fused_batchnorm: bool = True) -> Any:
    """Return the arguments that the network's layers are to have."""
    return layer_scope(weight_decay, True, batch_norm_var_collection, decay=batch_norm_decay,
                       epsilon=batch_norm_epsilon, updates_collections=updates_collections,
                       fused=use_fused_batchnorm)
