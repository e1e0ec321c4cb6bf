"""Inception networks as tables: a layer is written ``depth:rowsxcolumns/stride``.

``64:3x3/2`` is a convolution, ``max:3x3`` and ``avg:3x3`` are pools. A branch is a row of layers,
whose names follow from their places; ``@name`` gives another one. ``a+b`` joins two layers over the
same input. A table has a layer or a tuple of branches for every end point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hpcflow.contrib.framework import arg_scope
from hpcflow.contrib.layers import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dropout,
    fully_connected,
    l2_regularizer,
    max_pool2d,
    variance_scaling_initializer,
)
from hpcflow.contrib.slim.nets.classifiers import trunc_normal
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.shape_ops import squeeze
from hpcflow.ops.state.variable_scope import variable_scope

Table = Mapping[str, "str | tuple[str, ...]"]
EndPoints = dict[str, Tensor]
_LAYER = re.compile(r"(\d+|max|avg):(\d+)x(\d+)(?:/(\d))?(?:@(\w+))?")
_KINDS = {"max": ("MaxPool", max_pool2d), "avg": ("AvgPool", avg_pool2d)}


class Style(NamedTuple):
    """What a network's layers have beside its table: the number of channels that a `depth` means,
    arguments of layers in mixed blocks with a stride, and the deviations of the weights of a
    convolution of 1 before others, and of one behind a pool (None for the scope's initializer)."""

    depth: Callable[[int], int]
    strided: dict[str, Any]
    first: float | None = None
    behind_pool: float | None = None


def depth_of(depth_multiplier: float, min_depth: int) -> Callable[[int], int]:
    """Return what a depth becomes. ``ValueError`` for a multiplier that is not positive."""
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")
    return lambda depth: max(int(depth * depth_multiplier), min_depth)


def run(table: Table, net: Tensor, final_endpoint: str, style: Style) -> tuple[Tensor, EndPoints]:
    """Build the layers of a table up to an end point. ``ValueError`` for an unknown one."""
    end_points: EndPoints = {}
    if final_endpoint not in table:
        raise ValueError(f"Unknown final endpoint {final_endpoint}")
    for name, form in table.items():
        net = _layer(net, form, name, style) if isinstance(form, str) else \
            _mixed(net, form, name, style)
        end_points[name] = net
        if name == final_endpoint:
            break
    return net, end_points


def _parsed(layer: str) -> tuple[str, list[int], int, str | None]:
    found = _LAYER.fullmatch(layer)
    if found is None:
        raise ValueError(f"{layer!r} is no layer")
    what, rows, columns, stride, name = found.groups()
    return what, [int(rows), int(columns)], int(stride or 1), name


def _layer(net: Tensor, layer: str, scope: str, style: Style, **options: Any) -> Tensor:
    what, window, stride, _ = _parsed(layer)
    if what in _KINDS:
        return _KINDS[what][1](net, window, stride=stride, scope=scope, **options)
    return conv2d(net, style.depth(int(what)), window, stride=stride, scope=scope, **options)


def _mixed(net: Tensor, branches: tuple[str, ...], scope: str, style: Style) -> Tensor:
    with variable_scope(scope):
        ends = []
        for number, branch in enumerate(branches):
            with variable_scope(f"Branch_{number}"):
                ends.append(_branch(net, branch.split(), style))
        return concat(ends, 3)


def _branch(net: Tensor, layers: list[str], style: Style) -> Tensor:
    place = 0
    for row, pair in enumerate(layers):
        joined = []
        for layer in pair.split("+"):
            what, (rows, columns), stride, name = _parsed(layer)
            kind = _KINDS[what][0] if what in _KINDS else "Conv2d"
            at = f"0{'abcdef'[place]}" if stride == 1 else "1a"
            options = dict(style.strided) if stride > 1 else {}
            deviation = _deviation(layers, row, style)
            if deviation is not None:
                options["weights_initializer"] = trunc_normal(deviation)
            joined.append(_layer(net, layer, name or f"{kind}_{at}_{rows}x{columns}", style,
                                 **options))
            place += 1
        net = joined[0] if len(joined) == 1 else concat(joined, 3)
    return net


def _deviation(layers: list[str], row: int, style: Style) -> float | None:
    if ":1x1" not in layers[row]:
        return None
    if row == 0:
        return style.first if len(layers) > 1 else None
    return style.behind_pool


def logits_of(net: Tensor, pool: str, window: list[int], num_classes: int, keep_prob: float,
              names: tuple[str, str], spatial_squeeze: bool,
              end_points: EndPoints | None = None) -> Tensor:
    """Pool over a window, drop, and return a number for each class; `names` are the scopes."""
    net = avg_pool2d(net, window, stride=1, padding="VALID", scope=pool)
    net = dropout(net, keep_prob, scope=names[0])
    if end_points is not None:
        end_points["PreLogits"] = net
    logits = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                    scope=names[1])
    return squeeze(logits, [1, 2], name="SpatialSqueeze") if spatial_squeeze else logits


def window_within(net: Tensor, size: int) -> list[int]:
    """Return a square window, or what of it fits into the images, where their size is known."""
    height, width = net.get_shape().as_list()[1:3]
    return [size, size] if height is None or width is None else [min(height, size),
                                                                 min(width, size)]


def layer_scope(weight_decay: float, normalized: bool, collection: str,
                **options: Any) -> Any:
    """Return the arguments that layers are to have; `options` are more of ``batch_norm``."""
    norm = {"decay": 0.9997, "epsilon": 0.001, "updates_collections": "update_ops",
            "variables_collections": {"beta": None, "gamma": None, "moving_mean": [collection],
                                      "moving_variance": [collection]}, **options}
    with arg_scope([conv2d, fully_connected], weights_regularizer=l2_regularizer(weight_decay)), \
            arg_scope([conv2d], weights_initializer=variance_scaling_initializer(),
                      activation_fn=relu, normalizer_fn=batch_norm if normalized else None,
                      normalizer_params=norm if normalized else {}) as scope:
        return scope
