"""The base of recurrent cells, and the affine map that they are made of."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from hpcflow import dtypes
from hpcflow.contrib.rnn.configuration import Configured
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, get_collection, get_default_graph, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.layers.base import Dependency, Layer
from hpcflow.nn.rnn_steps import batch_size_of, static_batch, zeros_of
from hpcflow.ops.math.elementwise import tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope
    from hpcflow.ops.state.variables import Variable
    from hpcflow.shapes import ShapeLike

WEIGHTS, BIASES = "kernel", "bias"

# The attributes of cells that have their variables, by the names and inner scopes of these.
_ATTRIBUTES = {WEIGHTS: "_kernel", BIASES: "_bias"}
_INNER = {(): "", ("gates",): "_gate", ("candidate",): "_candidate"}


class RNNCell(Configured, Layer):
    """One step of a recurrent network: ``cell(inputs, state) -> (output, new state)``.

    The variables are made by the first step, in the variable scope there; all later steps of the
    same cell use them, wherever they are made. Another cell has variables of its own.

    `inputs` has shape ``[batch, size]``; state and output have one row per batch entry and, after
    it, the sizes that `state_size` and `output_size` say: numbers, shapes or nests of these.

    A cell of one's own defines ``call(inputs, state)``, and ``build(input_shape)`` like any
    ``Layer``; or ``__call__`` itself, which then opens its variable scope by itself.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None,
                 **keywords: Any) -> None:
        super().__init__(trainable, name, dtype, **keywords)
        self._given_name = name
        # The scope of the first step in each graph.
        self._scopes: WeakKeyDictionary[Graph, VariableScope] = WeakKeyDictionary()

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Let the ``call`` of a class count, also where a class that it is made of has a
        ``__call__`` of its own."""
        super().__init_subclass__(**keywords)
        if "call" in vars(cls) and "__call__" not in vars(cls):
            cls.__call__ = RNNCell.__call__  # type: ignore[method-assign]

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step; variables are made in the variable scope `scope` at the first call."""
        if type(self).call is Layer.call:
            raise NotImplementedError(f"{type(self).__name__} does not say what it computes")
        return super().__call__(inputs, state, **({} if scope is None else {"scope": scope}))

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables for inputs of a shape, unless the first step has done so."""
        if type(self).call is Layer.call and get_default_graph() not in self._scopes:
            with name_scope("build"):
                inputs = raw_ops.Placeholder(dtype=self._dtype or dtypes.float32,
                                             shape=input_shape)
                self(inputs, self.get_initial_state(inputs))
        super().build(input_shape)

    @property
    def dtype(self) -> Any:
        """The element type given, or that of the variables; None before there are any."""
        made = self.variables
        return made[0].dtype.base_dtype if self._dtype is None and made else self._dtype

    @property
    def state_size(self) -> Any:
        """The size or sizes of the state."""
        raise NotImplementedError(f"{type(self).__name__} does not say its state_size")

    @property
    def output_size(self) -> Any:
        """The size or sizes of the output."""
        raise NotImplementedError(f"{type(self).__name__} does not say its output_size")

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Return a state of zeros for `batch_size` rows (a number or a scalar tensor)."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            sizes = self.state_size
            leaves = nest.flatten(sizes)
            of_each = 10 if isinstance(batch_size, Tensor) else 8
            with counted_as(get_default_graph(), of_each * len(leaves)):
                return nest.pack_as(sizes, [zeros_of(s, batch_size, dtypes.as_dtype(dtype))
                                            for s in leaves])

    def get_initial_state(self, inputs: TensorLike | None = None,
                          batch_size: TensorLike | None = None,
                          dtype: DTypeLike | None = None) -> Any:
        """Return :meth:`zero_state` for the rows and the dtype of `inputs`, or for those given.

        Raises ``ValueError`` where neither says them, or both do and disagree: of sizes one that
        is known and one that is not, too.
        """
        if inputs is not None:
            inputs = convert_to_tensor(inputs)
            found = batch_size_of(inputs)
            if batch_size is None:
                batch_size = found
            _check_agreed("batch size", static_batch(batch_size), static_batch(found))
            own = inputs.dtype.base_dtype
            dtype = own if dtype is None else dtypes.as_dtype(dtype)
            _check_agreed("dtype", dtype, own)
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype cannot be None without inputs: "
                             f"batch_size={batch_size}, dtype={dtype}")
        return self.zero_state(batch_size, dtype)

    @contextmanager
    def _step_scope(self, scope: str | VariableScope | None, default: str,
                    reuse: bool | None = None, **options: Any) -> Iterator[Any]:
        """Open the variable scope of a step: that of the cell's first one with its variables, else
        `scope`, the name given to the cell, or `default`."""
        graph = get_default_graph()
        first = self._scopes.get(graph)
        if first is not None:
            with variable_scope(first, reuse=True) as entered:
                yield entered
            return
        name = scope or _free_name(self._given_name or default, reuse)
        if not self.trainable:
            options["custom_getter"] = _untrained
        with variable_scope(name, reuse=reuse, **options) as entered:
            _taken.setdefault(graph, set()).add(entered.name)
            existing = get_collection(GraphKeys.GLOBAL_VARIABLES)
            yield entered
            for variable in get_collection(GraphKeys.GLOBAL_VARIABLES)[len(existing):]:
                # A custom getter may have decided that it is not trained.
                trained = self.trainable and getattr(variable, "trainable", True)
                self._note_variable(variable, trained)
                self._keep(variable, entered.name)
            self._scopes[graph] = entered

    def _keep(self, variable: Variable, scope: str) -> None:
        """Keep a variable of the cell's own as ``_kernel``, ``_bias``, ``_gate_kernel`` ..., by
        which programs know them."""
        *inner, name = variable.op.name.removeprefix(f"{scope}/").split("/")
        kind = _ATTRIBUTES.get(name)
        if kind is not None and tuple(inner) in _INNER:
            setattr(self, _INNER[tuple(inner)] + kind, variable)

    def _inner_cells(self) -> list[tuple[str, RNNCell]]:
        """The cells that this one is made of, with their names in checkpoints of objects."""
        return []

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        inner = [Dependency(*one) for one in self._inner_cells()]
        theirs = {id(v) for _, cell in inner for v in cell.variables}
        return [*inner, *(one for one in super()._checkpoint_dependencies
                          if id(one[1]) not in theirs)]

    def _name_inside(self, variable: Variable) -> str:
        first = self._scopes.get(variable.graph)
        if first is None:
            return super()._name_inside(variable)
        return variable.op.name.removeprefix(f"{first.name}/")

    def __deepcopy__(self, memo: dict) -> RNNCell:
        """A cell whose inner cells are its own, too."""
        copied = cast(RNNCell, super().__deepcopy__(memo))
        copied._scopes = WeakKeyDictionary()
        for key, value in copied.__dict__.items():
            if any(isinstance(part, RNNCell) for part in nest.flatten(value)):
                copied.__dict__[key] = copy.deepcopy(value, memo)
        return copied


_taken: WeakKeyDictionary[Graph, set[str]] = WeakKeyDictionary()  # scopes of all cells' steps


def _free_name(name: str, reuse: bool | None) -> str:
    """Return `name`, or the next free name if other cells have made steps in that scope."""
    outer = get_variable_scope()
    if reuse or outer.reuse:
        return name
    taken = _taken.get(get_default_graph(), set())
    inside = f"{outer.name}/" if outer.name else ""
    names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
    return next(free for free in names if inside + free not in taken)


def _untrained(getter: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """A getter of variables that no optimizer changes."""
    return getter(*args, **{**keywords, "trainable": False})


def _check_agreed(what: str, given: Any, found: Any) -> None:
    """Raise ``ValueError`` if what is given and what the inputs have are not the same."""
    if given != found:
        raise ValueError(f"{what} of the inputs is {found}, but {given} was given")


# The op types of activations that cells take by name.
_NAMED = {"elu": "Elu", "exponential": "Exp", "linear": "Identity", "relu": "Relu",
          "relu6": "Relu6", "selu": "Selu", "sigmoid": "Sigmoid", "softmax": "Softmax",
          "softplus": "Softplus", "softsign": "Softsign", "tanh": "Tanh"}


def activation_of(given: Callable | str | None) -> Callable:
    """Return an activation given as a function or by its name; the hyperbolic tangent if None.

    Raises ``ValueError`` for a name of none.
    """
    if not isinstance(given, str):
        return given or tanh
    if given not in _NAMED:
        raise ValueError(f"Unknown activation function: '{given}'; known are {sorted(_NAMED)}")
    named: Callable = getattr(raw_ops, _NAMED[given])
    return named


def takes_later_order(make: Callable[..., None]) -> Callable[..., None]:
    """Let an ``__init__`` with the argument `input_size`, which later versions dropped, also take
    their arguments by position: what stands there is then a function or a boolean."""
    place = list(inspect.signature(make).parameters).index("input_size") - 1

    def reordered(args: tuple) -> tuple:
        if len(args) > place and (isinstance(args[place], bool) or callable(args[place])):
            return (*args[:place], None, *args[place:])
        return args

    @functools.wraps(make)
    def made(self: Any, *args: Any, **keywords: Any) -> None:
        make(self, *reordered(args), **keywords)

    made.__signature__ = inspect.signature(make)  # type: ignore[attr-defined]
    made.reordered = reordered  # type: ignore[attr-defined]
    return made


def check_floating(dtype: DTypeLike | None) -> None:
    """Raise ``ValueError`` for the numbers of a cell that are no floating ones."""
    if dtype is not None and not dtypes.as_dtype(dtype).is_floating:
        raise ValueError("RNN cell only supports floating point inputs, but saw dtype: "
                         f"{dtypes.as_dtype(dtype).name}")


class UnitCell(RNNCell):
    """A cell whose state and output are a vector of `num_units` numbers each."""

    def __init__(self, num_units: int, **keywords: Any) -> None:
        check_floating(keywords.get("dtype"))
        super().__init__(**keywords)
        self._num_units = num_units

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units


def affine(values: Sequence[Any], output_size: int, *options: Any, **named: Any) -> Tensor:
    """Return ``concat(values, 1) @ kernel (+ bias)``; see :func:`affine_like`."""
    tensors = [convert_to_tensor(v) for v in values]
    return affine_like(tensors, output_size, *options, **named)(tensors)


def affine_like(tensors: Sequence[Tensor], output_size: int, bias: bool = True,
                bias_start: float = 0.0, kernel_initializer: InitializerLike | None = None,
                bias_initializer: InitializerLike | None = None,
                kernel_partitioner: Callable | None = None) -> Callable[[Sequence[Tensor]], Tensor]:
    """Make the variables for matrices with as many columns as those given.

    Returns ``f(values)``, which computes ``concat(values, 1) @ kernel (+ bias)``, shape
    ``[batch, output_size]``. The bias begins at `bias_start` where it has no initializer. Raises
    ``ValueError`` for what is no matrix of known size.
    """
    sizes = []
    for tensor in tensors:
        dims = tensor._dims
        if dims is None or len(dims) != 2 or dims[1] is None:
            raise ValueError(f"a cell's inputs and states must have shape [batch, size] with a "
                             f"known size, got {tensor.shape} of {tensor.name}")
        sizes.append(dims[1])
    dtype = tensors[0].dtype.base_dtype
    weights = get_variable(WEIGHTS, [sum(sizes), output_size], dtype, kernel_initializer,
                           partitioner=kernel_partitioner)
    biases = get_variable(BIASES, [output_size], dtype,
                          bias_initializer or Constant(bias_start, dtype)) if bias else None

    def compute(values: Sequence[Tensor]) -> Tensor:
        joined = values[0] if len(values) == 1 else raw_ops.ConcatV2(values, 1)
        product = raw_ops.MatMul(joined, convert_to_tensor(weights))
        return product if biases is None else raw_ops.BiasAdd(product, convert_to_tensor(biases))

    return compute
