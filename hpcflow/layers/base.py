"""Layer: an object that makes its variables once and can be applied to any number of inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.base.tracking import tracked_attributes
from hpcflow.dtypes import DTypeLike
from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import (
    Graph,
    add_to_collection,
    get_collection,
    get_default_graph,
    graph_of,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.layers.building import activity_loss, regularizer_below
from hpcflow.layers.helpers import items_of
from hpcflow.layers.input_spec import InputSpec, check_input
from hpcflow.layers.module import Module
from hpcflow.layers.names import get_uid
from hpcflow.ops.state.replication import VariableSynchronization
from hpcflow.ops.state.variable_scope import (
    VariableScope,
    get_variable,
    outside_of_layers,
    variable_scope,
)
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable


class Dependency(NamedTuple):
    """An object that has variables, and its name in the object that has it."""

    name: str
    ref: Any


class Layer(Module):
    """Base class of layers.

    A layer of one's own defines ``call(inputs, ...)``, and ``build(input_shape)``, which is called
    before the first ``call`` and makes variables by :meth:`add_variable`. Calling the layer opens
    its variable scope: that of its name, made unique when the layer is first called. Later calls
    use the variables that there are.

    Args:
        trainable: whether optimizers may change the variables.
        name: name of the scope; from the name of the class if None.
        dtype: element type of variables that are made without one; from the first input if None.
        _reuse: use the variables that exist in the scope, which is not made unique.
        activity_regularizer: function of the result whose result joins the losses.

    Attributes:
        built: whether the variables have been made.
        input_spec: an :class:`InputSpec`, or a list of them, that inputs are checked against.
    """

    def __init__(self, trainable: bool = True, name: str | None = None,
                 dtype: DTypeLike | None = None, activity_regularizer: Callable | None = None,
                 _reuse: bool | None = None, _scope: VariableScope | str | None = None) -> None:
        self.trainable = trainable
        self.built = False
        self._called = False
        self.input_spec: Any = None
        self._with_inputs: set[int] = set()
        self.activity_regularizer = activity_regularizer
        self._base_name = name or _snake_case(type(self).__name__)
        self._name = name or f"{self._base_name}_{get_uid(self._base_name)}"
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._reuse = _reuse
        self._given_scope = _scope
        self._scope: VariableScope | None = None
        self._graph: Graph | None = None
        self._trainable_weights: list[Any] = []  # derived classes may append to both
        self._non_trainable_weights: list[Any] = []
        self._updates: list[Operation] = []
        self._losses: list[Tensor] = []

    # ------------------------------------------------------------ what there is

    @property
    def name(self) -> str:
        """The name of the layer: the one given, or that of its class with a number, ``dense_1`` for
        the first. Layers of Keras count on from it and begin without a number, so that one of them
        may have the same name. Its variables have names of their own, by the variable scope."""
        return self._name

    @property
    def scope_name(self) -> str:
        """The name of the variable scope. ``ValueError`` before the layer is first called, unless
        a scope was given."""
        if self._scope is None and isinstance(self._given_scope, VariableScope):
            return self._given_scope.name
        if self._scope is None:
            raise ValueError(f"No name available for layer scope because the layer "
                             f"'{self.name}' has not been used yet.")
        return self._scope.name

    @property
    def graph(self) -> Graph | None:
        """The graph that the layer belongs to; None before it has variables or is called."""
        return self._graph

    @property
    def dtype(self) -> Any:
        """The element type of its variables, if it is known."""
        return self._dtype

    @property
    def variables(self) -> list:
        """The variables that the layer has made: those that optimizers change come first."""
        return self.trainable_variables + self.non_trainable_variables

    @property
    def trainable_variables(self) -> list:
        """Those of the variables that optimizers change, in the order in which they were made."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_variables(self) -> list:
        """The other variables; all of them if the layer as a whole is not `trainable`."""
        frozen = [] if self.trainable else self._trainable_weights
        return [*frozen, *self._non_trainable_weights]

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    def get_weights(self) -> list:
        """Return the values of the variables in the default session; ``ValueError`` without one."""
        return _session().run(self.weights)

    def set_weights(self, weights: list) -> None:
        """Give the variables values in the default session, in their order.

        Raises ``ValueError`` for another number or other shapes of values, or without a session.
        """
        session, variables = _session(), self.weights
        if len(weights) != len(variables):
            raise ValueError(f"layer '{self.name}' has {len(variables)} variables, but there are "
                             f"{len(weights)} values")
        for variable, value in zip(variables, weights, strict=True):
            if not variable.get_shape().is_compatible_with(np.shape(value)):
                raise ValueError(f"variable {variable.name} has shape {variable.get_shape()}, the "
                                 f"value {np.shape(value)}")
        for variable, value in zip(variables, weights, strict=True):
            variable.load(value, session)

    @property
    def updates(self) -> list[Operation]:
        """The operations that are to be run with the training step."""
        return list(self._updates)

    @property
    def losses(self) -> list[Tensor]:
        """The regularization losses of variables and results."""
        return list(self._losses)

    def count_params(self) -> int:
        """Return the number of elements of all variables. ``ValueError`` if not built."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self.name}, but the layer "
                             "isn't built.")
        return sum(v.get_shape().num_elements() for v in self.variables)

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        """Variables, and attributes that may have some, by name, for checkpoints of objects."""
        attributes = [Dependency(k, v) for k, v in tracked_attributes(self) if not k.startswith("_")
                      and not (v is None or isinstance(v, (bool, int, float, str)))]
        return attributes + [Dependency(self._name_inside(v), v) for v in self.variables]

    def _name_inside(self, variable: Variable) -> str:
        """The name of a variable of the layer in the layer's scope."""
        scope = "" if self._scope is None else f"{self._scope.name}/"
        return variable.op.name.removeprefix(scope)

    # ------------------------------------------------------------ what a layer makes

    def add_variable(self, name: str, shape: ShapeLike, dtype: DTypeLike | None = None,
                     initializer: InitializerLike | None = None,
                     regularizer: Callable | None = None, trainable: bool | None = None,
                     constraint: Callable | None = None, partitioner: Callable | None = None,
                     use_resource: bool | None = None, synchronization: Any = None,
                     aggregation: Any = None) -> Any:
        """Return the variable `name` of the layer's scope, made before and in the first call.

        Arguments as of ``get_variable``; variables are trained unless they are combined when they
        are read (``VariableSynchronization.ON_READ``). Raises ``ValueError`` for a new name in a
        later call, or for one of these that is to be trained.
        """
        with self._entered_scope() as scope, self._noting_losses():
            if regularizer is not None:
                regularizer = regularizer_below(f"{scope.original_name_scope}{name}", regularizer)
            combined = synchronization is VariableSynchronization.ON_READ
            if combined and trainable:
                raise ValueError(
                    "Synchronization value can be set to VariableSynchronization.ON_READ only for "
                    "non-trainable variables. You have specified trainable=True and "
                    f"synchronization=VariableSynchronization.ON_READ. ({name})")
            trainable = not combined if trainable is None else trainable
            trained = trainable and self.trainable
            variable = get_variable(name, shape, dtype or self._dtype, initializer, regularizer,
                                    trained, partitioner=partitioner, use_resource=use_resource,
                                    constraint=constraint, synchronization=synchronization,
                                    aggregation=aggregation)
            # A custom getter may have decided that it is not trained.
            followed = not trained or getattr(variable, "trainable", True)
            self._note_variable(variable, trainable and followed)
            return variable

    add_weight = add_variable

    def get_losses_for(self, inputs: Any) -> list[Tensor]:
        """Return the losses that depend on `inputs`; of None, those that depend on no input."""
        return self._of_inputs(self.losses, inputs)

    def get_updates_for(self, inputs: Any) -> list[Operation]:
        """Return the updates that depend on `inputs`; of None, those that depend on no input."""
        return self._of_inputs(self.updates, inputs)

    def _of_inputs(self, made: list, inputs: Any) -> list:
        conditional = self._conditional()
        if inputs is None:
            return [item for item in made if id(item) not in conditional]
        return items_of([item for item in made if id(item) in conditional], inputs)

    def _conditional(self) -> set[int]:
        """The ids of the losses and updates that are there for some inputs alone."""
        return self._with_inputs

    def add_loss(self, losses: TensorLike, inputs: Any = None) -> None:
        """Add a loss, or a list of them, also to the collection of regularization losses.

        Losses without `inputs` are those of variables alone.
        """
        for loss in nest.flatten(losses):
            self._losses.append(loss)
            self._note_inputs(loss, inputs)
            add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)

    def add_update(self, updates: TensorLike, inputs: Any = None) -> None:
        """Add an update, or a list of them, also to the collection UPDATE_OPS.

        Updates without `inputs` are those that depend on no input.
        """
        for update in nest.flatten(updates):
            self._updates.append(update)
            self._note_inputs(update, inputs)
            add_to_collection(GraphKeys.UPDATE_OPS, update)

    def _note_inputs(self, item: Any, inputs: Any) -> None:
        if inputs is not None:
            self._with_inputs.add(id(item))

    def _note_variable(self, variable: Variable, trained: bool) -> None:
        if not any(variable is v for v in self.variables):
            kept = self._trainable_weights if trained else self._non_trainable_weights
            kept.append(variable)

    @contextmanager
    def _noting_losses(self) -> Iterator[None]:
        """Note what joins the collection of regularization losses meanwhile."""
        before = len(get_collection(GraphKeys.REGULARIZATION_LOSSES))
        yield
        self._losses += get_collection(GraphKeys.REGULARIZATION_LOSSES)[before:]

    # ------------------------------------------------------------ applying it

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables for inputs of a shape (a nest of shapes for a nest of inputs)."""
        self.built = True

    def call(self, inputs: TensorLike, *args: Any, **keywords: Any) -> Any:
        """Return the result; derived classes say what it is."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **keywords: Any) -> Any:
        """Return the result for `inputs`, a tensor or a nest of tensors.

        With the keyword `scope` the first call takes that variable scope. Raises ``ValueError``
        for inputs that do not fit :attr:`input_spec`, or are of another graph.
        """
        scope = keywords.pop("scope", None)
        inputs, tensors = _converted(inputs)
        graph = graph_of(tensors)
        self._check_inputs(graph, tensors)
        with graph.as_default(), self._entered_scope(scope) as entered:
            with name_scope(entered.original_name_scope or None):
                if not self.built:
                    if self._dtype is None and tensors:
                        self._dtype = tensors[0].dtype.base_dtype
                    self.build(_packed(inputs, [t.get_shape() for t in tensors]))
                outputs = self.call(inputs, *args, **keywords)
                self._regularize(outputs, inputs)
        self.built = self._called = True
        return outputs

    def apply(self, inputs: TensorLike, *args: Any, **keywords: Any) -> Any:
        """The same as calling the layer."""
        return self(inputs, *args, **keywords)

    def _check_inputs(self, graph: Graph, tensors: list[Tensor]) -> None:
        if self._graph not in (None, graph):
            raise ValueError("Input graph and Layer graph are not the same: layer "
                             f"'{self.name}' belongs to another graph than its inputs")
        specs = self.input_spec
        if specs is None or isinstance(specs, InputSpec):
            specs = [specs] * len(tensors)
        for position, (spec, tensor) in enumerate(zip(specs, tensors)):
            if spec is not None:
                check_input(spec, tensor, f"Input {position} of layer {self.name}")

    def _regularize(self, outputs: Any, inputs: Any) -> None:
        if self.activity_regularizer is None:
            return
        for tensor in nest.flatten(outputs):
            loss = activity_loss(self.activity_regularizer, tensor)
            if loss is not None:
                self.add_loss(loss, inputs=inputs)

    @contextmanager
    def _entered_scope(self, scope: VariableScope | str | None = None) -> Iterator[VariableScope]:
        """The layer's variable scope, chosen when it is first entered."""
        if self._scope is None:
            self._graph = get_default_graph()
            chosen = scope if scope is not None else self._given_scope
            if chosen is None and self._reuse:
                chosen = self._base_name
            with self._outside(), variable_scope(chosen, self._base_name) as first:
                self._scope = first
        with self._reentered(self._scope) as entered:
            yield entered

    def _outside(self) -> AbstractContextManager[Any]:
        """A context of the variable scope that the layer's own begins in: where it is applied by a
        layer of Keras, that around this one, as 1.x has none for layers of Keras."""
        return outside_of_layers()

    def _reentered(self, scope: VariableScope) -> AbstractContextManager[VariableScope]:
        """A context of the layer's variable scope."""
        reuse = True if self._called or self._reuse else None
        return variable_scope(scope, reuse=reuse, auxiliary_name_scope=False)

    def __deepcopy__(self, memo: dict) -> Layer:
        """A layer with lists and dicts of its own, and the same graph, scope and tensors."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for key, value in self.__dict__.items():
            own = value.copy() if isinstance(value, (list, dict, set)) else value
            copied.__dict__[key] = own
        return copied


def _converted(inputs: Any) -> tuple[Any, list[Tensor]]:
    """The nest (or dict) with tensors for its values, and these."""
    values = list(inputs.values()) if isinstance(inputs, dict) else nest.flatten(inputs)
    tensors: list[Any] = [v if isinstance(v, SparseTensor) else convert_to_tensor(v)
                          for v in values]
    return _packed(inputs, tensors), tensors


def _packed(inputs: Any, values: list) -> Any:
    if isinstance(inputs, dict):
        return dict(zip(inputs, values, strict=True))
    return nest.pack_sequence_as(inputs, values) if nest.is_sequence(inputs) else values[0]


def _snake_case(name: str) -> str:
    """``max_pooling2d`` for ``MaxPooling2D``; a leading underscore becomes ``private``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^_])(?=[A-Z][a-z0-9])", "_", name).lower()
    return f"private{words}" if words.startswith("_") else words


def _session() -> Any:
    session = get_default_session()
    if session is None:
        raise ValueError("the values of variables are those of a session: use `with session:`")
    return session
