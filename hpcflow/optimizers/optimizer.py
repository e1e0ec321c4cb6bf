"""Optimizer: gradients of a loss, and the updates that they make to variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.autodiff.gradients import gradients
from hpcflow.dtypes import DType
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    colocate_with,
    control_dependencies,
    get_collection,
    get_collection_ref,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common import grouping
from hpcflow.ops.state import state
from hpcflow.ops.state.partitioned import PartitionedVariable
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.slots import (
    create_filled_slot,
    create_slot,
    create_slot_with_initializer,
    slot_key,
)
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.graph import Graph


class Optimizer:
    """Base of the optimizers.

    ``minimize`` is ``compute_gradients`` followed by ``apply_gradients``; between the two a program
    may change the gradients. A subclass creates its slots in ``_create_slots``, makes tensors of
    its hyperparameters in ``_prepare`` and adds the update of one variable in ``_apply_dense`` and
    ``_apply_sparse``.

    Args:
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slots.

    Raises ``ValueError`` for an empty name.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    _kept: tuple[str, ...] = ()
    _tensor_suffix = "_tensor"

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[tuple[Graph, str], Variable]] = {}
        self._slotted: dict[tuple[Graph, str], Any] = {}  # the variables that slots belong to
        self._non_slot_dict: dict[tuple[str, Any], Variable] = {}

    def get_name(self) -> str:
        """Return the optimizer's name."""
        return self._name

    # ------------------------------------------------------------ gradients

    def minimize(self, loss: Tensor, global_step: Variable | None = None,
                 var_list: Sequence[Variable] | None = None, gate_gradients: int = GATE_OP,
                 aggregation_method: int | None = None, colocate_gradients_with_ops: bool = False,
                 name: str | None = None, grad_loss: Any = None) -> Operation:
        """Return an operation that updates the variables against the gradient of `loss`.

        Args: as of :meth:`compute_gradients` and :meth:`apply_gradients`.

        Raises ``ValueError`` if no variable has a gradient.
        """
        pairs = self.compute_gradients(
            loss, var_list=var_list, gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops, grad_loss=grad_loss)
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(v.op.name for _, v in pairs)
            raise ValueError(f"No gradients provided for any variable: no differentiable path "
                             f"leads from the variables {names} to the loss {loss!r}")
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(self, loss: Tensor, var_list: Sequence[Any] | None = None,
                          gate_gradients: int = GATE_OP, aggregation_method: int | None = None,
                          colocate_gradients_with_ops: bool = False,
                          grad_loss: TensorLike | None = None) -> list[tuple[Any, Variable]]:
        """Return (gradient, variable) pairs; the gradient of a variable may be None.

        Args:
            loss: the tensor to minimize, or a function without arguments that returns it.
            var_list: variables; the trainable ones of the graph if None. Other tensors may be
                among them, too, but :meth:`apply_gradients` does not take these.
            gate_gradients: ``GATE_NONE``; ``GATE_OP``: an operation's gradients are used when all
                of them are there; ``GATE_GRAPH``: when those of all variables are.
            aggregation_method: how gradients that meet are added.
            colocate_gradients_with_ops: place gradients with the operations they belong to.
            grad_loss: the gradient of the loss, ones if None.

        Raises ``TypeError``/``ValueError`` for wrong arguments, or without variables.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError("gate_gradients must be one of GATE_NONE, GATE_OP, GATE_GRAPH, got "
                             f"{gate_gradients!r}")
        loss = loss() if callable(loss) else loss
        place = get_default_graph()._place
        loss = loss if place is None else place.scaled(loss)
        self._assert_valid_dtypes([t for t in (loss, grad_loss) if t is not None])
        variables = _checked_variables(var_list)
        grads = gradients(
            loss, [_target(v) for v in variables], grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP, aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gate_gradients == self.GATE_GRAPH:
            grads = grouping.tuple(grads)
        self._assert_valid_dtypes([v for g, v in zip(grads, variables) if g is not None])
        return list(zip(grads, variables))

    # ------------------------------------------------------------ updates

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]],
                        global_step: Variable | None = None,
                        name: str | None = None) -> Operation:
        """Return an operation that applies the gradients, then increments `global_step`.

        Args:
            grads_and_vars: pairs as from :meth:`compute_gradients`.
            global_step: variable to increment when the updates are done.
            name: name of the operation; the optimizer's if None.

        Raises: ``TypeError`` for a gradient of a wrong kind, ``ValueError`` without gradients,
            ``NotImplementedError`` for a tensor in place of a variable.
        """
        pairs = [(_checked_gradient(g), v) for g, v in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        place = get_default_graph()._place
        pairs = pairs if place is None else place.reduced(pairs)
        with_gradient = [v for g, v in pairs if g is not None]
        if not with_gradient:
            raise ValueError("No gradients provided for any variable: "
                             f"{', '.join(v.op.name for _, v in pairs)}.")
        with control_dependencies(None):
            self._create_slots(with_gradient)
        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = [self._update(g, v) for g, v in pairs if g is not None]
            if global_step is None:
                done = self._finish(updates, scope)
            else:
                done = self._count(self._finish(updates, "update"), global_step, scope)
        train_ops = get_collection_ref(GraphKeys.TRAIN_OP)
        if done not in train_ops:
            train_ops.append(done)
        return done

    def _update(self, grad: Tensor | IndexedSlices, var: Variable) -> Operation:
        if isinstance(var, Tensor) and not var.dtype._is_ref_dtype:
            raise NotImplementedError(f"Trying to update a Tensor: {var!r}")
        with name_scope(f"update_{var.op.name}"), colocate_with(var):
            constraint = getattr(var, "constraint", None)
            by_handle = getattr(var, "_is_by_handle", False)
            if isinstance(grad, IndexedSlices):
                if constraint is not None:
                    raise RuntimeError("Cannot use a constraint function on a sparse variable.")
                if by_handle:
                    return self._resource_apply_sparse_duplicate_indices(
                        grad.values, var, grad.indices)
                return self._apply_sparse_duplicate_indices(grad, var)
            apply = self._resource_apply_dense if by_handle else self._apply_dense
            update = apply(grad, var)
            return update if constraint is None else constrained(var, constraint, [update])

    def _count(self, updates: Operation, global_step: Variable, scope: str) -> Operation:
        with control_dependencies([updates]), colocate_with(global_step):
            return state.assign_add(global_step, 1, name=scope).op

    # ------------------------------------------------------------ slots

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot `name` of `var`, or None."""
        return self._slots.get(name, {}).get(slot_key(var))

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots, sorted."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Return the variables of the optimizer in the default graph, sorted by name."""
        graph = get_default_graph()
        found = [v for slots in self._slots.values() for v in slots.values()]
        return sorted([v for v in (*found, *self._non_slot_variables()) if v.graph is graph],
                      key=lambda v: v.name)

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        """The variables that belong to no other, by name, for checkpoints of objects."""
        graph = get_default_graph()
        return [(v.op.name.rsplit("/", 1)[-1], v) for v in self._non_slot_variables()
                if v.graph is graph]

    def _checkpoint_slots(self) -> list[tuple[Any, str, Variable]]:
        """Variables with their slots, and the names of these."""
        return [(self._slotted[key], name, slot) for name, slots in self._slots.items()
                for key, slot in slots.items()]

    def _non_slot_variables(self) -> list[Variable]:
        """The variables that belong to no other variable."""
        return list(self._non_slot_dict.values())

    def _create_non_slot_variable(self, initial_value: Any, name: str,
                                  colocate_with: Variable) -> Variable:
        """The variable `name` that belongs to no other one, made where `colocate_with` is."""
        key = (name, colocate_with.graph)
        if key not in self._non_slot_dict:
            with get_default_graph().colocate_with(colocate_with):
                self._non_slot_dict[key] = Variable(
                    initial_value, name=name, trainable=False,
                    use_resource=getattr(colocate_with, "_is_by_handle", False))
        return self._non_slot_dict[key]

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Variable | None:
        """A variable of :meth:`_create_non_slot_variable`, None if there is none in `graph`."""
        return self._non_slot_dict.get((name, graph or get_default_graph()))

    def _slot_dict(self, slot_name: str) -> dict[tuple[Graph, str], Variable]:
        return self._slots.setdefault(slot_name, {})

    def _slot_of(self, var: Variable, slot_name: str, make: Callable[[], Variable]) -> Variable:
        """The slot `slot_name` of `var`, by `make` if there is none yet."""
        slots, key = self._slot_dict(slot_name), slot_key(var)
        if key not in slots:
            slots[key] = make()
            self._slotted[key] = var
        return slots[key]

    def _get_or_make_slot(self, var: Variable, val: Tensor, slot_name: str,
                          op_name: str) -> Variable:
        """The slot `slot_name` of `var`, made with the initial value `val`."""
        return self._slot_of(var, slot_name, lambda: create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(self, var: Variable, initializer: Callable[..., Any],
                                           shape: TensorShape, dtype: DType, slot_name: str,
                                           op_name: str) -> Variable:
        """The slot `slot_name` of `var`, made by an initializer."""
        return self._slot_of(var, slot_name, lambda: create_slot_with_initializer(
            var, initializer, shape, dtype, op_name))

    def _call_if_callable(self, param: Callable[..., Any]) -> Any:
        """A hyperparameter that may be given as a function without arguments."""
        return param() if callable(param) else param

    def _filled_slot(self, var: Variable, value: float, slot_name: str, op_name: str) -> Variable:
        """The slot `slot_name` of `var`, made with all elements `value`."""
        return self._slot_of(var, slot_name, lambda: create_filled_slot(var, value, op_name))

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Variable:
        return self._filled_slot(var, 0, slot_name, op_name)

    # ------------------------------------------------------------ what subclasses define

    def _valid_dtypes(self) -> set[DType]:
        """The element types of losses, gradients and variables."""
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _assert_valid_dtypes(self, tensors: list) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            dtype = convert_to_tensor(tensor).dtype.base_dtype
            if dtype not in valid:
                names = ", ".join(sorted(t.name for t in valid))
                raise ValueError(f"Invalid type {dtype.name} for {getattr(tensor, 'name', tensor)},"
                                 f" expected one of: {names}")

    def _create_slots(self, var_list: list[Variable]) -> None:
        """Make the slots of `var_list` that do not exist yet."""

    def _keep(self, **hyperparameters: Any) -> None:
        """Keep each hyperparameter as an attribute that has an underscore before its name.

        Its tensor, of :meth:`_prepare`, has the suffix of the class behind. These are the names
        of 1.x, by which optimizers that programs derive from ours read and set them.
        """
        self._kept = tuple(hyperparameters)
        for name, value in hyperparameters.items():
            setattr(self, f"_{name}", value)
            setattr(self, f"_{name}{self._tensor_suffix}", None)

    def _prepare(self) -> None:
        """Make tensors of the hyperparameters."""
        for name in self._kept:
            value = getattr(self, f"_{name}")
            setattr(self, f"_{name}{self._tensor_suffix}", hyperparameter(value, name))

    def _scalars(self, var: Variable) -> list[Any]:
        """The tensors of the hyperparameters in the element type of `var`."""
        return [cast(getattr(self, f"_{name}{self._tensor_suffix}"), var.dtype)
                for name in self._kept]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        """Return the update of `var` by `grad`."""
        raise NotImplementedError

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        """Return the update of the rows of `var` in `grad`, whose indices are unique."""
        raise NotImplementedError

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Operation:
        """As :meth:`_apply_sparse` for indices that may repeat: their rows are summed first."""
        values, indices = deduplicated(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    # For variables by handle, where an optimizer has something of its own for these.

    def _resource_apply_dense(self, grad: Tensor, handle: Variable) -> Operation:
        """Return the update of the variable `handle`, held by a resource handle."""
        return self._apply_dense(grad, handle)

    def _resource_apply_sparse(self, grad: Tensor, handle: Variable,
                               indices: Tensor) -> Operation:
        """Return the update of the rows `indices`, which are unique, of the variable `handle`."""
        return self._apply_sparse(IndexedSlices(grad, indices), handle)

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: Variable,
                                                 indices: Tensor) -> Operation:
        """As :meth:`_resource_apply_sparse` for indices that may repeat."""
        if type(self)._resource_apply_sparse is Optimizer._resource_apply_sparse:
            return self._apply_sparse_duplicate_indices(IndexedSlices(grad, indices), handle)
        values, unique = deduplicated(grad, indices)
        return self._resource_apply_sparse(values, handle, unique)

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        """Return the operation that finishes when all updates are made."""
        return grouping.group(*update_ops, name=name_scope)


def constrained(var: Variable, constraint: Callable, updates: list[Any]) -> Operation:
    """Put the value that the constraint makes of it into `var`, after `updates`."""
    with control_dependencies(updates):
        return state.assign(var, constraint(var.read_value())).op


def deduplicated(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and indices such that every index occurs once, with its rows summed."""
    unique, positions = raw_ops.Unique(indices)
    count = raw_ops.Squeeze(raw_ops.Shape(unique), squeeze_dims=[0])
    return raw_ops.UnsortedSegmentSum(values, positions, count), unique


def cast(x: TensorLike, dtype: DType) -> Tensor:
    """`x` as a tensor of the base type of `dtype`."""
    tensor = convert_to_tensor(x)
    dtype = dtype.base_dtype
    return tensor if tensor.dtype.base_dtype is dtype else raw_ops.Cast(tensor, DstT=dtype)


def hyperparameter(value: Any, name: str) -> Tensor:
    """A learning rate, say, as a tensor: it may be given as a function without arguments."""
    return convert_to_tensor(value() if callable(value) else value, name=name)


def _checked_variables(var_list: Sequence[Any] | None) -> list:
    """The variables to differentiate by; partitioned ones stand for their slices."""
    if var_list is None:
        var_list = get_collection(GraphKeys.TRAINABLE_VARIABLES)
    flat: list[Any] = []
    for var in nest.as_list(var_list):
        flat.extend(var if isinstance(var, (PartitionedVariable, list, tuple)) else [var])
    if not flat:
        raise ValueError("No variables to optimize.")
    for var in flat:
        _target(var)
    return flat


def _target(var: Variable) -> Tensor:
    if isinstance(var, Variable):
        return var._ref()
    if isinstance(var, Tensor):
        return var
    raise TypeError(f"Argument is not a tf.Variable: {var!r}")


def _checked_gradient(grad: Tensor | IndexedSlices) -> Any:
    if grad is None or isinstance(grad, (Tensor, IndexedSlices)):
        return grad
    try:
        return convert_to_tensor(grad)
    except (TypeError, ValueError):
        raise TypeError(
            f"Gradient must be a Tensor, IndexedSlices, or None: {grad!r}") from None
