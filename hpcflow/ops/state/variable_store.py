"""VariableStore: the variables of one graph that ``get_variable`` made, by name."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    add_to_collection,
    colocate_with,
    control_dependencies,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, DeviceLike, InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state import initializers
from hpcflow.ops.state.partitioned import (
    PartitionedVariable,
    PartitionInfo,
    check_partitions,
    slice_info,
    slices_of,
)
from hpcflow.ops.state.replication import checked_replication
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import ShapeLike, TensorShape, as_shape


class _ReuseMode(Enum):
    """Values of `reuse` besides True, False and None."""

    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE

Reuse = bool | _ReuseMode | None


class VariableStore:
    """Variables and partitioned variables by full name, and how often each scope was opened."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}
        self.scope_counts: Counter[str] = Counter()

    @property
    def _vars(self) -> dict[str, Variable]:  # programs look for variables of a scope here
        return self.variables

    # ------------------------------------------------------------ scopes

    def open_scope(self, name: str) -> None:
        """Count one more use of scope `name`."""
        self.scope_counts[name] += 1

    def close_subscopes(self, name: str) -> None:
        """Forget the counts of the scopes inside `name`: entered again, they start anew."""
        prefix = f"{name}/" if name else ""
        for key in list(self.scope_counts):
            if not name or key.startswith(prefix):
                self.scope_counts[key] = 0

    def restore_counts(self, before: Counter[str], name: str) -> None:
        """Give the scope `name` and those inside of it (all for "") the counts of a copy."""
        kept = Counter(self.scope_counts)
        for key in {*kept, *before}:
            if not name or f"{key}/".startswith(f"{name}/"):
                kept[key] = before[key]
        self.scope_counts = kept

    # ------------------------------------------------------------ variables

    def get_variable(self, name: str, shape: ShapeLike | None = None,
                     dtype: DTypeLike = dtypes.float32, initializer: Any = None,
                     regularizer: Callable | None = None, reuse: Reuse = None,
                     trainable: bool | None = True, collections: Collections | None = None,
                     caching_device: DeviceLike | None = None, partitioner: Callable | None = None,
                     validate_shape: bool = True, use_resource: bool | None = None,
                     custom_getter: Callable | None = None, constraint: Callable | None = None,
                     synchronization: Any = None, aggregation: Any = None) -> Any:
        """Return the variable `name`, made if `reuse` allows it.

        `reuse` True: it must exist; False: it must not; None or AUTO_REUSE: either. With a
        `partitioner` the result is a :class:`PartitionedVariable`. Raises ``ValueError`` with
        what is wrong.
        """
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError(f"custom_getter is not callable: {custom_getter!r}")
        *replication, trainable = checked_replication(synchronization, aggregation, trainable, name)
        arguments = {
            "name": name, "shape": shape, "dtype": dtype, "initializer": initializer,
            "regularizer": regularizer, "reuse": reuse, "trainable": trainable,
            "collections": collections, "caching_device": caching_device,
            "partitioner": partitioner, "validate_shape": validate_shape,
            "use_resource": use_resource,
        }  # fmt: skip
        later = {"constraint": constraint, **dict(zip(("synchronization", "aggregation"),
                                                      replication))}
        if custom_getter is not None:
            # Getters of older programs do not know these.
            arguments.update((key, value) for key, value in later.items()
                             if _takes(custom_getter, key))
            return custom_getter(getter=self._get_around, **arguments)
        arguments.update(later)
        return self._get_around(**arguments)

    def _get_around(self, *args: Any, **arguments: Any) -> Any:
        """Return the variable, which lies outside where the default graph is a function's body."""
        getter = get_default_graph()._variable_getter
        if getter is None:
            return self._get_true(*args, **arguments)
        return getter(self._get_true, *args, **arguments)

    def _get_true(self, name: str, shape: TensorLike | None = None,
                  dtype: DTypeLike = dtypes.float32, initializer: Any = None,
                  regularizer: Callable | None = None, reuse: Reuse = None, trainable: bool = True,
                  collections: Sequence[str] | None = None, caching_device: str | None = None,
                  partitioner: Callable | None = None, validate_shape: bool = True,
                  use_resource: bool | None = None, constraint: Callable | None = None,
                  synchronization: Any = None, aggregation: Any = None) -> Any:
        """Return the variable, found or made: the innermost getter."""
        reuse = None if reuse is AUTO_REUSE else reuse
        dtype = dtypes.as_dtype(dtype).base_dtype
        is_scalar = shape is not None and as_shape(shape).ndims == 0
        options = {"trainable": trainable, "collections": collections,
                   "caching_device": caching_device, "validate_shape": validate_shape,
                   "constraint": constraint, "synchronization": synchronization,
                   "aggregation": aggregation, "use_resource": use_resource}
        if partitioner is not None and not is_scalar:
            if not callable(partitioner):
                raise ValueError(f"partitioner must be callable, got {partitioner!r}")
            with name_scope(None):
                return self._get_partitioned(name, partitioner, shape, dtype, initializer,
                                             regularizer, reuse, options)
        if reuse and name in self.partitioned:
            return self._reused(name, None, as_shape(shape), dtype)
        if reuse and f"{name}/part_0" in self.variables:
            raise ValueError(f"No partitioner was given, but a partitioned version of the variable "
                             f"exists: {name}/part_0. Was a variable of this name made with "
                             "partitioning?")
        return self._get_single(name, shape, dtype, initializer, regularizer, reuse, None, options)

    def _get_single(self, name: str, shape: ShapeLike | None, dtype: Any, initializer: Any,
                    regularizer: Callable | None, reuse: Reuse,
                    partition: PartitionInfo | None, options: dict) -> Variable:
        from_value = initializer is not None and not callable(initializer)
        if from_value and shape is not None and partition is None:
            raise ValueError("If initializer is a constant, do not specify shape. (Variable "
                             f"{name})")
        shape = as_shape(shape)
        if name in self.variables:
            if reuse is False:
                raise ValueError(_exists(self.variables[name]))
            return _checked_shared(self.variables[name], shape, dtype)
        if reuse:
            raise ValueError(f"Variable {name} does not exist, or was not created with "
                             "tf.get_variable(). Did you mean to set reuse=None in VarScope?")
        if shape.ndims is None and _takes_nothing(initializer):
            with control_dependencies(None):  # it runs once, whatever it is called in
                initializer, from_value, dtype = initializer(), True, None
        if not shape.is_fully_defined() and not from_value:
            raise ValueError(f"{_NOT_AN_INITIALIZER} (The shape of the new variable {name} is "
                             f"{shape}.)")
        variable = self._create(name, shape, dtype, initializer, partition, options)
        self.variables[name] = variable
        if regularizer:  # an empty dict is none, too
            _add_regularization(regularizer, variable, name)
        return variable

    @staticmethod
    def _create(name: str, shape: TensorShape, dtype: DType, initializer: Any,
                partition: PartitionInfo | None, options: dict) -> Variable:
        if initializer is None:
            initializer = default_initializer(name, dtype)
        if not callable(initializer):
            return Variable(initial_value=initializer, name=name, **options)
        if isinstance(initializer, type):
            initializer = initializer(dtype=dtype)

        def initial_value() -> Any:
            if partition is None and not _takes_partition(initializer):
                return initializer(shape.as_list(), dtype=dtype)
            return initializer(shape.as_list(), dtype=dtype, partition_info=partition)

        return Variable(initial_value=initial_value, name=name, dtype=dtype, **options)

    # ------------------------------------------------------------ partitioned variables

    def _get_partitioned(self, name: str, partitioner: Callable, shape: Any, dtype: Any,
                         initializer: Any, regularizer: Callable | None, reuse: Reuse,
                         options: dict) -> PartitionedVariable:
        shape = as_shape(shape)
        if initializer is not None and not callable(initializer):
            initializer = convert_to_tensor(initializer, dtype)
            shape = shape.merge_with(initializer.shape)
        if name in self.partitioned:
            if reuse is False:
                raise ValueError(_exists(next(iter(self.partitioned[name]))))
            return self._reused(name, partitioner, shape, dtype)
        self._check_new(name, shape, reuse)
        dims, partitions = shape.as_list(), list(partitioner(shape=shape, dtype=dtype))
        check_partitions(dims, partitions)
        parts = []
        for i, (offset, part) in enumerate(slices_of(dims, partitions)):
            info = PartitionInfo(dims, offset)
            value = initializer
            if isinstance(initializer, Tensor):
                with name_scope(f"{name}/PartitionedInitializer/"):
                    value = raw_ops.Slice(initializer, offset, part)
            variable = self._get_single(f"{name}/part_{i}", part, dtype, value, regularizer, reuse,
                                        info, options)
            variable._set_save_slice_info(slice_info(name, dims, offset, part))
            parts.append(variable)
        whole = PartitionedVariable(name, shape, dtype, parts, partitions)
        self.partitioned[name] = whole
        return whole

    def _check_new(self, name: str, shape: TensorShape, reuse: Reuse) -> None:
        if name in self.variables:
            raise ValueError(f"A partitioner was given, but an unpartitioned version of the "
                             f"variable exists: {name}. Was a variable of this name made without "
                             "partitioning?")
        if reuse:
            raise ValueError(f"PartitionedVariable {name} does not exist, or was not created with "
                             "tf.get_variable(). Did you mean to set reuse=None in VarScope?")
        if not shape.is_fully_defined():
            raise ValueError(f"Shape of a new partitioned variable ({name}) must be fully defined, "
                             f"but instead was {shape}.")

    def _reused(self, name: str, partitioner: Callable | None, shape: TensorShape,
                dtype: DType) -> PartitionedVariable:
        found = self.partitioned[name]
        if not shape.is_compatible_with(found.shape):
            raise ValueError(_differs(name, "shape", shape, found.shape))
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(_differs(name, "dtype", dtype.name, found.dtype.name))
        if partitioner is None:
            return found
        partitions = list(partitioner(shape=found.shape, dtype=found.dtype))
        if partitions != found._get_partitions():
            raise ValueError(f"Trying to reuse partitioned variable {name}, but specified "
                             f"partitions {partitions} and found partitions "
                             f"{found._get_partitions()}.")
        return found


_NOT_AN_INITIALIZER = (
    "The initializer passed is not valid. It should be a callable with no arguments and the shape "
    "should not be provided or an instance of `tf.keras.initializers.*' and `shape` should be "
    "fully defined.")


def _takes_nothing(initializer: InitializerLike) -> bool:
    """True if `initializer` is a function that can be called without a shape."""
    if initializer is None or isinstance(initializer, type) or not callable(initializer):
        return False
    try:
        parameters = inspect.signature(initializer).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
               for p in parameters)


def default_initializer(name: str, dtype: DType) -> Any:
    """The initializer for a variable that is given none; ``ValueError`` if there is none."""
    dtype = dtype.base_dtype
    if dtype.is_floating:
        return initializers.glorot_uniform_initializer()
    if dtype.is_integer or dtype.is_bool or dtype is dtypes.string:
        return initializers.zeros_initializer()
    raise ValueError(f"An initializer for variable {name} of {dtype.name} is required")


def _exists(variable: Variable) -> str:
    site = variable.op.creation_site
    where = f" Originally defined at {site[0]}:{site[1]} in {site[2]}." if site else ""
    return (f"Variable {variable.op.name} already exists, disallowed. Did you mean to set "
            f"reuse=True in VarScope?{where}")


def _checked_shared(variable: Variable, shape: TensorShape, dtype: DType) -> Variable:
    name = variable.op.name
    if not shape.is_compatible_with(variable.shape):
        raise ValueError(_differs(name, "shape", shape, variable.shape))
    if not dtype.is_compatible_with(variable.dtype):
        raise ValueError(_differs(name, "dtype", dtype.name, variable.dtype.base_dtype.name))
    return variable


def _differs(name: str, what: str, wanted: TensorShape | str, found: TensorShape | str) -> str:
    return (f"Trying to share variable {name}, but specified {what} {wanted} and found {what} "
            f"{found}.")


def _add_regularization(regularizer: Callable, variable: Variable, name: str) -> None:
    """Add the loss that `regularizer` gives for the variable to the collection of such losses."""
    with control_dependencies(None), colocate_with(variable.op):
        with name_scope(f"{name}/Regularizer/"):
            loss = regularizer(variable)
    if loss is not None:
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def _takes(getter: Callable, argument: str) -> bool:
    """True if a getter takes an argument of that name; those that do not say so take all."""
    try:
        parameters = inspect.signature(getter).parameters
    except (TypeError, ValueError):
        return True
    return argument in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _takes_partition(initializer: Callable) -> bool:
    """True if an initializer requires the argument `partition_info`, even without partitions."""
    try:
        parameter = inspect.signature(initializer).parameters.get("partition_info")
    except (TypeError, ValueError):  # it does not say
        return False
    return parameter is not None and parameter.default is parameter.empty
