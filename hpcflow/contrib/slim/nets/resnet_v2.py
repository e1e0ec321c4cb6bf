"""Residual networks whose units begin with the activation (He et al., 2016, arXiv:1603.05027)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.contrib.framework import add_arg_scope
from hpcflow.contrib.layers import batch_norm, conv2d
from hpcflow.contrib.layers.building import collect_named_outputs
from hpcflow.contrib.slim.nets import resnet_utils
from hpcflow.contrib.slim.nets.resnet_utils import Block, Version, resnet_arg_scope
from hpcflow.contrib.slim.utils import last_dimension
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu
from hpcflow.ops.state.variable_scope import variable_scope

_PLAIN: dict[str, Any] = {"normalizer_fn": None, "activation_fn": None}


@add_arg_scope
def bottleneck(inputs: Tensor, depth: int, depth_bottleneck: int, stride: int, rate: int = 1,
               outputs_collections: Any = None, scope: str | None = None) -> Tensor:
    """Return ``shortcut + residual``: normalized first, then convolutions of 1, 3 and 1.

    Arguments as of ``resnet_v1.bottleneck``.
    """
    with variable_scope(scope, "bottleneck_v2", [inputs]) as opened:
        before = batch_norm(inputs, activation_fn=relu, scope="preact")
        if depth == last_dimension(inputs.get_shape(), min_rank=4):
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(before, depth, [1, 1], stride=stride, scope="shortcut", **_PLAIN)
        residual = conv2d(before, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate,
                                            scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, scope="conv3", **_PLAIN)
        return collect_named_outputs(outputs_collections, opened.name, shortcut + residual)


_VERSION = Version("resnet_v2", bottleneck, _PLAIN,
                   lambda net: batch_norm(net, activation_fn=relu, scope="postnorm"))


def resnet_v2(inputs: Tensor, blocks: Sequence[Block], num_classes: int | None = None,
              is_training: bool = True, global_pool: bool = True,
              output_stride: int | None = None, include_root_block: bool = True,
              reuse: bool | None = None,
              scope: str | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output of a residual network, and its layers by name; see ``resnet_v1``."""
    return resnet_utils.network(_VERSION, inputs, blocks, num_classes, is_training, global_pool,
                                output_stride, include_root_block, reuse, scope)


resnet_v2.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Return a block of `num_units` units with 4 `base_depth` channels, the last one strided."""
    return resnet_utils.block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v2_50 = resnet_utils.of_depth(50, _VERSION)
resnet_v2_101 = resnet_utils.of_depth(101, _VERSION)
resnet_v2_152 = resnet_utils.of_depth(152, _VERSION)
resnet_v2_200 = resnet_utils.of_depth(200, _VERSION)

__all__ = ["bottleneck", "resnet_arg_scope", "resnet_v2", "resnet_v2_50", "resnet_v2_101",
           "resnet_v2_152", "resnet_v2_200", "resnet_v2_block"]
