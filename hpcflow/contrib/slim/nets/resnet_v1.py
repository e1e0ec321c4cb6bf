"""Residual networks (He et al., 2015, arXiv:1512.03385)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.contrib.framework import add_arg_scope
from hpcflow.contrib.layers import conv2d
from hpcflow.contrib.layers.building import collect_named_outputs
from hpcflow.contrib.slim.nets import resnet_utils
from hpcflow.contrib.slim.nets.resnet_utils import Block, Version, resnet_arg_scope
from hpcflow.contrib.slim.utils import last_dimension
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu
from hpcflow.ops.state.variable_scope import variable_scope


@add_arg_scope
def bottleneck(inputs: Tensor, depth: int, depth_bottleneck: int, stride: int, rate: int = 1,
               outputs_collections: Any = None, scope: str | None = None) -> Tensor:
    """Return ``relu(shortcut + residual)``: convolutions of 1, 3 and 1, the middle one strided.

    Args:
        inputs: images ``[batch, height, width, channels]``.
        depth: channels of the output.
        depth_bottleneck: channels between.
        stride: of the unit.
        rate: dilation of the middle convolution.
        outputs_collections: where the output is kept.
        scope: the variable scope.
    """
    with variable_scope(scope, "bottleneck_v1", [inputs]) as opened:
        if depth == last_dimension(inputs.get_shape(), min_rank=4):
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None,
                              scope="shortcut")
        residual = conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate,
                                            scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        return collect_named_outputs(outputs_collections, opened.name, relu(shortcut + residual))


_VERSION = Version("resnet_v1", bottleneck, {}, lambda net: net)


def resnet_v1(inputs: Tensor, blocks: Sequence[Block], num_classes: int | None = None,
              is_training: bool = True, global_pool: bool = True,
              output_stride: int | None = None, include_root_block: bool = True,
              reuse: bool | None = None,
              scope: str | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output of a residual network, and its layers by name.

    Args:
        inputs: images ``[batch, height, width, channels]``.
        blocks: the blocks.
        num_classes: channels of the logits; None for the features.
        is_training: whether batches are normalized by their own statistics.
        global_pool: average over the image.
        output_stride: ratio of the sizes of input and output; units past it are dilated. A
            multiple of 4; None for what the blocks have.
        include_root_block: begin with a convolution of 7 and a pool, both of stride 2.
        reuse: as of ``variable_scope``.
        scope: the variable scope.

    Raises ``ValueError`` for strides that cannot be.
    """
    return resnet_utils.network(_VERSION, inputs, blocks, num_classes, is_training, global_pool,
                                output_stride, include_root_block, reuse, scope)


resnet_v1.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Return a block of `num_units` units with 4 `base_depth` channels, the last one strided."""
    return resnet_utils.block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v1_50 = resnet_utils.of_depth(50, _VERSION)
resnet_v1_101 = resnet_utils.of_depth(101, _VERSION)
resnet_v1_152 = resnet_utils.of_depth(152, _VERSION)
resnet_v1_200 = resnet_utils.of_depth(200, _VERSION)

__all__ = ["bottleneck", "resnet_arg_scope", "resnet_v1", "resnet_v1_50", "resnet_v1_101",
           "resnet_v1_152", "resnet_v1_200", "resnet_v1_block"]
