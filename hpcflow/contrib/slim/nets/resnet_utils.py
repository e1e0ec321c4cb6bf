"""What residual networks are made of: blocks of units, and the arguments of their layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hpcflow.contrib.framework import add_arg_scope, arg_scope
from hpcflow.contrib.layers import (
    batch_norm,
    conv2d,
    l2_regularizer,
    max_pool2d,
    softmax,
    variance_scaling_initializer,
)
from hpcflow.contrib.layers.building import collect_named_outputs, convert_collection_to_dict
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu
from hpcflow.ops.arrays.layout import pad
from hpcflow.ops.math.reductions import reduce_mean
from hpcflow.ops.state.variable_scope import variable_scope


class Block(NamedTuple):
    """Units one behind the other: ``unit_fn(net, rate=, **unit)`` for each of `args`, dicts with
    ``depth``, ``depth_bottleneck`` and ``stride``."""

    scope: str
    unit_fn: Callable[..., Tensor]
    args: Sequence[dict[str, int]]


def subsample(inputs: Tensor, factor: int, scope: str | None = None) -> Tensor:
    """Return every `factor`-th row and column."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(inputs: Tensor, num_outputs: int, kernel_size: int, stride: int, rate: int = 1,
                scope: str | None = None) -> Tensor:
    """Convolve as with padding SAME and stride 1, and keep every `stride`-th row and column: what
    is added at the edges does not depend on the size of the input."""
    if stride == 1:
        return conv2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME",
                      scope=scope)
    total = (kernel_size - 1) * rate
    edges = [total // 2, total - total // 2]
    inputs = pad(inputs, [[0, 0], edges, edges, [0, 0]])
    return conv2d(inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID",
                  scope=scope)


@add_arg_scope
def stack_blocks_dense(net: Tensor, blocks: Sequence[Block], output_stride: int | None = None,
                       outputs_collections: Any = None) -> Tensor:
    """Apply blocks; past `output_stride` the units are dilated instead of strided.

    Raises ``ValueError`` for a stride that the blocks do not reach.
    """
    stride, rate = 1, 1
    for block in blocks:
        with variable_scope(block.scope, "block", [net]) as opened:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                own = unit.get("stride", 1)
                with variable_scope(f"unit_{number}", values=[net]):
                    if stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= own
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= own
            net = collect_named_outputs(outputs_collections, opened.name, net)
    if output_stride is not None and stride != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


def resnet_arg_scope(weight_decay: float = 0.0001, batch_norm_decay: float = 0.997,
                     batch_norm_epsilon: float = 1e-5, batch_norm_scale: bool = True) -> Any:
    """Return the arguments that the networks' layers are to have."""
    norm = {"decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "scale": batch_norm_scale,
            "updates_collections": GraphKeys.UPDATE_OPS}
    with arg_scope([conv2d], weights_regularizer=l2_regularizer(weight_decay),
                   weights_initializer=variance_scaling_initializer(), activation_fn=relu,
                   normalizer_fn=batch_norm, normalizer_params=norm), \
            arg_scope([batch_norm], **norm), arg_scope([max_pool2d], padding="SAME") as scope:
        return scope


class Version(NamedTuple):
    """What the two versions of the network differ in: `unit`, arguments of the first convolution,
    and what is done behind the last block."""

    name: str
    unit: Callable[..., Tensor]
    root: dict[str, Any]
    finish: Callable[[Tensor], Tensor]


def network(version: Version, inputs: Tensor, blocks: Sequence[Block], num_classes: int | None,
            is_training: bool, global_pool: bool, output_stride: int | None,
            include_root_block: bool, reuse: bool | None, scope: str | None,
            ) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output of a residual network, and its layers by name; see ``resnet_v1``."""
    with variable_scope(scope, version.name, [inputs], reuse=reuse) as opened:
        collection = opened.original_name_scope + "_end_points"
        with arg_scope([conv2d, version.unit, stack_blocks_dense],
                       outputs_collections=collection), \
                arg_scope([batch_norm], is_training=is_training):
            net = inputs
            if include_root_block:
                output_stride = _behind_root(output_stride)
                with arg_scope([conv2d], **version.root):
                    net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
                net = max_pool2d(net, [3, 3], stride=2, scope="pool1")
            net = version.finish(stack_blocks_dense(net, blocks, output_stride))
            if global_pool:
                net = reduce_mean(net, [1, 2], name="pool5", keepdims=True)
            if num_classes is not None:
                net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                             scope="logits")
            end_points = convert_collection_to_dict(collection)
            if num_classes is not None:
                end_points["predictions"] = softmax(net, scope="predictions")
            return net, end_points


def _behind_root(output_stride: int | None) -> int | None:
    if output_stride is not None and output_stride % 4:
        raise ValueError("The output_stride needs to be a multiple of 4.")
    return output_stride and output_stride // 4


def block_of(unit: Callable[..., Tensor], scope: str, base_depth: int, num_units: int,
             stride: int) -> Block:
    """Return a block of units, the last of which has the stride."""
    sizes = {"depth": 4 * base_depth, "depth_bottleneck": base_depth}
    return Block(scope, unit, [{**sizes, "stride": 1}] * (num_units - 1)
                 + [{**sizes, "stride": stride}])


def of_depth(layers: int, version: Version) -> Any:
    """Return the network with 50, 101, 152 or 200 layers."""
    counts = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}
    name = f"{version.name}_{layers}"

    def built(inputs: Tensor, num_classes: int | None = None, is_training: bool = True,
              global_pool: bool = True, output_stride: int | None = None,
              reuse: bool | None = None,
              scope: str | None = name) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the output, and the layers by name; arguments as of ``resnet_v1``."""
        blocks = [block_of(version.unit, f"block{n}", 32 << n, count, 1 if n == 4 else 2)
                  for n, count in enumerate(counts[layers], 1)]
        return network(version, inputs, blocks, num_classes, is_training, global_pool,
                       output_stride, True, reuse, scope)

    built.__name__ = built.__qualname__ = name
    built.default_image_size = 224  # type: ignore[attr-defined]
    return built
