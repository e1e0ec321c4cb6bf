"""Images as sequences of their columns and back, padded rows as sparse ones, and key points."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.layers.building import collect_named_outputs, format_of_layers, layer_variable
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.sparse.sparse_layout import sparse_where


@add_arg_scope
def images_to_sequence(inputs: TensorLike, data_format: str = "NHWC",
                       outputs_collections: Collections | None = None,
                       scope: Any = None) -> Tensor:
    """Return images ``[images, height, width, depth]`` as sequences of their columns from left to
    right, ``[width, images * height, depth]``.

    Raises ``ValueError`` for another `data_format` than NHWC and NCHW.
    """
    _check_format(data_format)
    with hf.name_scope(scope, "ImagesToSequence", [inputs]) as name:
        inputs = hf.convert_to_tensor(inputs)
        first = data_format == "NCHW"
        depth = inputs.shape.as_list()[1 if first else 3]
        columns = hf.transpose(inputs, [3, 0, 2, 1] if first else [2, 0, 1, 3])
        size = hf.shape(columns)
        outputs = hf.reshape(columns, [size[0], size[1] * size[2], depth])
        return collect_named_outputs(outputs_collections, name, outputs)


@add_arg_scope
def sequence_to_images(inputs: TensorLike, height: int, output_data_format: str = "channels_last",
                       outputs_collections: Collections | None = None,
                       scope: Any = None) -> Tensor:
    """Return what :func:`images_to_sequence` has made, as images of that height again."""
    with hf.name_scope(scope, "SequenceToImages", [inputs]) as name:
        inputs = hf.convert_to_tensor(inputs)
        width, count, depth = inputs.shape.as_list()
        sizes = hf.shape(inputs)
        images = sizes[1] // height if count is None else count // height
        columns = hf.reshape(inputs, [sizes[0] if width is None else width, images, height, depth])
        last = output_data_format in ("channels_last", "NHWC")
        outputs = hf.transpose(columns, [1, 2, 0, 3] if last else [1, 3, 2, 0])
        return collect_named_outputs(outputs_collections, name, outputs)


@add_arg_scope
def dense_to_sparse(tensor: TensorLike, eos_token: int = 0,
                    outputs_collections: Collections | None = None,
                    scope: Any = None) -> SparseTensor:
    """Return the elements other than `eos_token` as a sparse tensor; the scope is
    "dense_to_sparse"."""
    with hf.name_scope(scope, "dense_to_sparse", [tensor]) as name:
        outputs: Any = sparse_without(tensor, eos_token)
        collect_named_outputs(outputs_collections, name, outputs)
        return outputs


def sparse_without(tensor: TensorLike, missing: Any) -> SparseTensor:
    """The elements of a dense tensor that are not `missing`."""
    tensor = hf.convert_to_tensor(tensor)
    return sparse_where(tensor, hf.not_equal(tensor, hf.constant(missing, tensor.dtype)))


@add_arg_scope
def spatial_softmax(features: Any, temperature: float | None = None, name: str | None = None,
                    variables_collections: Collections | None = None, trainable: bool = True,
                    data_format: str = "NHWC") -> Tensor:
    """Return for each channel the expected place under a softmax over its pixels.

    Args:
        features: images ``[batch, height, width, channels]``, the channels known.
        temperature: the first value of the variable ``temperature``, by which features are
            divided; 1 if None.
        name: the variable scope, "spatial_softmax" if None.
        variables_collections: names of collections for the variable.
        trainable: whether optimizers change it.
        data_format: NHWC or NCHW.

    Returns: ``[batch, 2 * channels]``: for each channel the row and the column, from -1 to 1.

    Raises ``ValueError`` for unknown channels, or another format.
    """
    _check_format(data_format)
    first = data_format == "NCHW"
    with hf.variable_scope(name, "spatial_softmax"):
        channels = features.shape.as_list()[1 if first else 3]
        if channels is None:
            raise ValueError("The num_channels dimension of the inputs to `spatial_softmax` should "
                             "be defined. Found `None`.")
        planes = features if first else hf.transpose(features, [0, 3, 1, 2])
        height, width = hf.shape(planes)[2], hf.shape(planes)[3]
        rows, columns = hf.meshgrid(hf.linspace(-1.0, 1.0, height), hf.linspace(-1.0, 1.0, width),
                                    indexing="ij")
        start = hf.constant_initializer(1.0 if temperature is None else temperature)
        warmth = layer_variable("temperature", [], hf.float32, start, None, variables_collections,
                                trainable)
        weights = hf.nn.softmax(hf.reshape(planes, [-1, height * width]) / warmth)
        places = hf.stack([hf.reduce_sum(weights * hf.reshape(where, [-1]), 1)
                           for where in (rows, columns)], 1)
        points = hf.reshape(places, [-1, 2 * channels])
        points.set_shape([features.shape[0], None])
        return points


def _check_format(data_format: str) -> None:
    format_of_layers(data_format)
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format has to be either NCHW or NHWC, got {data_format!r}")
