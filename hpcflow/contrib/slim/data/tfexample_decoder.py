"""Items, such as images and boxes, made of the features of serialized ``Example`` messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.slim.data.data_decoder import DataDecoder
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import operation
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor as Sparse
from hpcflow.image.files import decode_image, decode_jpeg, is_jpeg
from hpcflow.ops.flow.cond import case, cond
from hpcflow.ops.flow.functional import map_fn
from hpcflow.ops.io.example_features import FixedLenFeature, parse_single_example
from hpcflow.ops.io.parsing import decode_raw
from hpcflow.ops.math.reductions import reduce_prod
from hpcflow.ops.sparse.sparse_layout import sparse_reshape, sparse_tensor_to_dense


class ItemHandler(ABC):
    """Makes one item of the features that it names."""

    def __init__(self, keys: str | Sequence[str]) -> None:
        """Keep the name of the feature, or a list of such names."""
        self._keys = [keys] if isinstance(keys, str) else list(keys)

    @property
    def keys(self) -> list[str]:
        """The names of the features that the item is made of."""
        return self._keys

    @abstractmethod
    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """Return the item, made of the features by name (tensors or sparse tensors)."""


class ItemHandlerCallback(ItemHandler):
    """An item that a function makes."""

    def __init__(self, keys: str | Sequence[str], func: Callable) -> None:
        """Take the names of the features, and a function of a dict of them."""
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """Return what the function returns."""
        return self._func(keys_to_tensors)


class BoundingBox(ItemHandler):
    """Boxes ``[number, 4]``, one feature for each side."""

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        """Take the names of the features.

        Args:
            keys: four names, by default ymin, xmin, ymax and xmax.
            prefix: what stands before each name.

        Raises ``ValueError`` for another number of names.
        """
        keys = ["ymin", "xmin", "ymax", "xmax"] if keys is None else keys
        if len(keys) != 4:
            raise ValueError(f"BoundingBox expects 4 keys but got {len(keys)}")
        super().__init__([prefix + key for key in keys])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> operation.Tensor:
        """Return the boxes, float32 or as the features are."""
        sides = [keys_to_tensors[key] for key in self._keys]
        vectors = [side.values if isinstance(side, Sparse) else side for side in sides]
        return raw_ops.Pack([raw_ops.Reshape(v, np.array([-1], np.int32)) for v in vectors], axis=1)


class Tensor(ItemHandler):
    """A feature as a tensor, if it is to be, of a shape that is given or another feature."""

    def __init__(self, tensor_key: str, shape_keys: str | Sequence[str] | None = None,
                 shape: TensorLike | None = None, default_value: Any = 0) -> None:
        """Take the names of the features.

        Args:
            tensor_key: name of the feature with the values.
            shape_keys: None, or names of features with the dimensions, which are put together.
            shape: None, or the shape.
            default_value: what stands for values that a sparse feature lacks.

        Raises ``ValueError`` for both `shape_keys` and `shape`.
        """
        if shape_keys is not None and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        names = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or ())
        super().__init__([tensor_key, *names])
        self._tensor_key = tensor_key
        self._shape_keys = names
        self._shape = shape
        self._default_value = default_value

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> operation.Tensor:
        """Return the dense tensor."""
        found = keys_to_tensors[self._tensor_key]
        shape = self._shape
        if self._shape_keys:
            dims = [_dense(keys_to_tensors[key]) for key in self._shape_keys]
            shape = raw_ops.Reshape(raw_ops.Pack(dims), np.array([-1], np.int32))
        if isinstance(found, Sparse):
            found = found if shape is None else sparse_reshape(found, shape)
            return _dense(found, self._default_value)
        return found if shape is None else raw_ops.Reshape(found, shape)


def _dense(value: Any, missing: Any = 0) -> operation.Tensor:
    return sparse_tensor_to_dense(value, missing) if isinstance(value, Sparse) else value


class LookupTensor(Tensor):
    """A feature whose values a table translates."""

    def __init__(self, tensor_key: str, table: Any, shape_keys: str | Sequence[str] | None = None,
                 shape: TensorLike | None = None, default_value: Any = "") -> None:
        """Take a lookup table, and the arguments of :class:`Tensor`."""
        super().__init__(tensor_key, shape_keys, shape, default_value)
        self._table = table

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> operation.Tensor:
        """Return what the table has for the values."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """An item that another handler makes where the first makes nothing."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        """Take both handlers.

        Raises ``ValueError`` for what is no :class:`ItemHandler`.
        """
        for what, given in (("Primary", handler), ("Backup", backup)):
            if not isinstance(given, ItemHandler):
                raise ValueError(f"{what} handler is of type {type(given)} instead of ItemHandler")
        super().__init__([*dict.fromkeys([*handler.keys, *backup.keys])])
        self._handler = handler
        self._backup = backup

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> operation.Tensor:
        """Return the item of the first handler; if that is empty, of the second."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return cond(raw_ops.Equal(reduce_prod(raw_ops.Shape(item)), np.int32(0)),
                    lambda: self._backup.tensors_to_item(keys_to_tensors), lambda: item)


class SparseTensor(ItemHandler):
    """A sparse tensor whose last index is the values of one feature, its values another."""

    def __init__(self, indices_key: str | None = None, values_key: str | None = None,
                 shape_key: str | None = None, shape: TensorLike | None = None,
                 densify: bool = False, default_value: Any = 0) -> None:
        """Take the names of the features.

        Args:
            indices_key: name of the feature with the indices, by default "indices".
            values_key: name of that with the values, by default "values".
            shape_key: None, or the name of that with the shape.
            shape: None, or the shape; by default it is that of the feature with the indices.
            densify: make it dense.
            default_value: what a dense one has where there is no value.
        """
        names = [indices_key or "indices", values_key or "values"]
        super().__init__(names + ([shape_key] if shape_key else []))
        self._shape = shape
        self._densify = densify
        self._default_value = default_value

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """Return the tensor, sparse or dense."""
        indices, values, *given = [keys_to_tensors[key] for key in self._keys]
        shape = _dense(given[0]) if given else self._shape
        shape = indices.dense_shape if shape is None else shape
        rank = raw_ops.Gather(raw_ops.Shape(indices.indices), np.int32(1))
        before = raw_ops.Slice(indices.indices, np.array([0, 0], np.int32),
                               raw_ops.Pack([np.int32(-1), raw_ops.Sub(rank, np.int32(1))]))
        last = raw_ops.Reshape(raw_ops.Cast(indices.values, DstT=dtypes.int64),
                               np.array([-1, 1], np.int32))
        made = Sparse(raw_ops.ConcatV2([before, last], np.int32(1)), values.values,
                      convert_to_tensor(shape, dtypes.int64))
        return _dense(made, self._default_value) if self._densify else made


class Image(ItemHandler):
    """An image of a feature with the bytes of a file, or of raw numbers."""

    def __init__(self, image_key: str | None = None, format_key: str | None = None,
                 shape: TensorLike | None = None, channels: int = 3,
                 dtype: DTypeLike = dtypes.uint8, repeated: bool = False,
                 dct_method: str = "") -> None:
        """Take the names of the features.

        Args:
            image_key: name of the feature with the bytes, by default "image/encoded".
            format_key: name of that with the format, by default "image/format". Bytes whose format
                is "raw" or "RAW" are numbers of type `dtype`, all others a file of JPEG, PNG or
                GIF.
            shape: None, or the shape of the image.
            channels: number of channels.
            dtype: type of the image's numbers.
            repeated: the feature has several images of one size, for a result of rank 4.
            dct_method: how JPEG files are decoded.
        """
        self._image_key = image_key or "image/encoded"
        self._format_key = format_key or "image/format"
        super().__init__([self._image_key, self._format_key])
        self._shape = shape
        self._channels = channels
        self._dtype = dtypes.as_dtype(dtype)
        self._repeated = repeated
        self._dct_method = dct_method

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> operation.Tensor:
        """Return the image, ``[height, width, channels]`` or the given shape."""
        data, kind = keys_to_tensors[self._image_key], keys_to_tensors[self._format_key]
        if self._repeated:
            return map_fn(lambda one: self._decode(one, kind), data, dtype=self._dtype)
        return self._decode(data, kind)

    def _decode(self, data: TensorLike, kind: TensorLike) -> operation.Tensor:
        raw = raw_ops.LogicalOr(raw_ops.Equal(kind, b"raw"), raw_ops.Equal(kind, b"RAW"))
        image = case([(raw, lambda: decode_raw(data, self._dtype))],
                     default=lambda: self._decode_file(data), exclusive=True)
        image.set_shape([None, None, self._channels])
        return image if self._shape is None else raw_ops.Reshape(image, self._shape)

    def _decode_file(self, data: TensorLike) -> operation.Tensor:
        def cast(image: operation.Tensor) -> operation.Tensor:
            return raw_ops.Cast(image, DstT=self._dtype)

        return cond(
            is_jpeg(data),
            lambda: cast(decode_jpeg(data, self._channels, dct_method=self._dct_method)),
            lambda: cast(decode_image(data, self._channels)), name="cond_jpeg")


class TFExampleDecoder(DataDecoder):
    """Makes items of serialized ``Example`` messages."""

    def __init__(self, keys_to_features: dict[str, Any],
                 items_to_handlers: dict[str, ItemHandler]) -> None:
        """Take the features by name, as for ``parse_example``, and a handler for each item."""
        self._keys_to_features = keys_to_features
        self._items_to_handlers = items_to_handlers

    def list_items(self) -> list[str]:
        """Return the names of the items."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: TensorLike,  # type: ignore[override]
               items: Sequence[str] | None = None) -> list[Any]:
        """Return the items of a message, a scalar string: those that are named, or all."""
        example = parse_single_example(serialized_example, self._keys_to_features)
        for key, feature in sorted(self._keys_to_features.items()):
            if isinstance(feature, FixedLenFeature):
                example[key] = raw_ops.Reshape(example[key], feature.shape)
        handlers = [self._items_to_handlers[item] for item in items or self.list_items()]
        return [handler.tensors_to_item({key: example[key] for key in handler.keys})
                for handler in handlers]
