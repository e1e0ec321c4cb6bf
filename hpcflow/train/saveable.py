"""Saveable objects: variables and other state as named tensors, whole or as slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow import dtypes
from hpcflow.graph import nest
from hpcflow.graph.graph import colocate_with, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable


class SaveSpec(NamedTuple):
    """One tensor to save.

    Attributes:
        tensor: the value.
        slice_spec: the slice that it is of the tensor called `name`, as the full dimensions and
            then ``start,length`` of each; empty if it is all of it.
        name: the name in the checkpoint.
    """

    tensor: Tensor
    slice_spec: str
    name: str

    @property
    def full_shape(self) -> TensorShape:
        """The static shape of what the checkpoint holds under `name`."""
        if not self.slice_spec:
            return self.tensor.shape
        return TensorShape([int(d) for d in self.slice_spec.split()[:-1]])


class SaveableObject:
    """State that a Saver can save and restore; derive from it for state of your own.

    Args:
        op: what is saved; no two saveables of one saver may share it.
        specs: the tensors that hold it.
        name: the name of the first of them, for messages and order.

    Attributes:
        is_position: True for the place of an iterator in its data: it is restored once more after
            iterators were initialized, and ranks that begin with the variables of one rank take
            its place too.
        replaces: variables that it saves in another form, which a Saver of everything leaves out.
    """

    is_position = False
    replaces: tuple[Any, ...] = ()

    def __init__(self, op: Any, specs: list[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def device(self) -> str:
        """The device that holds the state."""
        return self.specs[0].tensor.device

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list | None) -> Operation:
        """Return the operation that puts the restored tensors in place.

        Raises NotImplementedError: derived classes say how.
        """
        raise NotImplementedError("a SaveableObject must say how it is restored")


class VariableSaveable(SaveableObject):
    """A variable, or the slice of a partitioned one; held by reference or by handle."""

    def __init__(self, variable: Variable, slice_spec: str, name: str) -> None:
        self.reference = reference_of(variable)
        with colocate_with(self.reference.op):
            # One read, so that the shape laid out and the data written belong together.
            self.value = _read(self.reference)
        super().__init__(self.reference.op, [SaveSpec(self.value, slice_spec, name)], name)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.value.dtype

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list | None) -> Operation:
        """Return the assignment of the one restored tensor."""
        known = self.value.shape.is_fully_defined()
        with colocate_with(self.reference.op):
            if self.reference.dtype is dtypes.resource:
                return raw_ops.AssignVariableOp(resource=self.reference, value=restored_tensors[0])
            return raw_ops.Assign(ref=self.reference, value=restored_tensors[0],
                                  validate_shape=known).op


class BaseSaverBuilder:
    """A namespace of the classes above, under the names by which programs derive saveables."""

    SaveSpec = SaveSpec
    SaveableObject = SaveableObject
    VariableSaveable = VariableSaveable
    ResourceVariableSaveable = VariableSaveable


def _read(reference: Tensor) -> Tensor:
    if reference.dtype is dtypes.resource:
        dtype, _ = reference._handle_data
        return raw_ops._HandleSnapshot(resource=reference, dtype=dtype, name="read")
    return raw_ops._VariableSnapshot(ref=reference, name="read")


def is_variable(value: TensorLike) -> bool:
    """True for a variable of any kind, and for the reference or handle of one."""
    if isinstance(value, Tensor):
        return value.dtype._is_ref_dtype or value._handle_data is not None
    return hasattr(value, "_ref")


def reference_of(variable: Variable) -> Tensor:
    """The reference to a variable, or its handle."""
    return variable if isinstance(variable, Tensor) else variable._ref()


def saveable_objects(var_list: Any = None) -> list[SaveableObject]:
    """Return the objects that a Saver with this `var_list` saves, sorted by name.

    `var_list` is a list of variables, partitioned variables and saveables, a dict from names to
    these, or None: all global variables and what is in the collection SAVEABLE_OBJECTS.

    Raises ``TypeError`` for what is no variable, ``ValueError`` for names or variables given twice.
    """
    by_name = named_variables(var_list)
    found: list[SaveableObject] = []
    owners: dict[Any, str] = {}
    for name in sorted(by_name):
        for saveable in _saveables_of(name, by_name[name]):
            if saveable.op in owners:
                raise ValueError("The same saveable will be restored with two names: "
                                 f"{owners[saveable.op]} and {name}")
            owners[saveable.op] = name
            found.append(saveable)
    return found


def named_variables(var_list: Any = None) -> dict[str, Any]:
    """Return what a Saver with this `var_list` saves, by the names in the checkpoint; see
    :func:`saveable_objects`."""
    if var_list is None:
        graph = get_default_graph()
        others = graph.get_collection(GraphKeys.SAVEABLE_OBJECTS)
        replaced = {id(v) for one in others for v in getattr(one, "replaces", ())}
        var_list = [v for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
                    if id(v) not in replaced] + others
    return dict(var_list) if isinstance(var_list, dict) else _by_name(var_list)


def _by_name(items: TensorLike) -> dict[str, Any]:
    """Names as the variables have them; the slices of a partitioned variable under its name."""
    listed = nest.as_list(items)
    if listed == [items]:
        raise TypeError(f"Variables to save should be passed in a dict or a list: {items!r}")
    named: dict[str, Any] = {}
    for item in listed:
        item = getattr(item, "_saveable", item)  # a table's content
        parts = _parts(item)
        if parts is not None:
            name, item = _name_of_parts(item, parts), parts
        elif isinstance(item, SaveableObject):
            name = item.name
        elif not is_variable(item):
            raise TypeError(f"Variable to save is not a Variable: {item!r}")
        elif _slice_info(item) is not None:
            _add_slice(named, _slice_info(item).full_name, item)
            continue
        else:
            name = item.op.name
        if name in named:
            raise ValueError(f"At least two variables have the same name: {name}")
        named[name] = item
    return named


def _add_slice(named: dict[str, Any], name: str, variable: Variable) -> None:
    slices = named.setdefault(name, [])
    if not isinstance(slices, list):
        raise ValueError(f"Mixing slices and non-slices with the same name: {name}")
    slices.append(variable)


def _slice_info(variable: Variable) -> Any:
    get: Callable | None = getattr(variable, "_get_save_slice_info", None)
    return None if get is None else get()


def _parts(item: Any) -> list | None:
    """Return the variables of a partitioned one, or None."""
    if isinstance(item, (list, tuple)):
        return list(item)
    if hasattr(item, "_get_variable_list"):  # PartitionedVariable
        return list(item._get_variable_list())
    return None


def _name_of_parts(item: Any, parts: list) -> str:
    info = _slice_info(parts[0]) if parts else None
    return getattr(item, "name", None) or (info.full_name if info is not None else "")


def _saveables_of(name: str, item: Any) -> list[SaveableObject]:
    if not isinstance(name, str):
        raise TypeError("names_to_saveables must be a dict mapping string names to checkpointable "
                        f"operations. Name is not a string: {name!r}")
    parts = _parts(item)
    if parts is None:
        if isinstance(item, SaveableObject):
            return [item]
        if not is_variable(item):
            raise TypeError("names_to_saveables must be a dict mapping string names to "
                            f"Tensors/Variables. Not a variable: {item!r}")
        info = _slice_info(item)
        return [VariableSaveable(item, "" if info is None else info.spec, name)]
    _check_slices(name, parts)
    return [VariableSaveable(v, _slice_info(v).spec, name) for v in parts]


def _check_slices(name: str, parts: list) -> None:
    full_names = []
    for part in parts:
        if not is_variable(part):
            raise ValueError(f"Slices must all be Variables: {part!r}")
        info = _slice_info(part)
        if info is None:
            raise ValueError(f"Slices must all be slices: {part!r} of '{name}' is a whole variable")
        full_names.append(info.full_name)
    if len(set(full_names)) > 1:
        raise ValueError("Slices must all be from the same tensor: "
                         f"{', '.join(dict.fromkeys(full_names))}")
