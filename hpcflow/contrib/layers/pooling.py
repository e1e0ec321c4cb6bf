"""Pooling layers in their older form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import layers, nn
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.layers.building import collect_named_outputs, format_of_layers
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Collections, Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.layers.building import OpenScope, numbers


def _pooling(rank: int, function: Callable, default: str, what: str) -> Callable:
    """The layer of one pooling function over `rank` dimensions of space."""

    def pooled(inputs: Any, kernel_size: TensorLike, stride: Sizes = 2, padding: str = "VALID",
               data_format: str | None = None, outputs_collections: Collections | None = None,
               scope: str | None = None) -> Tensor:
        with name_scope(scope, default, [inputs]) as name:
            inputs = convert_to_tensor(inputs)
            outputs = function(inputs, kernel_size, stride, padding,
                               format_of_layers(data_format, rank), OpenScope(name))
            return collect_named_outputs(outputs_collections, name, outputs)

    pooled.__name__ = pooled.__qualname__ = what
    pooled.__doc__ = (f"Return {'maxima' if 'max' in what else 'means'} over windows in {rank} "
                      f"dimensions of space; the name scope is \"{default}\".")
    return add_arg_scope(pooled)


max_pool2d = _pooling(2, layers.max_pooling2d, "MaxPool2D", "max_pool2d")
avg_pool2d = _pooling(2, layers.average_pooling2d, "AvgPool2D", "avg_pool2d")
max_pool3d = _pooling(3, layers.max_pooling3d, "MaxPool3D", "max_pool3d")
avg_pool3d = _pooling(3, layers.average_pooling3d, "AvgPool3D", "avg_pool3d")


@add_arg_scope
def pool(inputs: Any, kernel_size: Sizes, pooling_type: str, padding: str = "VALID",
         data_format: str | None = None, dilation_rate: Sizes = 1, stride: Sizes = 1,
         outputs_collections: Collections | None = None, scope: str | None = None) -> Tensor:
    """Return maxima ("MAX") or means ("AVG") over windows, with strides or with holes."""
    with name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as name:
        inputs = convert_to_tensor(inputs)
        if inputs._dims is None:
            raise ValueError("Rank of inputs must be known")
        rank = len(inputs._dims) - 2
        outputs = nn.pool(inputs, numbers(kernel_size, rank, "kernel_size"), pooling_type, padding,
                          numbers(dilation_rate, rank, "dilation_rate"),
                          numbers(stride, rank, "stride"), name, data_format)
        return collect_named_outputs(outputs_collections, name, outputs)
