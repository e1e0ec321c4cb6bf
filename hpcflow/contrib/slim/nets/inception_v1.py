"""GoogLeNet (Szegedy et al., 2014, arXiv:1409.4842), normalized by batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.framework import arg_scope
from hpcflow.contrib.layers import (
    batch_norm,
    conv2d,
    dropout,
    fully_connected,
    max_pool2d,
    softmax,
)
from hpcflow.contrib.slim.nets.classifiers import sized, trunc_normal
from hpcflow.contrib.slim.nets.inception_blocks import (
    EndPoints,
    Style,
    Table,
    layer_scope,
    logits_of,
    run,
)
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.variable_scope import VariableScope, variable_scope


def _mixed(alone: int, three: tuple[int, int], five: tuple[int, int], pooled: int,
           name: str = "") -> tuple[str, ...]:
    return (f"{alone}:1x1", f"{three[0]}:1x1 {three[1]}:3x3", f"{five[0]}:1x1 {five[1]}:3x3{name}",
            f"max:3x3 {pooled}:1x1")


_TABLE: Table = {
    "Conv2d_1a_7x7": "64:7x7/2",
    "MaxPool_2a_3x3": "max:3x3/2",
    "Conv2d_2b_1x1": "64:1x1",
    "Conv2d_2c_3x3": "192:3x3",
    "MaxPool_3a_3x3": "max:3x3/2",
    "Mixed_3b": _mixed(64, (96, 128), (16, 32), 32),
    "Mixed_3c": _mixed(128, (128, 192), (32, 96), 64),
    "MaxPool_4a_3x3": "max:3x3/2",
    "Mixed_4b": _mixed(192, (96, 208), (16, 48), 64),
    "Mixed_4c": _mixed(160, (112, 224), (24, 64), 64),
    "Mixed_4d": _mixed(128, (128, 256), (24, 64), 64),
    "Mixed_4e": _mixed(112, (144, 288), (32, 64), 64),
    "Mixed_4f": _mixed(256, (160, 320), (32, 128), 128),
    "MaxPool_5a_2x2": "max:2x2/2",
    "Mixed_5b": _mixed(256, (160, 320), (32, 128), 128, "@Conv2d_0a_3x3"),
    "Mixed_5c": _mixed(384, (192, 384), (48, 128), 128),
}
_STYLE = Style(lambda depth: depth, {})


def inception_v1_base(inputs: Tensor, final_endpoint: str = "Mixed_5c",
                      scope: str | VariableScope | None = "InceptionV1",
                      ) -> tuple[Tensor, EndPoints]:
    """Return the layer `final_endpoint`, and all up to it by name, for images.

    Raises ``ValueError`` for an unknown end point.
    """
    with variable_scope(scope, "InceptionV1", [inputs]), \
            arg_scope([conv2d, fully_connected], weights_initializer=trunc_normal(0.01)), \
            arg_scope([conv2d, max_pool2d], stride=1, padding="SAME"):
        return run(_TABLE, inputs, final_endpoint, _STYLE)


@sized(224)
def inception_v1(inputs: Tensor, num_classes: int = 1000, is_training: bool = True,
                 dropout_keep_prob: float = 0.8, prediction_fn: Callable = softmax,
                 spatial_squeeze: bool = True, reuse: bool | None = None,
                 scope: str | None = "InceptionV1") -> tuple[Tensor, EndPoints]:
    """Return logits, and the layers by name, for images ``[batch, 224, 224, channels]``.

    Args:
        inputs: the images.
        num_classes: the number of classes.
        is_training: drop, and normalize batches by their own statistics.
        dropout_keep_prob: probability of keeping a number.
        prediction_fn: what makes "Predictions" of the logits.
        spatial_squeeze: logits are ``[batch, classes]``; else ``[batch, 1, 1, classes]``.
        reuse: as of ``variable_scope``.
        scope: the variable scope.
    """
    with variable_scope(scope, "InceptionV1", [inputs], reuse=reuse) as opened, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        net, end_points = inception_v1_base(inputs, scope=opened)
        with variable_scope("Logits"):
            logits = logits_of(net, "MaxPool_0a_7x7", [7, 7], num_classes, dropout_keep_prob,
                               ("Dropout_0b", "Conv2d_0c_1x1"), spatial_squeeze)
            end_points["Logits"] = logits
            end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


def inception_v1_arg_scope(weight_decay: float = 0.00004, use_batch_norm: bool = True,
                           batch_norm_var_collection: str = "moving_vars") -> Any:
    """Return the arguments that the network's layers are to have."""
    return layer_scope(weight_decay, use_batch_norm, batch_norm_var_collection)
