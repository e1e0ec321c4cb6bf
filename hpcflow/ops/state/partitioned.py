"""PartitionedVariable: one logical variable kept as several slices of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcflow.dtypes import DType, DTypeLike, as_dtype
from hpcflow.graph.convert import convert_to_tensor, register_tensor_conversion_function
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.operation import Operation, Tensor, refuse_array
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.slice_info import SaveSliceInfo
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__: list[str] = []


@dataclass(frozen=True)
class PartitionInfo:
    """The arguments of a slice's initializer: the whole shape, and the offset of the slice.

    Raises ``TypeError`` for what are not lists, ``ValueError`` for an offset that is not inside of
    the shape.
    """

    full_shape: list[int]
    var_offset: list[int]

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise TypeError(f"`{name}` must be a list or a tuple, but is {value!r}")
        if len(self.full_shape) != len(self.var_offset):
            raise ValueError(f"full_shape {self.full_shape} and var_offset {self.var_offset} must "
                             "have one number for each dimension")
        if any(not 0 <= o < n for o, n in zip(self.var_offset, self.full_shape)):
            raise ValueError(f"var_offset {self.var_offset} is not inside of full_shape "
                             f"{self.full_shape}")

    def single_offset(self, shape: Sequence[int]) -> int:
        """The offset along the dimension in which a slice of `shape` is cut."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """The dimension in which a slice of `shape` is cut; None if it is the whole.

        Raises ``ValueError`` for a slice that does not fit, or is cut in several dimensions.
        """
        if len(shape) != len(self.full_shape) or any(
                o + s > f for o, s, f in zip(self.var_offset, shape, self.full_shape)):
            raise ValueError(f"a slice of shape {list(shape)} at {self.var_offset} is not inside "
                             f"{self.full_shape}")
        cut = [i for i, (s, f) in enumerate(zip(shape, self.full_shape)) if s < f]
        if len(cut) > 1:
            raise ValueError(f"a slice of shape {list(shape)} is cut from {self.full_shape} in "
                             f"several dimensions")
        return cut[0] if cut else None


class PartitionedVariable:
    """Several variables that together are one, cut along one dimension.

    It converts to a tensor (the concatenation of the slices) and can be iterated over.

    Args:
        name: name of the logical variable.
        shape: its shape.
        dtype: its element type.
        variable_list: the slices in order, each with its ``SaveSliceInfo``.
        partitions: number of parts for each dimension, at most one above 1.

    Raises ``TypeError``/``ValueError`` for slices that are not such.
    """

    __array_priority__ = 100
    __array__ = refuse_array

    def __init__(self, name: str, shape: ShapeLike, dtype: DTypeLike,
                 variable_list: Sequence[Variable], partitions: Sequence[int]) -> None:
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list must be a list, got {variable_list!r}")
        _check_slices(name, variable_list, partitions)
        self._name = name
        self._shape = as_shape(shape)
        whole = variable_list[0]._get_save_slice_info().full_shape
        if self._shape.as_list() != list(whole):
            raise ValueError(f"All variables' full shapes must match shape: {list(whole)} and "
                             f"{self._shape.as_list()}")
        self._dtype = as_dtype(dtype)
        self._variable_list = sorted(
            variable_list, key=lambda v: v._get_save_slice_info().var_offset)
        self._partitions = list(partitions)
        self._whole: Tensor | None = None

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        axes = self._partition_axes()
        return self._partitions[axes[0]]

    def _partition_axes(self) -> list[int]:
        """The dimensions that are cut; the first one if none is."""
        return [i for i, p in enumerate(self._partitions) if p > 1] or [0]

    @property
    def name(self) -> str:
        """The name of the logical variable."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the logical variable."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape of the logical variable."""
        return self._shape

    @property
    def graph(self) -> Any:
        """The graph of the slices."""
        return self._variable_list[0].graph

    @property
    def op(self) -> list[Operation]:
        """The operations that hold the slices."""
        return [v.op for v in self._variable_list]

    def _get_variable_list(self) -> list[Variable]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def as_tensor(self) -> Tensor:
        """Return the whole variable as one tensor, concatenated where this is first called; slices
        by handle are read anew each time."""
        if self._variable_list[0]._is_by_handle:
            return self._concatenated()
        if self._whole is None:
            with control_dependencies(None):  # it stays for all readers, also outside of a branch
                self._whole = self._concatenated()
        return self._whole

    def _concatenated(self) -> Tensor:
        if len(self._variable_list) == 1:
            with name_scope(f"{self._name}/"):
                return raw_ops.Identity(self._variable_list[0], name="ConcatPartitions")
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(f"'{self._name}' is cut along several dimensions {axes}; "
                                      "only one is supported")
        with name_scope(f"{self._name}/ConcatPartitions/"):
            whole = raw_ops.ConcatV2(values=[v.value() for v in self._variable_list], axis=axes[0])
        with name_scope(None):
            return raw_ops.Identity(whole, name=self._name)

    def _as_tensor(self, dtype: DType | None = None, name: str | None = None,
                   as_ref: bool = False) -> Tensor:
        if dtype is not None and not as_dtype(dtype).is_compatible_with(self._dtype):
            raise ValueError(f"Variable '{self._name}' has dtype {self._dtype.name}, but "
                             f"{as_dtype(dtype).name} is required")
        if as_ref:
            raise NotImplementedError(
                f"partitioned variable '{self._name}' has no reference; change its slices")
        return self.as_tensor()

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None,
               read_value: bool = True) -> list:
        """Set the value: a tensor of the whole, a partitioned variable or a list of its slices.

        Returns the new value of each slice, or without `read_value` the operations that set them.
        """
        return self._for_each("assign", value, use_locking, name, read_value)

    def assign_add(self, value: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> list:
        """Add to the value, as :meth:`assign` sets it."""
        return self._for_each("assign_add", value, use_locking, name, read_value)

    def assign_sub(self, value: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> list:
        """Subtract from the value, as :meth:`assign` sets it."""
        return self._for_each("assign_sub", value, use_locking, name, read_value)

    def _for_each(self, method: str, value: Any, use_locking: bool, name: str | None,
                  read_value: bool) -> list:
        changes = [getattr(v, method)(part, use_locking=use_locking, name=name, read_value=True)
                   for v, part in zip(self._variable_list, self._parts_of(value), strict=True)]
        return changes if read_value else [change.op for change in changes]

    def _parts_of(self, value: Any) -> list:
        if isinstance(value, (list, PartitionedVariable)):
            return list(value)
        axis = self._partition_axes()[0]
        sizes = [v.get_shape().as_list()[axis] for v in self._variable_list]
        whole = convert_to_tensor(value, self._dtype.base_dtype)
        return raw_ops.SplitV(whole, np.array(sizes, np.int32), np.int32(axis),
                              num_split=len(sizes))


def _check_slices(name: str, variables: Sequence[Variable], partitions: Sequence[int]) -> None:
    if not variables:
        raise ValueError(f"{name}: variable_list may not be empty")
    if any(p < 1 for p in partitions):
        raise ValueError(f"partitions must be positive: {list(partitions)}")
    shapes = set()
    for variable in variables:
        info = variable._get_save_slice_info()
        if info is None:
            raise ValueError(f"All variables must have a save_slice_info available, but "
                             f"'{variable.name}' does not say which slice it is")
        shapes.add(tuple(info.full_shape))
    if len(shapes) > 1:
        raise ValueError(f"All variables' full shapes must match: {sorted(shapes)}")


def slices_of(shape: Sequence[int], partitions: Sequence[int]) -> list[tuple[list, list]]:
    """(offset, shape) of every slice of `shape` cut into `partitions` along one dimension.

    The first slices are one longer where the dimension does not divide. Raises ``ValueError`` if
    the partitions do not fit.
    """
    axis, count = check_partitions(shape, partitions)
    base, longer = divmod(shape[axis], count) if shape else (1, 0)
    slices, start = [], 0
    for i in range(count):
        size = base + (1 if i < longer else 0)
        offset, part = [0] * len(shape), list(shape)
        offset[axis], part[axis] = start, size
        slices.append((offset, part))
        start += size
    return slices


def check_partitions(shape: Sequence[int], partitions: Sequence[int]) -> tuple[int, int]:
    """The dimension that is cut, and into how many parts; ``ValueError`` if that is impossible."""
    if len(partitions) != len(shape):
        raise ValueError(f"there must be one number of partitions per dimension: {list(partitions)}"
                         f" for shape {list(shape)}")
    for dim, count in zip(shape, partitions):
        if count < 1 or dim < 1 or count > dim:
            raise ValueError(f"cannot cut shape {list(shape)} into {list(partitions)} partitions")
    cut = [i for i, count in enumerate(partitions) if count > 1]
    if len(cut) > 1:
        raise ValueError(f"only one dimension can be cut, got partitions {list(partitions)}")
    axis = cut[0] if cut else 0
    return axis, partitions[axis]


def slice_info(name: str, shape: Sequence[int], offset: Sequence[int],
               part: Sequence[int]) -> SaveSliceInfo:
    """The description of one slice."""
    return SaveSliceInfo(name, list(shape), list(offset), list(part))


def _conversion(value: PartitionedVariable, dtype: DType | None = None, name: str | None = None,
                as_ref: bool = False) -> Any:
    return value._as_tensor(dtype, name, as_ref)


register_tensor_conversion_function(PartitionedVariable, _conversion)
